"""Regression tests: each case here once failed on a fused path."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.backends import backend, fused, rotary_tables
from posenc_ref.backends.kernels import numpy_rotary
from tests.backends.comparison import close
from tests.backends.test_fused import ROTARY, D, positions_of
from tests.night import by_day

RNG = np.random.default_rng(15)
HALF = ROTARY["half"]


def spread(shape, kind=np.float32):
    """Return a writeable array whose rows all share memory."""
    return np.lib.stride_tricks.as_strided(
        np.zeros(shape[-1], kind), shape, (0,) * (len(shape) - 1) + (np.dtype(kind).itemsize,)
    )


def sliding(shape):
    """Return an array whose rows share elements with the next row."""
    return np.lib.stride_tricks.as_strided(np.zeros(500, np.float32), shape, (64, 4, 4))


@pytest.mark.parametrize("out", [spread((2, 5, D)), sliding((2, 5, D))])
@pytest.mark.parametrize("name", ["half", "interleaved", "other-output"])
def test_an_out_that_overlaps_itself_is_refused(name, out, rng):
    x = rng.standard_normal((2, 5, D)).astype(np.float32)
    fast = fused(ROTARY[name])
    for call in (lambda: fast(x, range(5), out=out), lambda: fast(out, range(5), out=out)):
        with pytest.raises(ValueError, match="out must not overlap itself"):
            call()
    if name != "other-output":
        with pytest.raises(ValueError, match="out must not overlap itself"):
            fast.prepare(range(5), like=x)(x, out=out)


def test_tables_and_biases_refuse_an_out_that_overlaps_itself():
    with pytest.raises(ValueError, match="out must not overlap itself"):
        fused(pr.ALiBi(2))(3, 4, out=spread((2, 3, 4)))
    with pytest.raises(ValueError, match="out must not overlap itself"):
        fused(pr.Sinusoidal(4))(range(3), out=spread((3, 4), np.float64))


def test_torch_refuses_an_out_that_overlaps_itself():
    torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    x = torch.ones(2, 5, D)
    for name in ("half", "interleaved", "other-output"):
        with pytest.raises(ValueError, match="out must not overlap itself"):
            fused(ROTARY[name])(x, range(5), out=torch.zeros(5, D).expand(2, 5, D))


def test_strided_outs_without_overlap_are_accepted(rng):
    x = rng.standard_normal((2, 5, D)).astype(np.float32)
    expected = fused(HALF)(x, range(5))
    room = np.zeros((3, 9, 2, D + 3), np.float32)
    for out in (room[0, :5, :, 1:-2].swapaxes(0, 1), room[1, ::-2, :, :D].swapaxes(0, 1)):
        assert fused(HALF)(x, range(5), out=out) is out
        assert np.array_equal(out, expected)


SOME = ("half-trailing", "interleaved-partial", "sections-half", "other-output")
INVERSES = [(name, "numpy", "float32") for name in ROTARY] + [
    (name, library, dtype) for name in SOME
    for library, dtype in (("numpy", "float64"), ("numpy", "bfloat16"), ("torch", "float32"),
                           ("torch", "bfloat16"), ("jax", "float32"))
]  # fmt: skip


DAY = [one for one in INVERSES if one[1] != "jax" or one[0] == "half-trailing"]


@pytest.mark.parametrize("case", by_day(INVERSES, DAY), ids="-".join)
def test_the_inverse(case, rng):
    """It equals the specification's inverse in float64; with m != 1 it is not the adjoint."""
    name, library, dtype = case
    encoding, home = ROTARY[name], backend(library)
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    x = rng.standard_normal((2, 3, 70, D)).astype(kind)
    at = positions_of(encoding, rng.integers(0, 2**20, (2, 70)))
    undo = fused(encoding).inverse
    y, path = undo(home.asarray(x, dtype, home.devices()[0]), at, explain=True)
    assert path.startswith("no fast path" if name == "other-output" else library)
    assert close(home.asnumpy(y), encoding.inverse(x.astype(np.float64), at), dtype)
    assert repr(undo).endswith(".inverse")
    back = undo.inverse(home.asarray(x, dtype, home.devices()[0]), at)
    there = fused(encoding)(home.asarray(x, dtype, home.devices()[0]), at)
    assert np.array_equal(home.asnumpy(back), home.asnumpy(there))


