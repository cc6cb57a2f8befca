"""Each encoding on each declared library, device and dtype, against 50-digit arithmetic."""

import functools
from fractions import Fraction

import numpy as np
import pytest

from posenc_ref import (
    ALiBi,
    Learned,
    LinearScaling,
    RoPE,
    Sinusoidal,
    T5Bias,
    convert_layout,
    permute_weights,
    scores,
)
from posenc_ref.conformance.exact.digits import DIGITS, exact_bucket, mpmath
from tests.conformance.exact.fixed_point import (
    BITS,
    Exact,
    exact_cos_sin,
    geometric,
    slope_exponents,
    to_fixed,
    to_float,
)
from tests.night import by_day

B, H, S, D = 2, 3, 5, 8
RNG = np.random.default_rng(99)
# Multiples of 1/32 and 1/64 with seven bits: exact in every dtype.
X = RNG.integers(-127, 128, (B, H, S, D)) / 32
KEYS = RNG.integers(-127, 128, (B, H, S, D)) / 32
WEIGHT = RNG.integers(-127, 128, (40, D)) / 64
BUCKETS = RNG.integers(-127, 128, (32, H)) / 64
FAR = np.array([0, 3, 255, 4097, 2**20 + 1])
NEAR = np.array([0, 7, 3, 36, 12])  # rows of WEIGHT
LAYOUTS = {
    "half": (slice(0, D // 2), slice(D // 2, D)),
    "interleaved": (slice(0, D, 2), slice(1, D, 2)),
}


@functools.cache
def angles(factor=1.0):
    """Return cos and sin at FAR, (S, D/2) integers in units of 2**-BITS."""
    waves = geometric(10000.0, [Fraction(k, 4) for k in range(4)], factor)
    return exact_cos_sin(FAR.tolist(), waves)


def exact_rotation(x, layout="half", factor=1.0, order=1):
    """Return x rotated to FAR[::order] as integers, with the error terms and the amplitude."""
    cos, sin = (table[::order] for table in angles(factor))
    first, second = LAYOUTS[layout]
    fixed = to_fixed(x)
    x1, x2 = fixed[..., first], fixed[..., second]
    y, terms, size = fixed.copy(), np.zeros(x.shape), np.zeros(x.shape)
    y[..., first], y[..., second] = (x1 * cos - x2 * sin) >> BITS, (x2 * cos + x1 * sin) >> BITS
    c, s = np.abs(to_float(cos)), np.abs(to_float(sin))
    a, b = np.abs(x[..., first]), np.abs(x[..., second])
    terms[..., first], terms[..., second] = a * c + b * s, b * c + a * s
    size[..., first] = size[..., second] = np.hypot(a, b)
    return y, terms, size


def sinusoids():
    """Return the paper's table at FAR."""
    cos, sin = angles()
    return np.stack([sin, cos], axis=-1).reshape(S, D)


def alibi(positions):
    mp = mpmath().mp
    with mp.workdps(DIGITS):
        exponents = [mp.mpf(e.numerator) / e.denominator for e in slope_exponents(H)]
        slopes = [int(mp.mpf(2) ** (BITS - e)) for e in exponents]
    distance = np.abs(positions[:, None] - positions).astype(object)
    return np.stack([-slope * distance for slope in slopes])


def t5(q, k):
    index = np.array([[exact_bucket(int(j - i), 32, 128, True) for j in k] for i in q])
    return np.moveaxis(BUCKETS[index], -1, 0)


# -- rotary ----------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_rope_apply(place, layout, factor):
    rope = RoPE(D, layout=layout, scaling=LinearScaling(factor))
    fixed, terms, size = exact_rotation(X, layout, factor)
    x = place.array(X)
    for positions in place.ways(FAR):
        place.judge(Exact(fixed), rope.apply(x, positions), terms, size)
    assert (place.host(x) == X).all()


def test_rope_apply_with_positions_for_each_row(place):
    forward, backward = exact_rotation(X), exact_rotation(X, order=-1)
    fixed, terms, size = (np.stack([a[0], b[1]]) for a, b in zip(forward, backward, strict=True))
    for positions in place.ways(np.stack([FAR, FAR[::-1]])):
        y = RoPE(D, layout="half").apply(place.array(X), positions)
        place.judge(Exact(fixed), y, terms, size)


def test_rope_inverse_and_shift(place):
    """The inverse of the exact rotation, and a shift to it from position 0."""
    rope = RoPE(D, layout="half")
    fixed, _, size = exact_rotation(X)
    rotated = place.array(to_float(fixed))  # rounded to the dtype, up to a unit of the pair
    for positions in place.ways(FAR):
        place.judge(Exact(to_fixed(X)), rope.inverse(rotated, positions), 4 * size, size)
        moved = rope.shift(rope.apply(place.array(X), [0] * S), positions)
        place.judge(Exact(fixed), moved, 4 * size, size)


def test_rope_tables(place):
    rope = RoPE(D, layout="half")
    for dtype in dict.fromkeys((None, place.dtype)):
        kind = dtype or place.working
        on_device = rope.cos_sin(place.integers(FAR), dtype=dtype)
        from_host = rope.cos_sin(FAR, dtype=dtype, xp=place.module, device=place.home)
        for columns in (on_device, from_host):
            for fixed, column in zip(angles(), columns, strict=True):
                exact = Exact(fixed)
                place.judge(exact, column, np.abs(exact.hi), 1.0, kind)


# -- tables ----------------------------------------------------------------------------------


def test_sinusoidal_table_and_add(place):
    encoding, exact = Sinusoidal(D), Exact(sinusoids())
    for dtype in dict.fromkeys((None, place.dtype)):
        table = encoding.table(place.integers(FAR), dtype=dtype)
        place.judge(exact, table, np.abs(exact.hi), 1.0, dtype or place.working)
    total = Exact(to_fixed(X) + sinusoids())
    for positions in place.ways(FAR):
        y = encoding.add(place.array(X), positions)
        place.judge(total, y, np.abs(X) + np.abs(exact.hi), 1.0)


def test_learned_rows_bit_for_bit(place):
    encoding = Learned(place.array(WEIGHT), offset=2)
    rows = WEIGHT[NEAR + 2]
    for positions in place.ways(NEAR):
        assert (place.at_home(encoding.table(positions)) == rows).all()
        y = encoding.add(place.array(X), positions)
        place.judge(Exact(to_fixed(X + rows)), y, np.abs(X) + np.abs(rows))


@pytest.mark.parametrize("outside", [-1, 40])
def test_learned_refuses_positions_outside_the_table(place, outside):
    encoding = Learned(place.array(WEIGHT))
    here, there = place.ways(np.array([0, outside]))
    with pytest.raises(ValueError, match=rf"in 0 \.\. 39.*got {outside}"):
        encoding.table(here)
    if place.backend.lazy:  # the index cannot be looked at: its row is NaN
        rows = place.at_home(encoding.table(there))
        assert (rows[0] == WEIGHT[0]).all()
        assert np.isnan(rows[1]).all()
    else:
        with pytest.raises(ValueError, match=rf"in 0 \.\. 39.*got {outside}"):
            encoding.table(there)


def test_positions_from_tokens(place):
    tokens = np.array([[5, 6, 1, 7, 1], [1, 1, 5, 1, 6]])
    encoding = Learned(place.array(WEIGHT), offset=1, padding_idx=1)
    ids = place.host(encoding.ids_from_tokens(place.integers(tokens)))
    assert (ids + 1 == [[2, 3, 1, 4, 1], [1, 1, 2, 1, 3]]).all()
    assert ids.dtype.kind == "i"


# -- biases ----------------------------------------------------------------------------------


def test_alibi_bias(place):
    exact = Exact(alibi(FAR))
    p = place.integers(FAR)
    for bias in (ALiBi(H).bias(p, p), ALiBi(H).bias(FAR, p), ALiBi(H).bias(p, FAR)):
        place.judge(exact, bias, np.abs(exact.hi), 0.0, place.working)
    near, exact = place.integers(NEAR), Exact(alibi(NEAR))
    place.judge(exact, ALiBi(H).bias(near, near, dtype=place.dtype), np.abs(exact.hi))


def test_t5_bias_bit_for_bit(place):
    encoding = T5Bias(place.array(BUCKETS))
    for positions in place.ways(NEAR):
        bias = encoding.bias(positions, positions)
        assert (place.at_home(bias) == t5(NEAR, NEAR)).all()
    r = np.arange(-300, 301)
    buckets = place.host(encoding.bucket(place.integers(r)))
    assert (buckets == [exact_bucket(int(n), 32, 128, True) for n in r]).all()
    t = place.at_home(encoding.toeplitz(3, 4))
    assert (t == t5([0], range(-3, 3))[:, 0]).all()


# -- scores ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Sinusoidal", "Learned", "RoPE", "ALiBi", "T5Bias"])
def test_scores(place, name):
    scale, bias, positions = 0.25, np.zeros((), dtype=object), FAR
    q, k = to_fixed(X), to_fixed(KEYS)
    if name == "Sinusoidal":
        encoding, q, k = Sinusoidal(D), q + sinusoids(), k + sinusoids()
    elif name == "Learned":
        encoding, positions = Learned(place.array(WEIGHT)), NEAR
        q, k = q + to_fixed(WEIGHT[NEAR]), k + to_fixed(WEIGHT[NEAR])
    elif name == "RoPE":
        encoding, q, k = RoPE(D, layout="half"), exact_rotation(X)[0], exact_rotation(KEYS)[0]
    elif name == "ALiBi":
        encoding, positions, bias = ALiBi(H), NEAR, alibi(NEAR)
    else:
        encoding, positions, bias = T5Bias(place.array(BUCKETS)), NEAR, to_fixed(t5(NEAR, NEAR))
    exact = Exact((np.einsum("bhid,bhjd->bhij", q, k) >> BITS + 2) + bias)
    # The norms of q and k, plus their roundings, bound each product and the error of the angles.
    sizes = [np.linalg.norm(to_float(a), axis=-1) + 2 for a in (q, k)]
    amplitude = scale * sizes[0][..., :, None] * sizes[1][..., None, :]
    terms = D * amplitude + np.abs(to_float(bias))
    for p in place.ways(positions):
        logits = scores(encoding, place.array(X), place.array(KEYS), p, p, scale=scale)
        place.judge(exact, logits, terms, 4 * amplitude)


# -- moving channels, odd shapes -------------------------------------------------------------


def test_layouts_bit_for_bit(place):
    moved = convert_layout(place.array(X), source="interleaved", target="half", rotary_dim=6)
    assert (place.at_home(moved) == X[..., [0, 2, 4, 1, 3, 5, 6, 7]]).all()
    w = permute_weights(place.array(WEIGHT), 10)
    rows = [4 * head + channel for head in range(10) for channel in (0, 2, 1, 3)]
    assert (place.at_home(w) == WEIGHT[rows]).all()


EMPTY = [(0, H, S, D), (B, 0, S, D), (B, H, 0, D), (0, D)]


@pytest.mark.parametrize("shape", by_day(EMPTY, {(0, H, S, D), (B, H, 0, D)}))
def test_nothing_to_encode(place, shape):
    x, rope = place.array(np.zeros(shape)), RoPE(D, layout="half", rotary_dim=6)
    learned = Learned(place.array(WEIGHT))
    for p in place.ways(np.arange(shape[-2])):
        for call in (rope.apply, rope.inverse, Sinusoidal(D).add, learned.add):
            assert place.at_home(call(x, p)).shape == shape
    none, some = place.integers(np.zeros(0)), place.integers(np.arange(3))
    for encoding in (ALiBi(H), T5Bias(place.array(BUCKETS))):
        assert place.host(encoding.bias(none, some)).shape == (H, 0, 3)
        assert place.host(encoding.bias(some, none)).shape == (H, 3, 0)


def test_arrays_that_are_not_contiguous(place):
    rope = RoPE(D, layout="interleaved", rotary_dim=6)
    want = place.host(rope.apply(place.array(X), FAR))
    fortran = place.transposed(place.array(X.transpose(3, 2, 1, 0).copy()))
    strided = place.array(np.repeat(X, 2, axis=-1))[..., ::2]
    every = place.integers(np.repeat(FAR, 2))[::2]
    for x in (fortran, strided):
        for positions in (FAR, every):
            assert (place.at_home(rope.apply(x, positions)) == want).all()
