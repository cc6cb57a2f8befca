"""Dask: applying an encoding computes nothing, and chunks equal the whole."""

import numpy as np
import pytest

from posenc_ref import ALiBi, Learned, RoPE, Sinusoidal, T5Bias, convert_layout, scores
from tests.night import by_day

dask = pytest.importorskip("dask", reason="Dask's arrays are what is tried")
da = pytest.importorskip("dask.array", reason="Dask's arrays are what is tried")
# The chunks are small, about which Dask warns.
pytestmark = pytest.mark.filterwarnings("ignore::dask.array.PerformanceWarning")

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 4, 12, 8)).astype(np.float32)
P = np.arange(12) * 1001
ROPE = RoPE(8, layout="half", rotary_dim=6)
WEIGHT = RNG.standard_normal((40, 8)).astype(np.float32)
BUCKETS = RNG.standard_normal((32, 4)).astype(np.float32)
CHUNKS = [(2, 4, 12, 8), (1, 4, 5, 8), (2, 1, 12, 8), (2, 2, 3, 8), (1, 3, 7, 3)]


def refuse(*args, **kwargs):
    raise AssertionError("something was computed")


@pytest.fixture
def refuse_to_compute():
    with dask.config.set(scheduler=refuse):
        yield


def lazy(values, chunks="auto"):
    return da.from_array(values, chunks=chunks)


# Calls of x and positions, on Dask or NumPy.
CALLS = {
    "apply": lambda x, p: ROPE.apply(x, p),
    "inverse": lambda x, p: ROPE.inverse(x, p),
    "shift": lambda x, p: ROPE.shift(x, p),
    "add": lambda x, p: Sinusoidal(8).add(x, p),
    "scores": lambda x, p: scores(ROPE, x, x, p, p),
    "alibi": lambda x, p: scores(ALiBi(4), x, x, p, p),
    "layout": lambda x, p: convert_layout(x, source="half", target="interleaved"),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("chunks", by_day(CHUNKS, {CHUNKS[1], CHUNKS[4]}), ids=str)
def test_chunks_equal_the_whole(name, chunks):
    call = CALLS[name]
    whole = call(X, P)
    for positions in (P, lazy(P, chunks[2])):
        with dask.config.set(scheduler=refuse):
            y = call(lazy(X, chunks), positions)
        assert isinstance(y, da.Array)
        assert y.dtype == whole.dtype
        assert y.shape == whole.shape
        assert (y.compute(scheduler="synchronous") == whole).all()


@pytest.mark.parametrize("chunks", [3, 12])
def test_tables_and_biases_stay_lazy(refuse_to_compute, chunks):
    p, near = lazy(P, chunks), lazy(np.arange(12), chunks)
    rows, learned = Learned(WEIGHT, offset=2), Learned(lazy(WEIGHT, (7, 3)), offset=2)
    t5 = T5Bias(lazy(BUCKETS, (5, 2)))
    built = {
        "cos": (ROPE.cos_sin(p)[0], ROPE.cos_sin(P)[0]),
        "table": (Sinusoidal(8).table(p), Sinusoidal(8).table(P)),
        "alibi": (ALiBi(4).bias(p, p), ALiBi(4).bias(P, P)),
        "mixed": (ALiBi(4).bias(P, p), ALiBi(4).bias(P, P)),
        "learned": (learned.table(near), WEIGHT[2:14]),
        "t5": (t5.bias(near, near), T5Bias(BUCKETS).bias(range(12), range(12))),
        "bucket": (t5.bucket(near), t5.bucket(np.arange(12))),
        "host positions": (learned.table(range(12)), WEIGHT[2:14]),
        "added": (learned.add(lazy(X, (1, 2, 5, 8)), near), rows.add(X, range(12))),
    }
    for name, (ours, want) in built.items():
        assert isinstance(ours, da.Array), name
        assert ours.shape == want.shape, name
        assert ours.dtype == want.dtype, name
        assert (ours.compute(scheduler="synchronous") == want).all(), name


def test_rows_outside_the_domain_are_nan(refuse_to_compute):
    x, p = lazy(X[0, 0, :3]), lazy(np.array([1.0, np.inf, 2.0**41]))
    for y in (ROPE.replace(rotary_dim=8).apply(x, p), Sinusoidal(8).add(x, p)):
        found = np.isnan(y.compute(scheduler="synchronous"))
        assert not found[0].any()
        assert found[1:].all()
    bias = ALiBi(2).bias(p, p).compute(scheduler="synchronous")
    assert np.isnan(bias[:, 1:]).all()
    assert (bias[:, 0, 0] == 0).all()


def test_errors_that_need_no_computation_are_raised_at_once(refuse_to_compute):
    x = lazy(X)
    with pytest.raises(ValueError, match="where S = 12; got positions of shape"):
        ROPE.apply(x, lazy(np.arange(5)))
    with pytest.raises(TypeError, match="positions must be integers for this encoding"):
        Learned(lazy(WEIGHT)).table(lazy(np.arange(5.0)))
    with pytest.raises(ValueError, match="must be finite and at most"):
        ROPE.apply(x, np.full(12, 2.0**41))
    with pytest.raises(TypeError, match="got float16"):
        ROPE.apply(x, lazy(P.astype(np.float16)))


def test_one_chunk_of_the_result_needs_one_chunk_of_x():
    """The graph of one block of the result holds one block of x, as context parallelism needs."""
    x = lazy(X, (2, 4, 3, 8))
    y = ROPE.apply(x, P)
    block = y.blocks[0, 0, 1]
    with dask.config.set(scheduler="synchronous"):
        assert (block.compute() == ROPE.apply(X[:, :, 3:6], P[3:6])).all()
    assert y.chunks[2] == (3, 3, 3, 3)


@pytest.mark.filterwarnings("default")
def test_on_a_cluster():
    """The scheduler of dask.distributed gives the same values."""
    distributed = pytest.importorskip("distributed", reason="distributed runs the workers")
    with distributed.Client(
        processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None
    ):
        y = ROPE.apply(lazy(X, (1, 2, 5, 8)), lazy(P, 5)).compute()
        logits = scores(ALiBi(4), *[lazy(X, (1, 2, 5, 8))] * 2, P, P).compute()
    assert (y == ROPE.apply(X, P)).all()
    assert (logits == scores(ALiBi(4), X, X, P, P)).all()