def test_the_inverse_prepared_in_place_and_in_qk(rng):
    for name in ("half-trailing", "interleaved-partial"):
        undo = fused(ROTARY[name], tensor_layout="bshd").inverse
        x = rng.standard_normal((2, 9, 3, D)).astype(np.float32)
        expected = undo(x, range(4, 13))
        ready = undo.prepare(range(20), like=x)
        assert np.array_equal(ready(x, 4), expected)
        placed = x.copy()
        assert undo(placed, range(4, 13), out=placed) is placed
        assert np.array_equal(placed, expected)
        for one in undo.qk(x, x, range(4, 13)):
            assert np.array_equal(one, expected)


def test_biases_without_queries_or_keys(rng):
    encoding = pr.T5Bias(rng.standard_normal((32, 3)))
    for one, (q, k) in itertools.product((pr.ALiBi(3), encoding), ((0, 5), (5, 0), (0, 0))):
        got = fused(one)(q, k)
        assert got.shape == (3, q, k)
        assert got.dtype == np.asarray(one.bias(range(k - q, k), range(k))).dtype
        out = np.zeros((3, q, k), np.float32)
        assert fused(one)(q, k, out=out) is out


def at_five(fast):
    return lambda t: fast(t, range(5))


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_tables_of_fake_tensors_are_not_kept(rng):
    torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    x = torch.from_numpy(rng.standard_normal((2, 5, D)))
    expected = fused(HALF)(x, range(5))
    fast = fused(HALF)
    for _ in range(2):  # the second time with real tables kept
        with FakeTensorMode():
            y = fast(torch.empty(2, 5, D, dtype=torch.float64), range(5))
            assert (y.shape, y.dtype) == (x.shape, x.dtype)
        assert torch.equal(fast(x, range(5)), expected)
    for mode in ("real", "fake", "symbolic"):
        fast = fused(HALF)
        traced = make_fx(at_five(fast), tracing_mode=mode)(x)
        assert torch.equal(fast(x, range(5)), expected)
        assert torch.equal(traced(x), expected)
    for transform in (torch.func.functionalize, lambda f: torch.func.grad(lambda t: f(t).sum())):
        fast = fused(HALF)
        transform(at_five(fast))(x)
        for tables in fast._tables.kept.values():
            for factor in tables.factors:
                assert not torch._C._functorch.is_functorch_wrapped_tensor(factor)
        assert torch.equal(fast(x, range(5)), expected)


@pytest.mark.nightly
def test_a_traced_start_decodes_under_jit(rng):
    jax = pytest.importorskip("jax", reason="JAX's arrays are what is tried")
    for name, layout in itertools.product(("half-trailing", "interleaved"), ("bhsd", "bshd")):
        fast = fused(ROTARY[name], tensor_layout=layout)
        x = jax.numpy.asarray(rng.standard_normal((1, 12, 12, D)), "float32")
        ready = fast.prepare(range(12), like=x)
        axis = layout.index("s")

        def step(n, done, ready=ready, x=x, axis=axis):
            token = jax.lax.dynamic_slice_in_dim(x, n, 1, axis)
            return jax.lax.dynamic_update_slice_in_dim(done, ready(token, n), n, axis)

        decoded = jax.jit(lambda x, step=step: jax.lax.fori_loop(0, 12, step, 0 * x))(x)
        assert close(decoded, jax.jit(ready)(x))


def test_a_traced_start_outside_the_tables_gives_nan():
    jax = pytest.importorskip("jax", reason="JAX's arrays are what is tried")
    x = jax.numpy.ones((2, 3, D))
    ready = fused(HALF).prepare(range(9), like=x)
    turned = jax.jit(ready)
    for start, bad in ((-2, [0, 1]), (6, []), (7, [2]), (100, [0, 1, 2])):
        found = np.isnan(np.asarray(turned(x, start)))
        assert np.flatnonzero(found.all(axis=(0, 2))).tolist() == bad
        assert found.any() == bool(bad)
    with pytest.raises(TypeError, match="start must be an integer without axes"):
        turned(x, 1.0)
    with pytest.raises(ValueError, match="got start = 7 and S = 3"):
        ready(x, 7)


