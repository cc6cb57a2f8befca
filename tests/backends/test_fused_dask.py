"""The fused path on Dask: lazy, chunk by chunk, and without gathering chunks."""

import contextlib

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.backends import fused
from posenc_ref.conformance import check
from tests.backends.comparison import close
from tests.backends.test_dask import refuse
from tests.backends.test_fused import FUSED, ROTARY, D, positions_of

dask = pytest.importorskip("dask", reason="Dask's arrays are what is tried")
da = pytest.importorskip("dask.array", reason="Dask's arrays are what is tried")
pytestmark = pytest.mark.filterwarnings("ignore::dask.array.PerformanceWarning")
RNG = np.random.default_rng(16)
SHAPE = (2, 4, 12, D)
X = RNG.standard_normal(SHAPE).astype(np.float32)
CHUNKS = [SHAPE, (1, 4, 5, D), (2, 1, 12, D), (1, 3, 7, D), (1, 3, 7, 9)]


def lazy(values, chunks):
    return da.from_array(values, chunks=chunks)


def right(encoding, x, at, y):
    return close(y, encoding.apply(x.astype(np.float64), at), str(x.dtype))


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize("name", FUSED)
def test_chunks_equal_the_whole(name, chunks, rng):
    encoding = ROTARY[name]
    for shape in ((12,), (2, 12), (1, 12), SHAPE[:3]):
        at = positions_of(encoding, rng.integers(0, 2**20, shape))
        with dask.config.set(scheduler=refuse):
            y, path = fused(encoding)(lazy(X, chunks), at, explain=True)
            back = fused(encoding).inverse(y, at)
        assert path == "dask: chunk by chunk, each on its own fast path"
        # Only the chunks along the channels of a head are joined.
        assert y.chunks == (*lazy(X, chunks).chunks[:3], (D,))
        assert right(encoding, X, at, y.compute(scheduler="synchronous"))
        assert back.chunks == y.chunks
    assert close(back.compute(scheduler="synchronous"), X)


def test_other_layouts_dtypes_and_lazy_positions():
    encoding = ROTARY["half"]
    x = X.astype(np.float64)
    y = fused(encoding, tensor_layout="bshd")(lazy(x.swapaxes(1, 2), (1, 5, 2, D)), range(12))
    assert y.chunks[:3] == ((1, 1), (5, 5, 2), (2, 2))
    assert right(encoding, x, range(12), y.compute(scheduler="synchronous").swapaxes(1, 2))
    with dask.config.set(scheduler=refuse):
        at = lazy(np.arange(12), 5)
        y, path = fused(encoding)(lazy(x, (1, 2, 5, D)), at, explain=True)
        table, where = fused(pr.Sinusoidal(8))(at, explain=True)
    assert path == "no fast path: positions are lazy or traced"
    assert where == "no fast path: positions are arrays of dask"
    assert right(encoding, x, range(12), y.compute(scheduler="synchronous"))
    assert table.chunks == ((5, 5, 2), (8,))
    whole = np.asarray(pr.Sinusoidal(8).table(range(12)))
    assert np.array_equal(table.compute(scheduler="synchronous"), whole)


@pytest.mark.nightly
def test_the_suite_passes():
    """The chunks are NumPy arrays, whose fast path test_fused.py judges."""
    encoding = ROTARY["half-trailing"]
    fast = fused(encoding)
    with dask.config.set(scheduler="synchronous"):
        report = check(lambda x, p: fast(x, p), encoding, "apply", backend="dask")
    assert report.passed, report


def test_chunks_of_unknown_size():
    """The size of the batch may be unknown; the length must be known."""
    x = lazy(X, (1, 4, 5, D))
    some = x[lazy(np.array([False, True]), 1)]
    y = fused(ROTARY["half"])(some, range(12))
    assert right(ROTARY["half"], X[1:], range(12), y.compute(scheduler="synchronous"))
    with pytest.raises(ValueError, match=r"call x.compute_chunk_sizes\(\) before"):
        fused(ROTARY["half"])(x[:, :, lazy(np.arange(12) < 7, 5)], range(7))


