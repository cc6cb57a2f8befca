"""Every frequency schedule against its published formula, written anew in 50-digit mpmath."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mpmath import mp, mpf

import posenc_ref as pr
from posenc_ref.conformance import check
from posenc_ref.conformance.exact.digits import DIGITS
from posenc_ref.conformance.exact.schedules import examples, frequencies, magnitude

FACTORS = st.sampled_from([1.0, 2.0, 3.7, 8.0, 32.0, 40.0]) | st.floats(1, 1e4)
BASES = st.sampled_from([1e4, 150000.0, 5e5, 1e6, 17.0]) | st.floats(1.01, 1e8)
DIMS = st.integers(2, 16).map(lambda n: 2 * n)
LENGTHS = st.sampled_from([2048, 4096, 8192, 131072]) | st.integers(2, 2**22)
TURNS = st.sampled_from([1.0, 2.0, 16.0, 32.0]) | st.floats(0.01, 100)


@pytest.fixture(autouse=True)
def fifty_digits():
    with mp.workdps(DIGITS):
        yield


def same(schedule, base, d, expected, seq_len=None):
    """Correctly rounded, every one: both have 50 digits."""
    ours = schedule.schedule(base, d, seq_len)
    assert [float(w) for w in ours] == [float(w) for w in expected]


def plain(base, d):
    return [1 / mp.power(base, mpf(2 * k) / d) for k in range(d // 2)]


def ntk(base, d, alpha):
    return plain(mpf(base) * mp.power(alpha, mpf(d) / (d - 2)), d)


@pytest.mark.parametrize("schedule", examples(), ids=repr)
def test_the_formula_of_the_entry(schedule):
    """Every schedule, registered or new, against the second formula of its own entry."""
    for base in (1e4, 256.0, 5e5):
        for length in (None, 1, 4096, 4097, 20000):
            same(schedule, base, 16, frequencies(schedule, base, 16, length), length)
            assert schedule.magnitude(length) == float(magnitude(schedule, length))


# -- NTK: the base is multiplied by alpha ** (d / (d - 2)) ----------------------------------------


@given(BASES, DIMS, FACTORS)
def test_ntk(base, d, s):
    same(pr.NTKScaling(s), base, d, ntk(base, d, mpf(s)))


@given(BASES, DIMS, FACTORS, LENGTHS, st.integers(1, 2**24) | st.none())
def test_dynamic_ntk(base, d, s, trained, length):
    longest = max(length or 1, trained)
    alpha = mpf(s) * longest / trained - (mpf(s) - 1)
    same(pr.DynamicNTK(s, trained), base, d, ntk(base, d, alpha), length)
    static = pr.DynamicNTK(s, trained, policy="static")
    same(static, base, d, ntk(base, d, mpf(s) ** 2 - mpf(s) + 1), length)


@given(BASES, DIMS, LENGTHS, st.integers(1, 2**24))
def test_qwen(base, d, trained, length):
    alpha = max(2 ** mp.ceil(mp.log(Fraction(length, trained), 2) + 1) - 1, 1)
    same(pr.QwenNTK(trained), base, d, ntk(base, d, alpha), length)


@pytest.mark.parametrize("times", [1, 2, 4, 8, 64])
def test_qwen_steps_at_the_powers_of_two(times):
    """Where the logarithm is whole: its own steps are 1, 3, 7, 15."""
    for length, alpha in ((2048 * times, 2 * times - 1), (2048 * times + 1, 4 * times - 1)):
        same(pr.QwenNTK(2048), 1e4, 64, ntk(1e4, 64, mpf(alpha)), length)


@given(BASES, DIMS, FACTORS, st.sampled_from([0.625, 1.0]) | st.floats(0.1, 4))
def test_su(base, d, s, b):
    a = mp.log(s) / mp.power(mpf(d) / 2, b)
    mixed = [w / mp.exp(a * mp.power(m, b)) for m, w in enumerate(plain(base, d), start=1)]
    same(pr.SuNTK(s, power=b), base, d, mixed)
    fixed = [w / mp.power(s, mpf(2) / d) for w in plain(mpf(base) * mpf(s), d)]
    same(pr.SuNTK(s), base, d, fixed)


@given(BASES, DIMS, st.integers(1, 24), st.integers(1, 2**16), st.sampled_from([1.0, 0.9, 0.25]))
def test_riflex(base, d, k, frames, part):
    """Equation (8), and the threshold of the released code, round(2 pi / theta)."""
    theta = plain(base, d)
    k = min(k, d // 2)
    if frames > mp.nint(2 * mp.pi / theta[k - 1]):
        theta[k - 1] = mpf(part) * 2 * mp.pi / frames
    same(pr.RIFLEx(k, frames, periods=part), base, d, theta)


@pytest.mark.parametrize(("base", "d", "k", "period"), [(256.0, 16, 4, 50), (1e4, 16, 2, 20)])
def test_riflex_of_released_models(base, d, k, period):
    """HunyuanVideo: pair 4, 50 frames; CogVideoX-5B: pair 2, 20 frames (the authors' settings)."""
    standard = [float(w) for w in plain(base, d)]
    for frames in (period, period + 1):
        found = [float(w) for w in pr.RIFLEx(k, frames, periods=0.9).schedule(base, d, None)]
        changed = [i for i, (a, b) in enumerate(zip(found, standard, strict=True)) if a != b]
        assert changed == ([k - 1] if frames > period else [])


@pytest.mark.parametrize(("base", "k", "length"), [(256.0, 4, 50), (1e4, 2, 20), (256.0, 4, 30)])
def test_riflex_of_fine_tuned_models(base, k, length):
    """The released scripts replace the frequency of these models without a condition."""
    theta = plain(base, 16)
    theta[k - 1] = mpf(0.9) * 2 * mp.pi / length
    declared = pr.RIFLEx(k, length, periods=0.9, fine_tuned=True)
    same(declared, base, 16, theta)
    port = np.array([float(w) for w in theta])
    for untrained in (False, True):  # as released, and with the condition of untrained models
        rope = pr.RoPE(16, layout="half", base=base, scaling=declared)
        given = pr.RoPE(16, layout="half", base=base).frequencies() if untrained else port
        report = check(lambda numbers=given: numbers, rope, "frequencies")
        assert report.verdict == ("deviates" if untrained else "conforms"), report


# -- YaRN and its relatives: by the number of turns within the trained length ---------------------


def pair_that_turns(r, base, d, trained):
    """The pair k, fractional, whose wavelength 2 pi base ** (2k/d) fits r times into `trained`."""
    wavelength = mpf(trained) / mpf(r)
    return mpf(d) / 2 * mp.log(wavelength / (2 * mp.pi)) / mp.log(base)


def interpolated(base, d, trained, fast, slow, truncate=True):
    """How far each pair is interpolated, or None where the ends are out of order."""
    start, end = (pair_that_turns(r, base, d, trained) for r in (fast, slow))
    if truncate:
        start, end = mp.floor(start), mp.ceil(end)
    start, end = max(start, mpf(0)), min(end, mpf(d - 1))
    end += mpf("0.001") if start == end else 0
    if start > end:
        return None
    inside = [(k - start) / (end - start) for k in range(d // 2)]
    return [max(0, min(1, g)) for g in inside]


@given(BASES, DIMS, FACTORS, LENGTHS, TURNS, TURNS, st.booleans())
def test_yarn(base, d, s, trained, one, other, truncate):
    fast, slow = max(one, other), min(one, other)
    yarn = pr.YaRN(s, trained, beta_fast=fast, beta_slow=slow, truncate=truncate)
    gamma = interpolated(base, d, trained, fast, slow, truncate)
    if gamma is None:
        with pytest.raises(ValueError, match="correction range outside the pairs"):
            yarn.schedule(base, d, None)
        return
    linear = [f * (1 - g) + f / mpf(s) * g for f, g in zip(plain(base, d), gamma, strict=True)]
    same(yarn, base, d, linear)
    kept, divided = plain(base, d), [f / mpf(s) for f in plain(base, d)]
    geometric = [
        mp.exp(mp.log(f) * (1 - g) + mp.log(p) * g)
        for f, p, g in zip(kept, divided, gamma, strict=True)
    ]
    same(yarn.replace(blend="geometric"), base, d, geometric)


@given(st.sampled_from([1e4, 150000.0, 5e5]), st.integers(1, 30), st.integers(-3, 3))
def test_yarn_decides_floor_and_ceiling_in_fifty_digits(base, k, ulps):
    """Betas for which float64 puts the end of the ramp on either side of a whole pair."""
    slow = float(4096 / (2 * mp.pi * mp.power(base, mpf(2 * k) / 64)))
    slow += ulps * slow * 2.0**-52
    gamma = interpolated(base, 64, 4096, 1e3, slow)
    expected = [f * (1 - g) + f / 8 * g for f, g in zip(plain(base, 64), gamma, strict=True)]
    same(pr.YaRN(8, 4096, beta_fast=1e3, beta_slow=slow), base, 64, expected)


@given(st.integers(1, 31), st.floats(-0.0015, 0.0015))
def test_equal_betas_leave_a_ramp_of_a_thousandth(k, offset):
    beta = float(4096 / (2 * mp.pi * mp.power(1e4, (2 * k + mpf(offset)) / 64)))
    gamma = interpolated(1e4, 64, 4096, beta, beta, truncate=False)
    expected = [f * (1 - g) + f / 8 * g for f, g in zip(plain(1e4, 64), gamma, strict=True)]
    yarn = pr.YaRN(8, 4096, beta_fast=beta, beta_slow=beta, truncate=False)
    same(yarn, 1e4, 64, expected)


@given(BASES, DIMS, FACTORS, LENGTHS, TURNS, TURNS, TURNS, TURNS)
def test_ntk_by_parts(base, d, s, trained, b0, b1, g0, g1):
    b0, b1, g0, g1 = max(b0, b1), min(b0, b1), max(g0, g1), min(g0, g1)
    betas = interpolated(base, d, trained, b0, b1)
    gammas = interpolated(base, d, trained, g0, g1)
    assume(betas is not None and gammas is not None)
    expected = []
    rows = zip(plain(base, d), ntk(base, d, mpf(s)), betas, gammas, strict=True)
    for f, n, beta, gamma in rows:
        slower = f / mpf(s) * beta + n * (1 - beta)
        expected.append(slower * gamma + f * (1 - gamma))
    by_parts = pr.NTKByParts(s, trained, beta_0=b0, beta_1=b1, gamma_0=g0, gamma_1=g1)
    same(by_parts, base, d, expected)


def by_wavelength(f, s, low, high, trained):
    """Three branches, as Llama's own code has them."""
    wavelength = 2 * mp.pi / f
    if wavelength < trained / high:
        return f
    if wavelength > trained / low:
        return f / s
    smooth = (trained / wavelength - low) / (high - low)
    return (1 - smooth) * f / s + smooth * f


@given(BASES, DIMS, FACTORS, TURNS, TURNS, LENGTHS)
def test_llama3(base, d, s, one, other, trained):
    low, high = mpf(min(one, other)), mpf(max(one, other))
    expected = [by_wavelength(f, mpf(s), low, high, mpf(trained)) for f in plain(base, d)]
    same(pr.Llama3Scaling(s, float(low), float(high), trained), base, d, expected)


@given(BASES, DIMS, FACTORS, TURNS, LENGTHS)
def test_llama3_without_a_band_is_a_step(base, d, s, turns, trained):
    expected = [f if trained * f > 2 * mp.pi * mpf(turns) else f / mpf(s) for f in plain(base, d)]
    same(pr.Llama3Scaling(s, turns, turns, trained), base, d, expected)


# -- the others -----------------------------------------------------------------------------------


@given(BASES, DIMS, st.data())
def test_longrope(base, d, data):
    numbers = st.lists(st.floats(0.01, 500), min_size=d // 2, max_size=d // 2)
    short, long = data.draw(numbers), data.draw(numbers)
    trained = data.draw(LENGTHS)
    shorts, longs = (
        [1 / (mpf(x) / f) for x, f in zip(divisors, plain(base, d), strict=True)]
        for divisors in (short, long)
    )
    rope = pr.LongRoPE(short, long, trained, factor=2)
    for length, expected in ((None, shorts), (1, shorts), (trained, shorts), (trained + 1, longs)):
        same(rope, base, d, expected, length)
        same(rope.replace(policy="short"), base, d, shorts, length)
        same(rope.replace(policy="long"), base, d, longs, length)


@given(BASES, DIMS, FACTORS, st.integers(0, 40))
def test_proportional(base, d, s, turning):
    assume(2 * turning <= d)
    expected = [f / mpf(s) for f in plain(base, d)[:turning]] + [0] * (d // 2 - turning)
    # A little more, so that no product of floats can fall below the whole number it means, and
    # nearly one pair more, which is cut off all the same.
    for more in (0.5, 1.5):
        fraction = min((2 * turning + more) / d, 1.0)
        same(pr.Proportional(fraction, factor=s), base, d, expected)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9))
def test_given(frequencies):
    same(pr.GivenFrequencies(frequencies), 1e4, 2 * len(frequencies), frequencies)


# -- the factor m ---------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [0.5, 1.0, 1.3])
def test_a_given_magnitude_is_itself(m):
    assert pr.GivenFrequencies([1.0], attention_factor=m).magnitude(7) == m
    assert pr.LongRoPE([1], [2], 4096, attention_factor=m).magnitude(None) == m
    assert pr.NTKScaling(4).magnitude(None) == pr.Llama3Scaling(8, 1, 4, 64).magnitude(9) == 1.0


@given(FACTORS, st.floats(0.01, 3), st.floats(0.01, 3), LENGTHS)
def test_magnitudes(s, u, v, trained):
    def g(weight):
        return weight * mp.log(mpf(s)) / 10 + 1

    yarn = pr.YaRN(s, trained)
    assert yarn.magnitude(None) == float(g(1))
    assert yarn.replace(mscale=u, mscale_all_dim=v).magnitude(9) == float(g(mpf(u)) / g(mpf(v)))
    both = yarn.replace(attention_factor=u, mscale=u, mscale_all_dim=v)
    assert both.magnitude(None) == u
    m = mp.sqrt(1 + mp.log(mpf(s)) / mp.log(trained))
    assert pr.LongRoPE([1], [2], trained, factor=s).magnitude(trained) == float(m)


# -- printed numbers ------------------------------------------------------------------------------

GOLDEN = {
    "NTK": (pr.NTKScaling(4), 64, 1e4, {
        0: "1", 1: ".7170983281", 7: ".09751040712", 15: ".006818371331", 31: "3.33380358e-5"}),
    "dynamic at 8192": (pr.DynamicNTK(2, 4096), 64, 1e4, {
        0: "1", 1: ".7237840224", 7: ".1040549973", 15: ".007836729865", 31: "4.445071441e-5"}),
    "gpt-oss": (pr.YaRN(32, 4096, truncate=False), 64, 1.5e5, {
        0: "1", 8: ".05081327482", 9: ".03170569618", 12: ".00679495949", 17: "1.293187012e-4",
        18: "3.830881237e-5", 31: "3.023511428e-7"}),
    "gpt-oss, rounded": (pr.YaRN(32, 4096), 64, 1.5e5, {
        0: "1", 8: ".05081327482", 9: ".03162075228", 12: ".007015713911", 17: "2.279477958e-4",
        18: "3.830881237e-5", 31: "3.023511428e-7"}),
    "DeepSeek-V3": (pr.YaRN(40, 4096), 64, 1e4, {
        0: "1", 10: ".05623413252", 11: ".03900692657", 15: ".008334508951", 22: "1.77827941e-4",
        23: "3.33380358e-5", 31: "3.33380358e-6"}),
    "Llama 3.1": (pr.Llama3Scaling(8, 1, 4, 8192), 128, 5e5, {
        0: "1", 28: ".003211445995", 29: ".002166570764", 30: ".001371893568",
        34: "1.785078128e-4", 35: "9.556212354e-5", 36: "7.784655274e-5", 63: "3.068925989e-7"}),
    "Gemma 4": (pr.Proportional(0.25), 512, 1e6, {
        0: "1", 1: ".9474635257", 63: ".03337624694", 64: "0", 255: "0"}),
    "by parts": (pr.NTKByParts(4, 2048), 128, 1e4, {
        0: "1", 20: ".05623413252", 40: ".001103075935", 45: "3.849816315e-4",
        50: "1.874735523e-4", 63: "2.886954962e-5"}),
}  # fmt: skip
FACTORS_M = {
    "1.3465735903": pr.YaRN(32, 4096), "1.1386294361": pr.YaRN(4, 32768),
    "1.2079441542": pr.YaRN(8, 4096),
    "1.1902380714": pr.LongRoPE([1], [1], 4096, factor=32),
}  # fmt: skip


def printed(text):
    """The number, and half a unit of its last digit."""
    digits, _, exponent = text.partition("e")
    last = Fraction(10) ** (int(exponent or 0) - len(digits.partition(".")[2]))
    return Fraction(text), last / 2 if Fraction(text) else 0


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_frequencies(name):
    """Computed elsewhere, in float64, and printed to ten digits."""
    schedule, d, base, golden = GOLDEN[name]
    found = schedule.schedule(base, d, 8192)
    assert len(found) == d // 2
    for k, text in golden.items():
        number, slack = printed(text)
        assert abs(Fraction(found[k]) - number) <= slack


@pytest.mark.parametrize("text", FACTORS_M)
def test_golden_magnitudes(text):
    number, slack = printed(text)
    assert abs(Fraction(FACTORS_M[text].magnitude(None)) - number) <= slack