def test_one_fused_for_every_library_and_dtype(rng):
    """Kept tables belong to one library and dtype, in any order of calls."""
    at, values = [3, 7, 2**20 + 1], rng.standard_normal((2, 3, D))
    fast = fused(HALF)
    places = [(n, d) for n in ("numpy", "torch", "jax") for d in ("float32", "float64", "bfloat16")
              if (n, d) != ("jax", "float64") and backend(n).missing() is None]  # fmt: skip
    for name, dtype in (*places, *reversed(places)):
        home = backend(name)
        kind = ml_dtypes.bfloat16 if (name, dtype) == ("numpy", "bfloat16") else dtype
        x = values.astype(kind) if name == "numpy" else home.asarray(values, dtype, None)
        got = fast(x, at)
        assert type(got) is type(x)
        assert np.array_equal(home.asnumpy(got), home.asnumpy(fused(HALF)(x, at)))
        if name == "jax":  # a trace has no device to tell it from NumPy
            import jax

            assert jax.jit(lambda x: fast(x, at))(x).dtype == x.dtype


def test_the_number_of_kept_tables_is_bounded(monkeypatch):
    fast, x = fused(HALF), np.ones((3, D), np.float32)
    for first in range(40):
        fast(x, [first, 7, 9])
    assert len(fast._tables.kept) == rotary_tables.KEPT
    monkeypatch.setattr(rotary_tables, "LARGEST", 3 * D // 2 * 16 - 1)
    other = fused(HALF)
    other(x, range(3))
    assert len(other._tables.kept) == 0


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", ["half", "interleaved-partial"])
def test_tiles_with_positions_per_head_and_an_overlapping_out(name, dtype, rng, monkeypatch):
    """Each head has its own positions; ``out`` overlaps memory that later tiles read."""
    encoding = ROTARY[name]
    fast = fused(encoding)
    x = rng.standard_normal((2, 5, 31, D)).astype(dtype)
    at = rng.integers(0, 9000, (2, 5, 31))
    whole = fast(x, at)
    expected = fast(x[:, :-1], at[:, 1:])
    monkeypatch.setattr(numpy_rotary, "_SMALL", 0)
    monkeypatch.setattr(numpy_rotary, "second_level", lambda: 8 * 4 * D * 40)
    assert np.array_equal(fast(x, at), whole)
    assert np.array_equal(fast(x, at[:, :1]), fast(x, at[:, :1].repeat(5, axis=1)))
    moved = x.copy()
    fast(moved[:, :-1], at[:, 1:], out=moved[:, 1:])
    assert np.array_equal(moved[:, 1:], expected)


def test_queries_and_keys_share_the_longer_length():
    encoding = ROTARY["dynamic"]
    q, k = np.ones((3, D), np.float32), np.ones((300, D), np.float32)
    for at, k_at in ((range(3), range(300)), (range(297, 300), range(300))):
        for got, x, p in zip(fused(encoding).qk(q, k, at, k_at), (q, k), (at, k_at), strict=True):
            assert np.array_equal(got, fused(encoding)(x, p, seq_len=300))
    assert not np.array_equal(
        fused(encoding)(q, range(3)), fused(encoding)(q, range(3), seq_len=300)
    )


@pytest.mark.parametrize("name", ["half", "interleaved"])
def test_prepared_tables_refuse_strided_channels(name):
    ready = fused(ROTARY[name]).prepare(range(5), like=np.zeros(1, np.float32))
    with pytest.raises(ValueError, match="x must be contiguous along its last axis"):
        ready(np.ones((5, 2 * D), np.float32)[:, ::2])


@pytest.mark.parametrize("dtype", [">f4", ">f2"])
@pytest.mark.parametrize("name", ["half", "interleaved"])
def test_prepared_tables_refuse_another_byte_order(name, dtype):
    ready = fused(ROTARY[name]).prepare(range(5), like=np.zeros(1, np.float32))
    with pytest.raises(TypeError, match=f"as prepared, got a ndarray of {dtype}"):
        ready(np.ones((5, D), dtype))
    x = np.ones((5, D), dtype[1:])
    with pytest.raises(ValueError, match=f"and dtype float.., got .* and {dtype}"):
        ready(x, out=np.ones((5, D), dtype))
