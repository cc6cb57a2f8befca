"""The worked examples of the five tutorials this project grew out of, with their numbers.

A printed number is right if the true value rounds to it: half a unit of its last digit.  Where a
tutorial is wrong, the corrected number stands here and what was printed is said.
"""

from fractions import Fraction

import numpy as np
import pytest

from posenc_ref import ALiBi, Learned, RoPE, Sinusoidal, scores
from posenc_ref.accuracy import Truth, budget


def rounds_to(value, printed):
    """Whether ``value`` is within half a unit of the last digit of ``printed``."""
    decimals = len(printed.partition(".")[2])
    return abs(Fraction(float(value)) - Fraction(printed)) <= Fraction(1, 2 * 10**decimals)


def same(actual, want, size):
    """Equal up to float64 roundings of terms of this size."""
    truth = Truth(
        np.asarray(want), np.full((), float(size)), np.zeros(()), np.full((), float(size))
    )
    return np.max(truth.score(np.asarray(actual), angles="exact")) <= budget("float64")


def test_half_a_unit_is_half_a_unit():
    assert rounds_to(0.8414709848, "0.841")
    assert not rounds_to(0.8414709848, "0.842")
    assert not rounds_to(0.8414709848, "0.8416")
    assert rounds_to(-2.2347, "-2.235")
    assert not rounds_to(-2.2347, "-2.234")


# -- seed 002: d = 8, positions 0 .. 10 ------------------------------------------------------

SINES = """
0      0      0      0
0.841  0.0998 0.0100 0.0010
0.909  0.1987 0.0200 0.0020
0.141  0.2955 0.0300 0.0030
-0.757 0.3894 0.0400 0.0040
-0.959 0.4794 0.0500 0.0050
-0.279 0.5646 0.0600 0.0060
0.657  0.6442 0.0699 0.0070
0.989  0.7174 0.0799 0.0080
0.412  0.7833 0.0899 0.0090
-0.544 0.8415 0.0998 0.0100
"""
COSINES = """
1      1      1       1
0.540  0.9950 0.99995 1.0000
-0.416 0.9801 0.9998  1.0000
-0.990 0.9553 0.9996  1.0000
-0.654 0.9211 0.9992  1.0000
0.284  0.8776 0.9988  1.0000
0.960  0.8253 0.9982  1.0000
0.754  0.7648 0.9976  1.0000
-0.146 0.6967 0.9968  1.0000
-0.911 0.6216 0.9960  1.0000
-0.839 0.5403 0.9950  0.99995
"""
VECTORS = """
0      1      0     1     0     1     0     1
0.841  0.540  0.100 0.995 0.010 1.000 0.001 1.000
0.909  -0.416 0.199 0.980 0.020 1.000 0.002 1.000
0.141  -0.990 0.296 0.955 0.030 1.000 0.003 1.000
-0.757 -0.654 0.389 0.921 0.040 0.999 0.004 1.000
-0.959 0.284  0.479 0.878 0.050 0.999 0.005 1.000
"""


def rows(text):
    return [line.split() for line in text.strip().splitlines()]


@pytest.mark.parametrize(("text", "first"), [(SINES, 0), (COSINES, 1)], ids=["sin", "cos"])
def test_002_sines_and_cosines(text, first):
    table = Sinusoidal(8).table(range(11))[:, first::2]
    printed = rows(text)
    assert len(printed) == 11
    for p, i in np.ndindex(table.shape):
        assert rounds_to(table[p, i], printed[p][i]), (p, i)


def test_002_vectors():
    table = Sinusoidal(8).table(range(6))
    for p, i in np.ndindex(table.shape):
        assert rounds_to(table[p, i], rows(VECTORS)[p][i]), (p, i)


def test_002_frequencies_and_wavelengths():
    """omega = 1, 0.1, 0.01, 0.001; T0 = 2 pi = 6.28 and T3 = 6283."""
    omega = Sinusoidal(8).frequencies()
    assert omega.tolist() == [1.0, 0.1, 0.01, 0.001]
    assert rounds_to(2 * np.pi / omega[0], "6.28")
    assert rounds_to(2 * np.pi / omega[3], "6283")


def test_002_the_shift_matrix():
    """Printed right: [[cos k, sin k], [-sin k, cos k]] on (sin, cos); there for omega = 1."""
    k = 3
    want = [[np.cos(k), np.sin(k)], [-np.sin(k), np.cos(k)]]
    encoding = Sinusoidal(8)
    assert same(encoding.shift_matrix(k)[:2, :2], want, 1)
    assert same(encoding.shift_matrix(k) @ encoding.table(5)[0], encoding.table(8)[0], 3)


