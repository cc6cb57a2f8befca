"""RoPE against complex multiplication in 50 digits, for every field; and what rotations satisfy."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from posenc_ref import LinearScaling, RoPE
from posenc_ref.accuracy import Truth, budget
from posenc_ref.angles import ERROR_BOUND
from tests.conformance.exact.fixed_point import (
    BITS,
    Exact,
    exact_cos_sin,
    geometric,
    to_fixed,
    to_float,
)


def frequencies(d, base=10000.0, factor=1.0):
    return geometric(base, [Fraction(2 * k, d) for k in range(d // 2)], factor)


def pairs(d, layout):
    k = range(d // 2)
    return [(2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + d // 2) for i in k]


def true_apply(x, positions, layout, rotary_dim=None, sign=1, **fields):
    """The definition for x (S, D): the truth, its terms and the amplitude of its pair."""
    d = rotary_dim or x.shape[-1]
    cos, sin = exact_cos_sin(positions, frequencies(d, **fields))
    fixed = to_fixed(x)
    y, terms, amplitude = fixed.copy(), np.zeros(x.shape), np.zeros(x.shape)
    for k, (i, j) in enumerate(pairs(d, layout)):
        x1, x2, c, s = fixed[:, i], fixed[:, j], cos[:, k], sign * sin[:, k]
        y[:, i], y[:, j] = (x1 * c - x2 * s) >> BITS, (x2 * c + x1 * s) >> BITS
        c, s = np.abs(to_float(c)), np.abs(to_float(s))
        terms[:, i] = np.abs(x[:, i]) * c + np.abs(x[:, j]) * s
        terms[:, j] = np.abs(x[:, j]) * c + np.abs(x[:, i]) * s
        amplitude[:, i] = amplitude[:, j] = np.hypot(x[:, i], x[:, j])
    return Exact(y), terms, amplitude


def vectors(rng, *shape):
    """Random numbers that every floating dtype holds, bfloat16 too."""
    return rng.integers(-127, 128, shape) / 32


@st.composite
def ropes(draw):
    d = 2 * draw(st.integers(1, 12))
    factor = draw(st.sampled_from([None, 1.0, 2.0, 3.7, 32.0]))
    rope = RoPE(
        d + draw(st.sampled_from([0, 0, 1, 6])),
        layout=draw(st.sampled_from(["interleaved", "half"])),
        base=draw(st.sampled_from([10000.0, 500000.0, 17.0, 1.5]) | st.floats(1.01, 1e8)),
        rotary_dim=d,
        scaling=None if factor is None else LinearScaling(factor),
        sign=draw(st.sampled_from([1, -1])),
    )
    return rope, factor or 1.0


positions = st.integers(-(2**40), 2**40) | st.floats(-(2.0**40), 2.0**40)


@given(ropes(), st.lists(positions, min_size=1, max_size=3), st.integers(0, 9))
def test_every_field(drawn, p, seed):
    rope, factor = drawn
    waves = frequencies(rope.rotary_dim, rope.base, factor)
    cos, sin = (Exact(f) for f in exact_cos_sin(p, waves))
    ours = rope.cos_sin(np.array(p))
    assert float(cos.error(ours[0]).max()) <= ERROR_BOUND
    assert float(sin.error(ours[1]).max()) <= ERROR_BOUND
    assert (rope.frequencies() == [float(w) for w in waves]).all()
    x = vectors(np.random.default_rng(seed), len(p), rope.head_dim)
    exact, terms, amplitude = true_apply(
        x, p, rope.layout, rope.rotary_dim, rope.sign, base=rope.base, factor=factor
    )
    for dtype in (np.float64, np.float32, np.float16):
        y = rope.apply(x.astype(dtype), np.array(p))
        assert y.dtype == dtype
        assert exact.worst(y, terms, amplitude)[1] < 2  # one rounding; float64 has a few
    assert (y[:, rope.rotary_dim :] == x[:, rope.rotary_dim :]).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"layout": "interleaved"},
        {"sign": -1},
        {"base": 10001.0},
        {"rotary_dim": 6},
        {"scaling": LinearScaling(1.001)},
    ],
)
def test_a_wrong_field_is_found(wrong):
    x, p = vectors(np.random.default_rng(0), 3, 8), [1, 5, 77]
    exact, terms, amplitude = true_apply(x, p, "half")
    right = RoPE(8, layout="half")
    assert exact.worst(right.apply(x, p), terms, amplitude)[1] < 2
    assert exact.worst(right.replace(**wrong).apply(x, p), terms, amplitude)[1] > budget("float64")


def test_the_naive_float64_angle_is_found_at_long_positions():
    """The unit sees what a certified oracle is for."""
    x, p = vectors(np.random.default_rng(0), 2, 64), [2**20 + 1, 2**30 + 3]
    exact, terms, amplitude = true_apply(x, p, "half")
    angle = np.array(p)[:, None] * 10000.0 ** (-np.arange(32) / 32)
    c, s = np.cos(angle), np.sin(angle)
    x1, x2 = x[:, :32], x[:, 32:]
    y = np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], axis=1)
    assert exact.worst(y, terms, amplitude)[1] > budget("float64")
    moved = np.concatenate([angle, angle], axis=1) * amplitude
    naive = Truth(exact.hi, terms, moved, amplitude)
    assert naive.score(y).max() <= budget("float64")  # and that float64 angles explain it


def test_channels_in_no_pair_are_passed_bit_for_bit():
    x = np.full((4, 6), 0.5, np.float32)
    odd = np.array([0x7FC00001, 0x80000000, 1, 0xFF800000], np.uint32).view(np.float32)
    x[:, 5] = odd  # a NaN with payload, -0.0, a subnormal, -inf
    y = RoPE(6, layout="half", rotary_dim=4).apply(x, range(4))
    assert (y[:, 5].view(np.uint32) == x[:, 5].view(np.uint32)).all()
    assert np.isfinite(y[:, :5]).all()


def test_a_nan_stays_in_its_pair():
    x = np.ones((3, 8))
    x[1, 2] = np.nan
    for layout, pair in (("half", [2, 6]), ("interleaved", [2, 3])):
        found = np.argwhere(np.isnan(RoPE(8, layout=layout).apply(x, range(3))))
        assert found.tolist() == [[1, c] for c in pair]


def test_position_zero_is_the_identity():
    x = vectors(np.random.default_rng(0), 5, 8).astype(np.float32)
    assert (RoPE(8, layout="half").apply(x, np.zeros(5)) == x).all()


GOLDEN = {  # catalogue, appendix B: as printed there
    "RoPE(64)": (
        RoPE(64, layout="half"),
        {0: "1", 1: ".7498942093", 7: ".1333521432", 15: ".01333521432", 31: "1.333521432e-4"},
    ),
    "linear, 4": (
        RoPE(64, layout="half", scaling=LinearScaling(4)),
        {0: ".25", 1: ".1874735523", 7: ".0333380358", 31: "3.33380358e-5"},
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_frequencies(name):
    rope, golden = GOLDEN[name]
    for k, printed in golden.items():
        digits, _, exponent = printed.partition("e")
        last = Fraction(10) ** (int(exponent or 0) - len(digits.partition(".")[2]))
        assert abs(Fraction(rope.frequencies()[k]) - Fraction(printed)) <= last / 2


# -- matrices --------------------------------------------------------------------------------

NUMBERS = st.integers(-(2**20), 2**20)


@given(ropes(), NUMBERS, st.integers(0, 9))
def test_the_matrix_does_what_apply_does(drawn, p, seed):
    rope, _ = drawn
    x = vectors(np.random.default_rng(seed), 1, rope.head_dim)
    r = rope.matrix(p)
    truth = Truth(r @ x[0], np.abs(r) @ np.abs(x[0]), np.zeros(()), np.abs(x).sum())
    assert truth.score(rope.apply(x, [p])[0], angles="exact").max() <= budget("float64")


@given(ropes(), NUMBERS, NUMBERS)
def test_matrices_are_rotations(drawn, a, b):
    rope, _ = drawn
    m, n = rope.matrix(a), rope.matrix(b)
    size, one = rope.head_dim, np.abs(m).T @ np.abs(m)
    orthogonal = Truth(np.eye(size), one, np.zeros(()), 4.0)
    assert orthogonal.score(m.T @ m, angles="exact").max() <= budget("float64")
    det = Truth(np.ones(()), np.full((), size), np.zeros(()), 2.0 * size)
    assert det.score(np.linalg.det(m), angles="exact") <= budget("float64")
    both = Truth(rope.matrix(a + b), np.abs(m) @ np.abs(n), np.zeros(()), 4.0)
    assert both.score(m @ n, angles="exact").max() <= budget("float64")
    assert (rope.matrix(-a) == m.T).all()
    assert (rope.replace(sign=-rope.sign).matrix(a) == m.T).all()


@pytest.mark.day
@given(ropes(), NUMBERS, NUMBERS, st.integers(0, 9))
def test_inverse_and_shift(drawn, p, delta, seed):
    rope, _ = drawn
    x = vectors(np.random.default_rng(seed), 2, rope.head_dim)
    size = np.abs(x).sum(axis=-1, keepdims=True)
    rotated = rope.apply(x, [p, -p])
    back = Truth(x, size, np.zeros(()), 4 * size)
    assert back.score(rope.inverse(rotated, [p, -p]), angles="exact").max() <= budget("float64")
    moved = Truth(rope.apply(x, [p + delta, delta - p]), size, np.zeros(()), 4 * size)
    for shift in (delta, [delta, delta], np.full(2, delta)):
        score = moved.score(rope.shift(rotated, shift), angles="exact")
        assert score.max() <= budget("float64")


@given(ropes(), st.integers(0, 2**30), st.integers(0, 2**30), st.integers(-(2**30), 2**30))
def test_logits_depend_on_the_offset_alone(drawn, m, n, s):
    rope, _ = drawn
    q, k = vectors(np.random.default_rng(m % 7), 2, 1, rope.head_dim)
    here = rope.apply(q, [m]) @ rope.apply(k, [n]).T
    there = rope.apply(q, [m + s]) @ rope.apply(k, [n + s]).T
    size = np.linalg.norm(q) * np.linalg.norm(k)
    truth = Truth(here, np.full((), rope.head_dim * size), np.zeros(()), 8 * size)
    assert truth.score(there, angles="exact").max() <= budget("float64")


def test_an_absolute_table_does_not_have_relative_logits():
    rope = RoPE(16, layout="half")
    q, k = vectors(np.random.default_rng(0), 2, 1, 16)
    here, there = (q + rope.cos_sin(p)[0].repeat(2) for p in (3, 10))
    assert abs(here @ k.T - there @ k.T).max() > 0.01


@pytest.mark.day
@given(ropes(), st.integers(-(2**20), 2**20))
def test_linear_scaling_divides_positions(drawn, p):
    rope, _ = drawn
    assume(rope.scaling is None)
    scaled = rope.replace(scaling=LinearScaling(4.0))
    for ours, want in zip(scaled.cos_sin(p), rope.cos_sin(p / 4), strict=True):
        assert float(np.abs(ours - want).max()) <= 2 * ERROR_BOUND


def test_a_shard_needs_only_its_own_positions():
    """Context parallelism: contiguous and zig-zag shards put together equal the whole."""
    rope, x = RoPE(8, layout="half"), vectors(np.random.default_rng(0), 2, 16, 8)
    p = np.arange(16) * 501
    whole = rope.apply(x, p)
    pieces = np.arange(16).reshape(8, 2)
    for shards in (pieces, [np.concatenate([pieces[r], pieces[7 - r]]) for r in range(4)]):
        for shard in shards:
            assert (rope.apply(x[:, shard], p[shard]) == whole[:, shard]).all()


# -- shapes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_positions_of_every_shape(layout):
    rope = RoPE(8, layout=layout, rotary_dim=6)
    x = vectors(np.random.default_rng(3), 2, 3, 5, 8)
    rows = np.array([[0, 1, 2, 3, 4], [7, 7, 9, 100, 5]])
    full = np.arange(30).reshape(2, 3, 5) * 11
    for p in (range(5), np.arange(5), list(range(5)), rows, full, rows[:1], full[:, :1]):
        y = rope.apply(x, p)
        grid = np.asarray(p)
        grid = grid[:, None] if grid.ndim == 2 else grid
        grid = np.broadcast_to(grid, (2, 3, 5))
        for b, h, s in np.ndindex(2, 3, 5):
            one = rope.apply(x[b, h, s][None], [grid[b, h, s]])[0]
            assert (y[b, h, s] == one).all()
    assert (rope.apply(x[0, 0], range(5)) == rope.apply(x, range(5))[0, 0]).all()
    assert (rope.apply(x[:, 0], rows) == rope.apply(x, rows)[:, 0]).all()


@pytest.mark.parametrize("shape", [(0, 3, 5, 8), (2, 0, 5, 8), (2, 3, 0, 8), (0, 8), (0, 0, 8)])
def test_nothing_to_rotate(shape):
    rope = RoPE(8, layout="half")
    assert rope.apply(np.zeros(shape, np.float32), range(shape[-2])).shape == shape
    if len(shape) > 2:
        p = np.zeros((shape[0], shape[-2]), np.int64)
        assert rope.apply(np.zeros(shape), p).shape == shape
    assert rope.cos_sin(np.zeros((3, 0)))[0].shape == (3, 0, 4)


def test_memory_order_does_not_matter():
    rope = RoPE(8, layout="interleaved")
    x = vectors(np.random.default_rng(0), 4, 6, 5, 16)[::2, ::-1, :, ::2]
    want = rope.apply(np.ascontiguousarray(x), range(5))
    assert (rope.apply(x, range(5)) == want).all()
    assert (rope.apply(np.asfortranarray(x), range(5)) == want).all()
    p = np.arange(10)[::2]
    assert (rope.apply(x, p) == rope.apply(x, p.copy())).all()


def test_head_dim_is_enough_for_a_scalar_length():
    rope = RoPE(8, layout="half")
    cos, sin = rope.cos_sin(7, dtype=np.float32)
    assert cos.shape == sin.shape == (1, 4)
    assert cos.dtype == np.float32
    assert rope.cos_sin([[1, 2], [3, 4]])[1].shape == (2, 2, 4)
    assert rope.attention_factor() == 1.0
