"""Sinusoidal tables against mpmath, for every combination of fields; and their shift matrices."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from posenc_ref import Sinusoidal
from posenc_ref.accuracy import Truth, budget
from posenc_ref.conformance.exact.digits import DIGITS, mpmath
from tests.conformance.exact.fixed_point import BITS, Exact

mp = mpmath().mp


def true_table(
    positions,
    dim,
    base=10000.0,
    layout="interleaved",
    first="sin",
    denominator="dim",
    offset=0,
    position_scale=1.0,
    scale=1.0,
    odd="raise",
):
    """The formula, element by element in 50 digits: integers times 2**-BITS."""
    n = {"dim": Fraction(dim, 2), "half-1": dim // 2 - 1}.get(denominator) or Fraction(denominator)
    rows = []
    with mp.workdps(DIGITS):
        for p in positions:
            sines, cosines = [], []
            for k in range(dim // 2 + (1 if dim % 2 and odd == "extra-sin" else 0)):
                exponent = Fraction(k) / n
                omega = mp.mpf(base) ** (-mp.mpf(exponent.numerator) / exponent.denominator)
                angle = mp.mpf(position_scale) * (mp.mpf(p) + mp.mpf(offset)) * omega
                sines.append(mp.mpf(scale) * mp.sin(angle))
                cosines.append(mp.mpf(scale) * mp.cos(angle))
            cosines = cosines[: dim // 2]
            one, two = (sines, cosines) if first == "sin" else (cosines, sines)
            if layout == "concat":
                row = one + two
            else:
                row = [v for pair in zip(one, two, strict=False) for v in pair] + one[len(two) :]
            row += [mp.mpf(0)] * (dim - len(row))
            rows.append([int(v * mp.mpf(2) ** BITS) for v in row])
    return np.array(rows, dtype=object).reshape(len(positions), dim)


def check(encoding, positions, **fields):
    """A float64 table: the certified cos and sin, and one rounding of the product with scale."""
    exact = Exact(true_table(positions, encoding.dim, **fields))
    table = encoding.table(np.array(positions))
    assert table.dtype == np.float64
    _, score = exact.worst(table, np.abs(exact.hi), np.abs(encoding.scale))
    assert score <= 1, (encoding, positions)


@pytest.mark.day
@given(
    dim=st.integers(1, 33),
    base=st.floats(1.001, 1e8),
    layout=st.sampled_from(["interleaved", "concat"]),
    first=st.sampled_from(["sin", "cos"]),
    denominator=st.sampled_from(["dim", "half-1"]) | st.floats(0.5, 40),
    offset=st.integers(-3, 3) | st.floats(-100, 100),
    position_scale=st.just(1.0) | st.floats(0.001, 1000),
    scale=st.sampled_from([1.0, 0.0, 0.125]) | st.floats(-8, -0.01) | st.floats(0.01, 8),
    odd=st.sampled_from(["raise", "extra-sin", "zero-pad"]),
    positions=st.lists(
        st.integers(-(10**6), 10**6) | st.floats(-(1e6), 1e6), min_size=1, max_size=3
    ),
)
def test_every_field(dim, positions, **fields):
    assume(dim % 2 == 0 or fields["odd"] != "raise")
    assume(dim % 2 == 0 or (fields["odd"], fields["first"]) != ("extra-sin", "cos"))
    assume(dim >= 4 or fields["denominator"] != "half-1")
    assume(dim >= 2 or fields["odd"] == "extra-sin")
    check(Sinusoidal(dim, **fields), positions, **fields)


# What the catalogue of implementations calls them, and the settings that make them.
VARIANTS = {
    "paper": {},
    "XLM": {"odd": "extra-sin"},
    "Marian, Pegasus, CTRL, XLNet": {"layout": "concat", "odd": "extra-sin"},
    "tensor2tensor, Whisper": {"layout": "concat", "denominator": "half-1", "odd": "zero-pad"},
    "fairseq, M2M-100": {"layout": "concat", "denominator": "half-1", "offset": 2},
    "MusicGen": {"layout": "concat", "denominator": "half-1", "first": "cos"},
    "diffusion, shift 0, flipped": {"layout": "concat", "denominator": 32, "first": "cos"},
    "diffusion, shift 1": {"layout": "concat", "denominator": 31},
    "FunASR, from one": {"layout": "concat", "denominator": "half-1", "offset": 1},
    "Canary, over sqrt(d)": {"layout": "concat", "scale": 64**-0.5},
    "MLX, unit norm": {"layout": "concat", "denominator": "half-1", "scale": (2 / 64) ** 0.5},
    "positions in thousandths": {"position_scale": 1000.0},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_named_variants(name):
    positions = [0, 1, 2, 31, 255, 511, 4095, 100003, 999.5]
    check(Sinusoidal(64, **VARIANTS[name]), positions, **VARIANTS[name])


def test_the_formula_of_the_paper_by_hand():
    row = Sinusoidal(4).table(3)[0]
    with mp.workdps(DIGITS):
        want = [mp.sin(3), mp.cos(3), mp.sin(mp.mpf(3) / 100), mp.cos(mp.mpf(3) / 100)]
        fixed = np.array([int(v * 2**BITS) for v in want], dtype=object)
    exact = Exact(fixed)
    assert exact.worst(row, np.abs(exact.hi), 1.0)[1] <= 1


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"denominator": "half-1"}, "paper"),
        ({}, "Marian, Pegasus, CTRL, XLNet"),
        ({"layout": "concat", "denominator": "half-1"}, "MusicGen"),
        ({"layout": "concat", "denominator": "half-1"}, "fairseq, M2M-100"),
    ],
)
def test_another_variant_is_not_taken_for_this_one(wrong, name):
    exact = Exact(true_table([0, 1, 5], 64, **VARIANTS[name]))
    _, score = exact.worst(Sinusoidal(64, **wrong).table(np.array([0, 1, 5])), np.abs(exact.hi), 1)
    assert score > budget("float64")


def test_the_same_encoding_written_in_two_ways():
    """diffusers' shift 0 is the paper's denominator, shift 1 the tensor2tensor one."""
    p = np.arange(50)
    for number, name in ((32, "dim"), (31, "half-1")):
        one = Sinusoidal(64, denominator=number).table(p)
        assert (one == Sinusoidal(64, denominator=name).table(p)).all()
    concat, interleaved = Sinusoidal(64, layout="concat"), Sinusoidal(64)
    table = concat.table(p)
    assert (table[:, :32] == interleaved.table(p)[:, 0::2]).all()
    assert (table[:, 32:] == interleaved.table(p)[:, 1::2]).all()


def test_odd_dimensions():
    p = np.arange(6)
    extra, wide = Sinusoidal(7, odd="extra-sin"), Sinusoidal(7, odd="extra-sin", base=9.0)
    padded = Sinusoidal(7, odd="zero-pad", layout="concat")
    assert extra.frequencies().shape == (4,)
    assert padded.frequencies().shape == (3,)
    assert (padded.table(p)[:, -1] == 0).all()
    even = Sinusoidal(6, layout="concat", denominator=3.5).table(p)
    assert (padded.table(p)[:, :6] == even).all()
    # XLM: columns 0, 2, 4, 6 are sines and 1, 3, 5 cosines.
    assert (extra.table(0)[0] == [0, 1, 0, 1, 0, 1, 0]).all()
    squares = (wide.table(p) ** 2).sum(axis=1)
    assert squares.max() - squares.min() > 0.01  # the sine without cosine has no constant norm


@pytest.mark.parametrize(
    ("positions", "shape"),
    [
        (5, (1,)),
        (range(4), (4,)),
        ([0, 2, 9], (3,)),
        ([[0, 2], [9, 4]], (2, 2)),
        (np.zeros((2, 3, 4), np.int32), (2, 3, 4)),
        (np.array([0.5, -2.25], np.float32), (2,)),
        ([], (0,)),
        (np.uint64(7), (1,)),
    ],
)
def test_positions_in_every_form(positions, shape):
    encoding = Sinusoidal(8)
    table = encoding.table(positions)
    assert table.shape == (*shape, 8)
    flat = np.asarray(positions, dtype=np.float64).ravel()
    assert (table.reshape(-1, 8) == encoding.table(flat)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_narrow_tables_are_the_rounded_table(dtype):
    encoding = Sinusoidal(16, base=500.0)
    table = encoding.table(range(100), dtype=dtype)
    assert table.dtype == dtype
    assert (table == encoding.table(range(100)).astype(dtype)).all()


def test_add_is_the_sum_rounded_once():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 5, 8)).astype(np.float32)
    encoding = Sinusoidal(8)
    per_row = np.array([[0, 1, 2, 3, 4], [7, 7, 9, 100, 5]])
    for positions in (range(5), per_row, np.broadcast_to(per_row[:, None], (2, 3, 5))):
        rows = encoding.table(positions)
        rows = rows[:, None] if rows.ndim == 3 else rows
        assert (
            encoding.add(x, positions) == (x.astype(np.float64) + rows).astype(np.float32)
        ).all()


# -- the shift matrix ------------------------------------------------------------------------

shifts = st.integers(-5000, 5000) | st.floats(-5000, 5000, allow_subnormal=False)
encodings = st.sampled_from(
    [
        Sinusoidal(8),
        Sinusoidal(8, layout="concat"),
        Sinusoidal(8, first="cos"),
        Sinusoidal(10, layout="concat", first="cos", denominator="half-1"),
        Sinusoidal(12, base=100.0, offset=2, position_scale=0.25, scale=3.0),
        Sinusoidal(9, odd="zero-pad"),
    ]
)


@given(encodings, shifts, shifts)
def test_a_shift_is_linear(encoding, p, k):
    """PE(p + k) = M(k) PE(p)."""
    m, before, after = encoding.shift_matrix(k), encoding.table(p)[0], encoding.table(p + k)[0]
    # p + k is rounded for fractions, which moves the angle by one roundoff of it.
    moved = 0 if isinstance(p, int) and isinstance(k, int) else abs(p) + abs(k)
    speed = encoding.frequencies().max() * abs(encoding.scale)
    truth = Truth(after, np.abs(m) @ np.abs(before), moved * speed, 3 * abs(encoding.scale))
    assert truth.score(m @ before).max() <= budget("float64")


@given(encodings, shifts, shifts)
def test_shift_matrices_are_a_rotation_group(encoding, a, b):
    """M(k) is orthogonal, det M(k) = 1, M(-k) = M(k)^T, M(a) M(b) = M(a + b)."""
    even = encoding.dim - encoding.dim % 2
    m, n = (encoding.shift_matrix(k)[:even, :even] for k in (a, b))
    eye = Truth(np.eye(even), np.abs(m).T @ np.abs(m), np.zeros(()), 4.0)
    assert eye.score(m.T @ m, angles="exact").max() <= budget("float64")
    one = Truth(np.ones(()), np.full((), even), np.zeros(()), 2.0 * even)
    assert one.score(np.linalg.det(m), angles="exact") <= budget("float64")
    assert (encoding.shift_matrix(-a)[:even, :even] == m.T).all()
    moved = 0 if isinstance(a, int) and isinstance(b, int) else abs(a) + abs(b)
    both = encoding.shift_matrix(a + b)[:even, :even]
    truth = Truth(both, np.abs(m) @ np.abs(n), moved * encoding.frequencies().max(), 4.0)
    assert truth.score(m @ n).max() <= budget("float64")


def test_the_shift_matrix_the_wrong_way_round_is_found():
    """The matrix printed in many tutorials, [[c, -s], [s, c]] on (sin, cos), gives PE(p - k)."""
    encoding = Sinusoidal(8)
    wrong = encoding.shift_matrix(3).T
    after = Truth(encoding.table(8)[0], np.ones(8), np.zeros(()), np.full((), 3.0))
    assert after.score(wrong @ encoding.table(5)[0], angles="exact").max() > budget("float64")
    back = Truth(encoding.table(2)[0], np.ones(8), np.zeros(()), np.full((), 3.0))
    assert back.score(wrong @ encoding.table(5)[0], angles="exact").max() <= budget("float64")


def test_dot_products_depend_on_the_distance_alone():
    table = Sinusoidal(64, layout="concat").table(range(200))
    gram = table @ table.T
    for shift in (1, 17, 100):
        truth = Truth(gram[:-shift, :-shift], np.full((), 32.0), np.zeros(()), np.full((), 64.0))
        assert truth.score(gram[shift:, shift:], angles="exact").max() <= budget("float64")
    sines = table[:, :32] @ table[:, :32].T  # sines alone know more than the distance
    assert abs(sines[1:, 1:] - sines[:-1, :-1]).max() > 0.1