def test_002_a_rotation_by_hand():
    """d = 4, m = 2, q = [1, 2, 3, 4]: printed [-2.234, 0.077, 2.92, 4.06].

    The first number was worked out from cos and sin rounded to three digits: it is -2.23474, so
    -2.235.  The others are right as printed.
    """
    rope = RoPE(4, layout="interleaved")
    y = rope.apply(np.array([[1.0, 2.0, 3.0, 4.0]]), [2])[0]
    assert all(map(rounds_to, y, ["-2.235", "0.077", "2.92", "4.06"]))
    assert not rounds_to(y[0], "-2.234")
    cos, sin = Fraction("-0.416"), Fraction("0.909")
    assert cos * 1 - sin * 2 == Fraction("-2.234")  # where it came from
    assert rope.frequencies().tolist() == [1.0, 0.01]
    printed = {(0, 0): "-0.416", (0, 1): "-0.909", (1, 0): "0.909", (1, 1): "-0.416"}
    printed |= {(2, 2): "1.0", (2, 3): "-0.02", (3, 2): "0.02", (3, 3): "1.0"}
    for (i, j), number in printed.items():
        assert rounds_to(rope.matrix(2)[i, j], number)


def test_002_the_elementwise_form():
    """x * cos + (-x1, x0, -x3, x2) * sin, with cos and sin of each pair written twice."""
    x = np.random.default_rng(0).standard_normal((6, 8))
    rope = RoPE(8, layout="interleaved")
    cos, sin = (np.repeat(t, 2, axis=-1) for t in rope.cos_sin(range(6)))
    turned = np.stack([-x[:, 1::2], x[:, ::2]], axis=-1).reshape(6, 8)
    assert same(rope.apply(x, range(6)), x * cos + turned * sin, 4)


# -- seed 000: dot products of sinusoids -----------------------------------------------------


def gram_depends_on_distance(sines, cosines):
    """Whether sin(p w) sin(q w) + cos(p v) cos(q v), summed, is a function of p - q."""
    p = np.arange(12.0)[:, None]
    table = np.concatenate([np.sin(p * sines), np.cos(p * cosines)], axis=1)
    gram = table @ table.T
    return same(gram[1:, 1:], gram[:-1, :-1], 100)


def test_000_dot_products_are_sums_of_cosines_of_the_distance():
    for layout in ("interleaved", "concat"):
        table = Sinusoidal(8, layout=layout).table(range(12))
        omega, p = Sinusoidal(8).frequencies(), np.arange(12)
        want = np.cos((p[:, None, None] - p[:, None]) * omega).sum(axis=-1)
        assert same(table @ table.T, want, 100)


def test_000_flipped_frequencies_keep_the_property():
    """Printed: repeating, flipping or shifting the frequencies of the cosines destroys it.

    Only repeating does: what counts is which frequencies there are, not in which order.
    """
    omega = Sinusoidal(8).frequencies()
    assert gram_depends_on_distance(omega, omega)
    assert gram_depends_on_distance(omega, omega[::-1])
    assert gram_depends_on_distance(omega, np.roll(omega, 1))
    assert not gram_depends_on_distance(omega, np.repeat(omega[::2], 2))
    assert not gram_depends_on_distance(omega, np.zeros(0))  # sines alone


def test_000_frequencies_fall():
    """Printed: they rise exponentially.  It is the wavelength that rises."""
    assert (np.diff(Sinusoidal(64).frequencies()) < 0).all()


# -- seed 001 --------------------------------------------------------------------------------


def test_001_the_shift_matrix_has_the_other_sign():
    """Printed: [[cos, -sin], [sin, cos]] takes PE(p) to PE(p + k).  It takes it to PE(p - k)."""
    encoding, k, omega = Sinusoidal(8), 3, Sinusoidal(8).frequencies()[1]
    c, s = np.cos(k * omega), np.sin(k * omega)
    printed = np.array([[c, -s], [s, c]])
    before = encoding.table(5)[0, 2:4]
    assert not same(printed @ before, encoding.table(8)[0, 2:4], 3)
    assert same(printed @ before, encoding.table(2)[0, 2:4], 3)
    assert same(encoding.shift_matrix(k)[2:4, 2:4], printed.T, 1)


def test_001_four_terms():
    """(x_i + p_i) . (x_j + p_j) is the sum of four products; the printed form forgets 1/sqrt(d)."""
    rng = np.random.default_rng(0)
    q, k, encoding = rng.standard_normal((5, 8)), rng.standard_normal((6, 8)), Sinusoidal(8)
    p, r = encoding.table(range(5)), encoding.table(range(6))
    four = q @ k.T + q @ r.T + p @ k.T + p @ r.T
    assert same(scores(encoding, q, k, range(5), range(6), scale=1.0), four, 100)
    assert same(scores(encoding, q, k, range(5), range(6)), four / np.sqrt(8), 100)


def test_001_rope_logits_depend_on_the_distance():
    rng = np.random.default_rng(1)
    q, k, rope = rng.standard_normal((1, 8)), rng.standard_normal((1, 8)), RoPE(8, layout="half")
    here = rope.apply(q, [3]) @ rope.apply(k, [10]).T
    assert same(rope.apply(q, [103]) @ rope.apply(k, [110]).T, here, 50)
    assert not same(rope.apply(q, [10]) @ rope.apply(k, [3]).T, here, 50)


