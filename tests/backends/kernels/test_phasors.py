"""Tables by products of two phasors, made in every way, against 50-digit arithmetic."""

import sys
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.accuracy import Truth
from posenc_ref.backends import fused
from posenc_ref.backends.kernels import numba_loops, phasor_factors, phasors
from posenc_ref.backends.kernels.numba_loops import Columns
from posenc_ref.conformance import check
from tests.conformance.exact.fixed_point import Exact, exact_cos_sin, geometric

#: The error bound of cos and sin, in roundings of 1.
UNITS = phasors.ERROR_BOUND * 2.0**53
WAVES = {"fast": (17.0, 4), "usual": (10000.0, 8), "slow": (75000000.0, 16)}


def some(low, high, count):
    return np.random.default_rng(12).integers(low, high, count).astype(float)


ROWS = {
    "consecutive": np.arange(3000.0) + 1021,
    "consecutive far": np.arange(3000.0) + 2.0**39,
    "negative": np.arange(3000.0) - 1500,
    "any order": some(0, 2000, 9000),
    "any order far": some(2**38, 2**38 + 3000, 12000),
    "fractions": np.arange(3000.0) * 0.375,
    "few": np.array([7.0, 3.0, 2.0**33 + 1]),
}


def assert_exact(cos, sin, positions, base, pairs):
    sample = np.unique(np.linspace(0, positions.size - 1, 40).astype(int))
    exact = exact_cos_sin(
        positions[sample].tolist(), geometric(base, [Fraction(k, pairs) for k in range(pairs)])
    )
    for part, fixed in zip((cos, sin), exact, strict=True):
        assert Exact(fixed).error(part[sample]).max() <= phasors.ERROR_BOUND


@pytest.mark.parametrize("wave", WAVES)
@pytest.mark.parametrize("rows", ROWS)
def test_against_50_digits(wave, rows, by):
    base, pairs = WAVES[wave]
    turns = pr.Sinusoidal(2 * pairs, base=base)._turns
    p = ROWS[rows]
    found = phasors.phasors(p, turns, dtype=np.dtype("complex128"))
    assert_exact(found.real, found.imag, p, base, pairs)
    back = phasors.phasors(p, turns, dtype=np.dtype("complex128"), sign=-1, amplitude=4.0)
    assert_exact(back.real / 4, back.imag / -4, p, base, pairs)


def wide(start, stop, step=1, rows=3000, width=20):
    return Columns(np.full((rows, width), 7.0), slice(start, stop, step))


def targets(name):
    """Return columns for cos and sin of eight pairs, and whether Numba has a loop for them."""
    if name == "beside":
        cos = wide(2, 18, 2)
        return cos, Columns(cos.array, slice(3, 19, 2)), True
    if name == "beside, sin first":
        sin = wide(0, 16, 2)
        return Columns(sin.array, slice(1, 17, 2)), sin, True
    if name == "halves":
        sin = wide(1, 9)
        return Columns(sin.array, slice(9, 17)), sin, True
    if name == "two arrays":
        return wide(0, 8, width=8), wide(0, 8, width=8), True
    if name == "a cosine less":
        sin = wide(0, 8, width=15)
        return Columns(sin.array, slice(8, 15)), sin, True
    assert name == "a cosine less, beside"
    sin = wide(0, 15, 2, width=15)
    return Columns(sin.array, slice(1, 15, 2)), sin, False


TARGETS = ("beside", "beside, sin first", "halves", "two arrays", "a cosine less",
           "a cosine less, beside")  # fmt: skip


@pytest.mark.parametrize("rows", ["consecutive", "any order"])
@pytest.mark.parametrize("name", TARGETS)
def test_columns(name, rows, by):
    cos, sin, known = targets(name)
    p = ROWS[rows][:3000]
    turns = pr.Sinusoidal(16)._turns
    kept = [(one, one.array.copy()) for one in (cos, sin)]
    made = phasors.write(p, turns, cos, sin, offset=0.0, amplitude=1.0)
    assert made == (by if known else "numpy")
    cosines, sines = cos.array[:, cos.at], sin.array[:, sin.at]
    rest = 8 - cosines.shape[1]
    full = np.concatenate([cosines, np.cos(p[:, None] * 10000.0 ** (-7 / 8))[:, :rest]], axis=1)
    assert_exact(full, sines, p, 10000.0, 8)
    for one, before in kept:
        other = np.setdiff1d(range(one.array.shape[1]), [*cos.range, *sin.range])
        assert np.array_equal(one.array[:, other], before[:, other])


def test_rows_reach_all_three_ways(monkeypatch):
    """The rows above are made in three ways: consecutive, in any order, and entry by entry."""
    turns = pr.Sinusoidal(16)._turns
    monkeypatch.setattr(phasor_factors, "BLOCK", 16 * 8 * 64)

    def way(p):
        found = phasors.factors(p, phasors.Wave(turns, 0.0, 1.0, 1), 16 * 8 * 64)
        return None if found is None else found.index is None

    ways = {"consecutive": True, "consecutive far": True, "negative": True, "any order": False,
            "any order far": False, "fractions": None, "few": None}  # fmt: skip
    assert {name: way(p) for name, p in ROWS.items()} == ways


