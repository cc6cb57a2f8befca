"""The compiled rotation gives halves the bits of NumPy's path, for all dtypes and strides."""

import sys

import ml_dtypes
import numba  # fused takes its loops from now on
import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.accuracy import budget
from posenc_ref.backends import fused
from posenc_ref.backends.kernels import numba_loops, numba_rotary, numpy_rotary
from tests.backends.comparison import rotation_error

D, S = 32, 61
DTYPES = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16,
          "float16": np.float16, "float64": np.float64}  # fmt: skip
EVERY = [
    "float32",
    "bfloat16",
    pytest.param("float16", marks=pytest.mark.nightly),  # each dtype is compiled once
    pytest.param("float64", marks=pytest.mark.nightly),
]
HALVES = {
    # At position 0 the factor 1.5 makes ties, between two numbers of a narrow dtype.
    "half": pr.RoPE(D, layout="half", scaling=pr.YaRN(8.0, 512, attention_factor=1.5)),
    "partial": pr.RoPE(D, layout="half", rotary_dim=20, rotary_start=4),
    "blockwise": pr.MultiAxisRoPE(D, sections=(8, 8), layout="blockwise"),
}
LAYOUTS = {
    "plain": lambda x: x,
    "sequence first": lambda x: x.transpose(0, 2, 1, 3).copy().transpose(0, 2, 1, 3),
    "every other head, backwards": lambda x: x.repeat(2, axis=1)[:, ::-2][:, ::-1],
    "no heads": lambda x: x[0, 0],
    "five axes": lambda x: x[:, None],
    "channels of a wider array": lambda x: np.concatenate([x, x], axis=-1)[..., :D],
    "odd addresses": lambda x: np.lib.stride_tricks.as_strided(
        np.r_[x.ravel(), x.ravel()[:1]][1:], x.shape, x.strides
    ),
}


@pytest.fixture(autouse=True)
def small_arrays_count_as_large(monkeypatch):
    monkeypatch.setattr(numpy_rotary, "_COMPILED", 1)
    monkeypatch.setattr(numba_rotary, "second_level", lambda: 4 * D * 25)  # blocks of 25 positions


def numbers(dtype, seed=3):
    """Numbers of every size, with infinities, NaNs and subnormals."""
    rng, kind = np.random.default_rng(seed), np.dtype(DTYPES[dtype])
    bits = rng.integers(0, 256, (2, 3, S, D * kind.itemsize), dtype=np.uint8)
    x = bits.view(kind)
    usual = rng.standard_normal((2, 3, S, D)).astype(kind)
    return np.where(rng.random(x.shape) < 0.9, usual, x)


def positions_of(encoding, rows=None):
    at = np.random.default_rng(5).integers(0, 9000, (2, S) if rows else S)
    at[..., :2] = 0
    return at if encoding.num_axes == 1 else np.stack([at, at + 3])


def by_numpy(fast, x, at, monkeypatch):
    with monkeypatch.context() as without:
        without.delitem(sys.modules, "numba")
        result, path = fast(x, at, explain=True)
    assert path.startswith("numpy: ")
    return result


def same_bits(a, b):
    assert a.dtype == b.dtype
    missing = np.isnan(a) & np.isnan(b)
    a, b = (np.ascontiguousarray(y).view(f"u{y.itemsize}") for y in (a, b))
    return bool(((a == b) | missing).all())


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # the sizes are on purpose
@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("dtype", EVERY)
def test_halves_have_the_bits_of_numpy(dtype, name, monkeypatch):
    encoding = HALVES[name]
    fast, at, x = fused(encoding), positions_of(encoding), numbers(dtype)
    for layout, view in LAYOUTS.items():
        given = view(x)
        expected = by_numpy(fast, given, at, monkeypatch)
        made, path = fast(given, at, explain=True)
        inside = dtype if dtype.endswith(("32", "64")) else "float32 inside"
        assert path == f"numba: halves, {inside}"
        assert same_bits(made, expected), layout
        placed = given.copy()
        assert fast(placed, at, out=placed) is placed
        assert same_bits(placed, expected), layout
        goal = view(np.full_like(x, 7))
        if goal.flags.writeable:
            fast(given, at, out=goal)
            assert same_bits(goal, expected), layout
    rows = positions_of(encoding, rows=True)
    assert same_bits(fast(x, rows), by_numpy(fast, x, rows, monkeypatch))
    expected = by_numpy(fast.inverse, x, at, monkeypatch)
    assert same_bits(fast.inverse(x, at), expected)