def test_001_alibi_is_the_product_minus_slope_times_distance():
    """Printed: q.k - m |i - j|.  The paper subtracts it from q.k / sqrt(d), for keys up to i."""
    q, k = np.ones((8, 3, 4)), np.ones((8, 5, 4))
    logits = scores(ALiBi(8), q, k, [2, 3, 4], range(5))
    for h, i, j in np.ndindex(logits.shape):
        assert logits[h, i, j] == 4 / 2 - 2.0 ** -(h + 1) * abs(i + 2 - j)


# -- seed 003 --------------------------------------------------------------------------------


def test_003_wavelengths_of_512_dimensions():
    """Printed: wavelength 1 for pair 0, and 10000**(510/512) = 10000**0.996 = 9540 for pair 255.

    The last is 9646.6, and 9638.3 with the rounded exponent.  Both are timescales: the wavelengths
    are 2 pi times as long.
    """
    omega = Sinusoidal(512).frequencies()
    assert omega[0] == 1
    assert rounds_to(1 / omega[255], "9646.6")
    assert rounds_to(10000**0.996, "9638.3")
    assert not rounds_to(1 / omega[255], "9540")
    assert rounds_to(2 * np.pi / omega[255], "60611.5")


def test_003_the_first_numbers_of_a_table():
    """Printed as x + PE at position 0: [0.8415, 0.5403, -0.0042, 0.9999].

    PE(0) starts [0, 1, 0, 1]; the first two are PE(1), whose next two are 0.8219 and 0.5697.
    """
    table = Sinusoidal(512).table([0, 1])
    assert table[0, :4].tolist() == [0.0, 1.0, 0.0, 1.0]
    assert all(map(rounds_to, table[1, :4], ["0.8415", "0.5403", "0.8219", "0.5697"]))


def test_003_six_thousand_is_past_a_table_of_five_thousand():
    """Printed: the buffer of 5000 rows serves 6000 positions.  The formula does, a table not."""
    formula = Sinusoidal(16)
    assert formula.table(5999).shape == (1, 16)
    with pytest.raises(ValueError, match=r"in 0 \.\. 4999, the rows of the table, got 5999"):
        Learned(formula.table(range(5000))).table(range(6000))
    # Nor does periodicity bring it back: no position repeats another.
    table = formula.table(range(6000))
    assert len(np.unique(table, axis=0)) == 6000


# -- seed 004 --------------------------------------------------------------------------------


def test_004_the_exponent_is_there_twice():
    """Printed: 10000 ** (-2 * arange(0, dim, 2) / dim), where arange(0, dim, 2) is 2i already."""
    printed = 10000.0 ** (-2 * np.arange(0, 8, 2) / 8)
    assert same(printed, [1, 1e-2, 1e-4, 1e-6], 1)
    assert RoPE(8, layout="half").frequencies().tolist() == [1.0, 0.1, 0.01, 0.001]


def test_004_the_code_is_half_split_and_the_mathematics_interleaved():
    """The two give different vectors for q = [1, 2, 3, 4] at m = 2, and nobody says so."""
    q = np.array([[1.0, 2.0, 3.0, 4.0]])
    half = RoPE(4, layout="half").apply(q, [2])[0]
    assert all(map(rounds_to, half, ["-3.144", "1.920", "-0.339", "4.039"]))
    paper = RoPE(4, layout="interleaved").apply(q, [2])[0]
    assert all(map(rounds_to, paper, ["-2.235", "0.077", "2.919", "4.059"]))


def rotate_half(x):
    one, two = np.split(x, 2, axis=-1)
    return np.concatenate([-two, one], axis=-1)


def test_004_rotate_half():
    """q * cos + rotate_half(q) * sin with the angles written twice, as its class does."""
    q = np.random.default_rng(0).standard_normal((2, 3, 10, 64))
    inv_freq = 1.0 / (10000 ** (np.arange(0, 64, 2) / 64))
    angle = np.outer(np.arange(10), inv_freq)
    angle = np.concatenate([angle, angle], axis=-1)
    want = q * np.cos(angle) + rotate_half(q) * np.sin(angle)
    truth = Truth(want, 2 * np.abs(q) + np.abs(rotate_half(q)), angle * 8)
    assert truth.score(RoPE(64, layout="half").apply(q, range(10))).max() <= budget("float64")


@pytest.mark.parametrize("distance", [1, 2, 3])
def test_004_verify_rope_property(distance):
    """Its own check, at (0, distance) and (1, 1 + distance): the logits are the same."""
    rng = np.random.default_rng(distance)
    q, k, rope = rng.standard_normal((1, 64)), rng.standard_normal((1, 64)), RoPE(64, layout="half")
    one = rope.apply(q, [0]) @ rope.apply(k, [distance]).T
    two = rope.apply(q, [1]) @ rope.apply(k, [1 + distance]).T
    assert same(two, one, 64 * np.abs(q).max() * np.abs(k).max())