def test_refused_arguments():
    x = lazy(X, (1, 4, 5, D))
    with pytest.raises(TypeError, match="out cannot be given for dask arrays"):
        fused(ROTARY["half"])(x, range(12), out=x)
    with pytest.raises(ValueError, match="where S = 12; got positions of shape"):
        fused(ROTARY["half"])(x, range(5))
    with pytest.raises(ValueError, match="must be finite and at most"):
        fused(ROTARY["half"])(x, np.full(12, 2.0**41))
    with pytest.raises(TypeError, match="out cannot be given for positions of dask"):
        fused(pr.Sinusoidal(8))(lazy(np.arange(3), 2), out=np.zeros((3, 8)))


BIG = (2, 4, 64, D)
CUT = (1, 2, 16, D)
#: Calls of arrays in chunks of CUT.
WORK = {
    "apply": lambda x, at: pr.RoPE(D, layout="half").apply(x, at),
    "fused": lambda x, at: fused(pr.RoPE(D, layout="half"))(x, at),
    "fused interleaved": lambda x, at: fused(pr.RoPE(D, layout="interleaved"))(x, at),
    "add": lambda x, at: pr.Sinusoidal(D).add(x, at),
    "table": lambda x, at: pr.Sinusoidal(D).table(lazy(np.asarray(at), CUT[2])),
    "alibi": lambda x, at: pr.ALiBi(4).bias(*[lazy(np.asarray(at), CUT[2])] * 2),
}


class Inputs:
    """Records the bytes of the largest input of any task."""

    def __init__(self):
        from dask.callbacks import Callback

        self.largest, self.tasks = 0, 0
        self.callback = Callback(pretask=self.look)

    def look(self, key, dsk, state):
        self.tasks += 1
        for one in state["dependencies"][key]:
            self.largest = max(self.largest, getattr(state["cache"][one], "nbytes", 0))


@pytest.mark.parametrize("name", WORK)
def test_no_task_reads_more_than_a_chunk(name, rng):
    """The limit is a chunk of the result in float64, in which the specification computes."""
    x = rng.standard_normal(BIG).astype(np.float32)
    y = WORK[name](lazy(x, CUT), np.arange(64))
    chunk = np.prod([max(c) for c in y.chunks]) * 8
    seen = Inputs()
    with seen.callback:
        y.compute(scheduler="synchronous", optimize_graph=False)
    assert seen.tasks > 4
    assert 0 < seen.largest <= chunk
    assert np.prod(y.shape) * 8 >= 4 * chunk
    assert not [key for key in dict(y.dask.layers) if "rechunk-merge" in key]


def test_a_gather_is_detected():
    seen = Inputs()
    with seen.callback:
        lazy(np.ones(BIG), CUT).rechunk(BIG).sum().compute(
            scheduler="synchronous", optimize_graph=False
        )
    assert seen.largest > np.prod(CUT) * 8


@pytest.mark.nightly
@pytest.mark.filterwarnings("default")
def test_on_a_cluster_of_workers(rng):
    """With two workers, no stored result is larger than a chunk until the user gathers."""
    distributed = pytest.importorskip("distributed", reason="distributed runs the workers")
    x = rng.standard_normal(BIG).astype(np.float32)
    at = np.arange(64) * 1001
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
            )
        )
        client = stack.enter_context(distributed.Client(cluster))
        held = []

        class Sizes(distributed.SchedulerPlugin):
            """Records the bytes of every result that a worker reports, temporary ones included."""

            def transition(self, key, start, finish, *args, nbytes=0, **kwargs):
                if finish == "memory":
                    held.append(nbytes or 0)

        cluster.scheduler.add_plugin(Sizes())
        for name, work in WORK.items():
            held.clear()
            y = work(lazy(x, CUT), at).persist()
            distributed.wait(y)
            chunk = np.prod([max(c) for c in y.chunks]) * 8
            assert len(held) >= np.prod(y.numblocks)
            assert 0 < max(held) <= chunk, name
            assert len(client.who_has(y)) == np.prod(y.numblocks)
            if name == "fused":
                assert right(pr.RoPE(D, layout="half"), x, at, y.compute())
            else:
                assert np.isfinite(y.compute()).all()
            del y