def test_numba_writes_only_large_tables(monkeypatch):
    encoding = pr.Sinusoidal(16)
    out = np.empty((3000, 16), np.float32)
    import numba

    fast = fused(encoding)
    assert fast(range(3000), out=out, explain=True)[1].startswith("numpy: ")
    monkeypatch.setattr(numba_loops, "LEAST", 3000 * 8)
    monkeypatch.setattr(phasor_factors, "BLOCK", 16 * 8 * 64)
    assert fast(range(3000), out=out, explain=True)[1] == "numba: angle addition, float32"
    assert fast(range(2999), explain=True)[1].startswith("numpy: ")
    half = fast(range(3000), dtype=np.float16, explain=True)[1]
    assert half == "numpy: angle addition, float16"
    assert numba.__name__ in sys.modules
    monkeypatch.delitem(sys.modules, "numba")
    assert fast(range(3000), out=out, explain=True)[1].startswith("numpy: ")


SINUSOIDS = {
    "interleaved": pr.Sinusoidal(16),
    "cos first": pr.Sinusoidal(
        16, layout="concat", first="cos", denominator="half-1", offset=2, scale=0.5
    ),
    "cos beside": pr.Sinusoidal(16, first="cos", scale=-2.0),
    "zero-pad": pr.Sinusoidal(9, odd="zero-pad", layout="concat"),
    "extra-sin": pr.Sinusoidal(9, odd="extra-sin"),
    "extra-sin apart": pr.Sinusoidal(9, odd="extra-sin", layout="concat"),
}
ROTARY = {
    "plain": pr.RoPE(16, layout="half"),
    "turned back": pr.RoPE(16, layout="half", sign=-1, rotary_dim=8),
    "with a factor": pr.RoPE(16, layout="half", scaling=pr.YaRN(8.0, 512)),
    "of the length": pr.RoPE(16, layout="half", scaling=pr.DynamicNTK(2.0, 64)),
    "two axes": pr.MultiAxisRoPE(16, sections=(5, 3), layout="half"),
    "mixed": pr.MixedRoPE(16, np.random.default_rng(5).standard_normal((2, 8)), layout="half"),
}
DTYPES = {"float64": np.float64, "float32": np.float32, "float16": np.float16,
          "bfloat16": ml_dtypes.bfloat16}  # fmt: skip


def judged(found, truth, size, dtype):
    truth = np.asarray(truth)
    score = Truth(truth, np.full_like(truth, size), np.zeros(())).score(found, dtype=dtype)
    assert found.shape == truth.shape
    assert score.max() <= UNITS


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SINUSOIDS)
def test_sinusoidal_tables(name, dtype, by):
    encoding, kind = SINUSOIDS[name], DTYPES[dtype]
    fast = fused(encoding)
    odd = name == "extra-sin"
    for positions in (range(4000), some(0, 5000, (2, 8000)), [0.5, 7.25]):
        table, path = fast(positions, dtype=kind, explain=True)
        judged(table, encoding.table(positions), abs(encoding.scale), dtype)
        loop = by if np.size(positions) > 2 and not odd and dtype.startswith("float") else "numpy"
        loop = "numpy" if dtype == "float16" else loop
        assert path == f"{loop}: angle addition, {np.dtype(kind)}"
        out = np.full(table.shape, 7, kind)
        assert fast(positions, out=out) is out
        assert np.array_equal(out, table)
    report = check(lambda p: fast(p, dtype=kind), encoding, "table", dtype=dtype)
    assert report.passed, report


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ROTARY)
def test_rotary_tables(name, dtype, by):
    encoding, kind = ROTARY[name], DTYPES[dtype]
    fast = fused(encoding)
    for at in (np.arange(4000), some(0, 5000, (2, 8000)), np.array([0.5, 7.25])):
        positions = at if encoding.num_axes == 1 else np.stack([at, at[..., ::-1]])
        truth = encoding.cos_sin(positions)
        made, path = fast.cos_sin(positions, dtype=kind, explain=True)
        if name == "mixed":
            assert path == "no fast path: the class has its own cos and sin"
        else:
            assert path.endswith(f": angle addition, {np.dtype(kind)}")
            several = at.size > 2 and encoding.num_axes == 1 and dtype in ("float64", "float32")
            assert path.startswith(by if several else "numpy")
        out = tuple(np.full(t.shape, 7, kind) for t in truth)
        assert fast.cos_sin(positions, out=out) == out
        factor = encoding.attention_factor(encoding._seq_len(None, encoding._positions(positions)))
        for found, into, exact in zip(made, out, truth, strict=True):
            judged(found, exact, factor, dtype)
            assert np.array_equal(found, into)
    assert all(map(np.array_equal, fast.inverse.cos_sin(positions), fast.cos_sin(positions)))


def test_refused_outs():
    fast = fused(pr.RoPE(8, layout="half"))
    whole = np.empty((2, 3, 4))
    for out, error, message in (
        (whole, TypeError, "out must be a pair of arrays, cos and sin, got ndarray"),
        ((whole[0],), TypeError, "pair of arrays"),
        ((whole[0], whole[0]), ValueError, "share no memory"),
        ((whole[0], np.empty((4, 3)).T), ValueError, "contiguous"),
        ((whole[0], np.empty((3, 5))), ValueError, r"out must have shape \(3, 4\), got \(3, 5\)"),
        ((whole[0], np.empty((3, 4), int)), TypeError, "array of floats"),
    ):
        with pytest.raises(error, match=message):
            fast.cos_sin(range(3), out=out)
    torch = pytest.importorskip("torch", reason="positions of another library want one")
    at = torch.arange(3)
    made, path = fast.cos_sin(at, dtype=torch.float32, explain=True)
    assert path == "no fast path: positions are arrays of torch"
    assert made[0].dtype == torch.float32
    with pytest.raises(TypeError, match="out cannot be given for positions of torch"):
        fast.cos_sin(at, out=(whole[0], whole[1]))
    with pytest.raises(TypeError, match="dtype must be one of"):
        fast.cos_sin(range(3), dtype=int)