@pytest.mark.day
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # the sizes are on purpose
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_every_narrow_number_is_widened_and_rounded_as_by_numpy(dtype):
    """Ties between any two narrow numbers and their neighbours, infinities and NaN are rounded."""
    kind = DTYPES[dtype]
    every = np.arange(2**16, dtype=np.uint16).view(kind)
    sizes = np.unique(np.abs(every[np.isfinite(every)]).astype(np.float64))
    ties = (sizes[1:] + np.diff(sizes) / 2).astype(np.float32)  # the largest is rounded to infinity
    around = [np.nextafter(ties, np.float32(limit)) for limit in (0, np.inf)]
    numbers = np.concatenate([ties, *around, np.float32([np.inf, np.nan, 2.0**-140, 3e38, 1.5e5])])
    one = np.ones(1, kind)
    for x, cos in ((every, np.float32([0.5])), (one, numbers), (-one, numbers)):
        x, cos = np.broadcast_arrays(x, cos)
        x, cos = (np.concatenate([y, np.ones_like(y)])[None] for y in (x, cos))
        got = np.empty(x.shape, kind)
        numba_rotary.rotate(x, (cos, np.zeros_like(cos)), got)
        expected = x.astype(np.float32) * cos  # less 1 times the sine, which is 0
        first = slice(0, x.size // 2)
        assert same_bits(got[0, first], expected.astype(kind)[0, first])


@pytest.mark.parametrize("dtype", EVERY[1:3])
def test_pairs_side_by_side_of_narrow_dtypes(dtype, rng):
    encoding = pr.RoPE(D, layout="interleaved", rotary_dim=24)
    fast = fused(encoding, tensor_layout="bshd")
    x = rng.standard_normal((2, S, 3, D)).astype(DTYPES[dtype])
    made, path = fast(x, range(S), explain=True)
    assert path == "numba: pairs side by side, float32 inside"
    given, result = (y.transpose(0, 2, 1, 3) for y in (x, made))
    assert rotation_error(encoding, given, range(S), result) <= budget(dtype)


def test_wide_pairs_side_by_side_are_one_product_of_numpy(rng):
    x = rng.standard_normal((3, S, D)).astype(np.float32)
    path = fused(pr.RoPE(D, layout="interleaved"))(x, range(S), explain=True)[1]
    assert path == "numpy: pairs side by side, float32"


def test_small_arrays_are_rotated_by_numpy(monkeypatch):
    monkeypatch.setattr(numpy_rotary, "_COMPILED", 2 * S * D + 1)
    fast, x = fused(HALVES["half"]), np.ones((3, S, D), np.float32)
    assert fast(x[:2], range(S), explain=True)[1].startswith("numpy: ")
    assert fast(x, range(S), explain=True)[1].startswith("numba: ")


@pytest.mark.parametrize("off", ["blocked", "DISABLE_JIT"])
def test_without_a_compiler_numpy_does_the_work(off, monkeypatch):
    """Programs set ``sys.modules["numba"] = None`` or NUMBA_DISABLE_JIT=1."""
    monkeypatch.setattr(numba_loops, "LEAST", 1)
    if off == "blocked":
        monkeypatch.setitem(sys.modules, "numba", None)
    else:
        monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    calls = (
        fused(HALVES["half"])(np.ones((3, S, D), np.float32), range(S), explain=True),
        fused(pr.Sinusoidal(D))(range(S), explain=True),
        fused(pr.ALiBi(2))(S, S, out=np.empty((2, S, S)), explain=True),
    )
    for _, path in calls:
        assert path.startswith("numpy: ")
