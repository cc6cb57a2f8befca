"""What every frequency schedule must satisfy, whatever computes it."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import posenc_ref as pr
from posenc_ref.accuracy import Truth, budget
from posenc_ref.angles import decimal_context
from posenc_ref.conformance.exact.schedules import examples
from posenc_ref.schedules.scaling import standard_schedule
from tests.night import by_day
from tests.tool import tool

FACTORS = st.sampled_from([1.0, 2.0, 3.7, 8.0, 40.0]) | st.floats(1, 1e4)
BASES = st.sampled_from([1e4, 1.5e5, 5e5, 1e6]) | st.floats(10, 1e8)
DIMS = st.integers(2, 24).map(lambda n: 2 * n)
LENGTHS = st.sampled_from([2048, 4096, 8192, 131072]) | st.integers(64, 2**20)

#: The examples of all schedules, for eight pairs.
ALL = examples()


def decimals(schedule, base=1e4, d=16, seq_len=None):
    return schedule.schedule(base, d, seq_len)


def floats(*args):
    return [float(w) for w in decimals(*args)]


# -- all of them ----------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ALL, ids=repr)
def test_frequencies_are_finite_decimals_one_per_pair(schedule):
    for seq_len in (None, 1, 4096, 4097, 2**20):
        found = decimals(schedule, 1e4, 16, seq_len)
        assert len(found) == 8
        assert all(isinstance(w, Decimal) and w.is_finite() for w in found)
        m = schedule.magnitude(seq_len)
        assert isinstance(m, float)
        assert 0 < m < 10


@pytest.mark.parametrize("schedule", ALL, ids=repr)
def test_only_those_that_say_so_depend_on_the_length(schedule):
    lengths = (None, 1, 4096, 4097, 8192, 2**20)
    seen = {(decimals(schedule, 1e4, 16, n), schedule.magnitude(n)) for n in lengths}
    assert (len(seen) > 1) == schedule.depends_on_length
    rope = pr.RoPE(16, layout="half", scaling=schedule)
    assert rope.depends_on_length == schedule.depends_on_length
    # Up to the original length nothing depends on it.
    assert decimals(schedule) == decimals(schedule, 1e4, 16, 1) == decimals(schedule, 1e4, 16, 4096)


@pytest.mark.parametrize("schedule", ALL, ids=repr)
def test_the_rotation_has_these_frequencies_and_this_factor(schedule):
    rope = pr.RoPE(16, layout="half", scaling=schedule)
    for p in (0, 3, 5000):
        cos, sin = rope.cos_sin(np.array([p]))
        m = schedule.magnitude(p + 1)
        size = Truth(np.full((1, 8), m), np.full((1, 8), m), np.zeros(()))
        assert size.score(np.hypot(cos, sin)).max() <= budget("float64")
        angles = p * np.array(floats(schedule, 1e4, 16, p + 1))
        truth = Truth(m * np.exp(1j * angles).real, np.full(8, m), m * np.abs(angles))
        assert truth.score(cos).max() <= budget("float64")


@pytest.mark.parametrize("schedule", by_day(ALL, ALL[::3]), ids=repr)
@given(st.integers(0, 5000), st.integers(0, 5000), st.integers(0, 9))
def test_logits_are_relative_at_one_length(schedule, p, q, seed):
    rope = pr.RoPE(16, layout="half", scaling=schedule)
    x, y = np.random.default_rng(seed).standard_normal((2, 1, 16))
    here, there = (
        rope.apply(x, [p + s], seq_len=20000) @ rope.apply(y, [q + s], seq_len=20000).T
        for s in (0, 10000)
    )
    m = rope.attention_factor(20000)
    size = np.full((), 16 * m * m * np.linalg.norm(x) * np.linalg.norm(y))
    assert Truth(here, size, np.zeros(()), 8 * size).score(there).max() <= budget("float64")


@given(BASES, DIMS, LENGTHS)
def test_factor_one_changes_nothing(base, d, trained):
    plain = [float(w) for w in standard_schedule(base, d)]
    for schedule in (
        pr.LinearScaling(1), pr.NTKScaling(1), pr.SuNTK(1), pr.SuNTK(1, power=0.625),
        pr.DynamicNTK(1, trained, policy="static"), pr.NTKByParts(1, trained),
        pr.YaRN(1, trained), pr.Llama3Scaling(1, 1, 4, trained), pr.Proportional(1),
        pr.LongRoPE([1] * (d // 2), [1] * (d // 2), trained, factor=1),
    ):  # fmt: skip
        try:
            assert floats(schedule, base, d, 2 * trained) == plain
        except ValueError as error:
            assert "correction range" in str(error)  # noqa: PT017
        assert schedule.magnitude(2 * trained) == 1.0


# -- NTK ------------------------------------------------------------------------------------------


@given(BASES, DIMS, FACTORS)
def test_ntk_keeps_the_first_pair_and_divides_the_last(base, d, s):
    found, divided = floats(pr.NTKScaling(s), base, d), floats(pr.LinearScaling(s), base, d)
    assert found[0] == 1.0
    assert found[-1] == divided[-1]
    assert floats(pr.SuNTK(s), base, d)[-1] == divided[-1]
    assert floats(pr.SuNTK(s, power=0.625), base, d)[-1] == divided[-1]
    assert all(low <= w for low, w in zip(divided, found, strict=True))


@given(BASES, DIMS, FACTORS)
def test_ntk_is_another_base(base, d, s):
    other = np.array(floats(pr.LinearScaling(1), base * s ** (d / (d - 2)), d))
    truth = Truth(np.array(floats(pr.NTKScaling(s), base, d)), other, np.zeros(()))
    assert truth.score(other).max() <= budget("float64")


@given(BASES, DIMS, FACTORS, LENGTHS, st.integers(1, 9))
def test_dynamic_ntk_and_its_policies(base, d, s, trained, times):
    ntk = pr.DynamicNTK(s, trained)
    plain = standard_schedule(base, d)
    for length in (None, 1, trained - 1, trained):
        assert decimals(ntk, base, d, length) == plain
    assert decimals(ntk, base, d, trained + 1) != plain
    whole = pr.DynamicNTK(times, trained)
    static = whole.replace(policy="static")
    assert decimals(static, base, d) == decimals(whole, base, d, times * trained)
    longer, longest = (floats(ntk, base, d, n * trained) for n in (2, 3))
    assert all(b <= a for a, b in zip(longer, longest, strict=True))


def test_dynamic_ntk_of_the_yarn_paper():
    """alpha = L / L0, which is factor 1."""
    expected = floats(pr.NTKScaling(2.5), 1e4, 64)
    assert floats(pr.DynamicNTK(1, 4096), 1e4, 64, 10240) == expected


# -- YaRN and Llama 3 -----------------------------------------------------------------------------


@given(BASES, DIMS, FACTORS, LENGTHS, st.booleans())
def test_yarn_lies_between_kept_and_divided(base, d, s, trained, truncate):
    yarn = pr.YaRN(s, trained, truncate=truncate)
    plain, divided = floats(pr.LinearScaling(1), base, d), floats(pr.LinearScaling(s), base, d)
    try:
        found = floats(yarn, base, d)
    except ValueError as error:
        assert "correction range" in str(error)  # noqa: PT017
        return
    geometric = floats(yarn.replace(blend="geometric"), base, d)
    for k, f in enumerate(plain):
        assert divided[k] <= geometric[k] <= found[k] <= f
        turns = trained * f / (2 * np.pi)
        if turns > 32 * base ** (2 / d):  # a pair faster than the ramp, rounding included
            assert found[k] == f
        if turns < base ** (-2 / d) and k >= 1:
            assert found[k] == divided[k]
    with decimal_context():
        rows = zip(decimals(yarn, base, d), standard_schedule(base, d), strict=True)
        kept = [float(w / f) for w, f in rows]
    assert all(kept[k + 1] <= kept[k] for k in range(d // 2 - 1))  # never reversed


def test_yarn_of_the_paper_is_llama3s_blend():
    """Linear in the number of turns, which the code of YaRN is not: they differ inside the ramp."""
    paper, code = pr.Llama3Scaling(32, 1, 32, 4096), pr.YaRN(32, 4096, truncate=False)
    one, other = floats(paper, 1.5e5, 64), floats(code, 1.5e5, 64)
    assert one[:9] == other[:9]
    assert one[18:] == other[18:]
    assert all(a < b for a, b in zip(one[9:18], other[9:18], strict=True))


@given(BASES, DIMS, FACTORS, st.floats(0.1, 8), st.floats(0, 8), LENGTHS)
def test_llama3_has_two_plateaus(base, d, s, low, band, trained):
    llama = pr.Llama3Scaling(s, low, low + band, trained)
    plain, divided = floats(pr.LinearScaling(1), base, d), floats(pr.LinearScaling(s), base, d)
    slack = 1 + 2.0**-40  # which side of an end a pair is on is not float64's to say
    for found, f, g in zip(floats(llama, base, d), plain, divided, strict=True):
        turns = trained * f / (2 * np.pi)
        assert g <= found <= f
        if turns > (low + band) * slack:
            assert found == f
        if turns * slack < low:
            assert found == g


# -- the others -----------------------------------------------------------------------------------


def test_longrope_switches_after_the_original_length():
    rope = pr.LongRoPE([1.0] * 8, [2.0] * 8, 4096, attention_factor=(1.1, 1.3))
    for length, divisor, m in ((None, 1, 1.1), (4096, 1, 1.1), (4097, 2, 1.3)):
        assert floats(rope, 1e4, 16, length) == floats(pr.LinearScaling(divisor))
        assert rope.magnitude(length) == m
    for policy, divisor, m in (("short", 1, 1.1), ("long", 2, 1.3)):
        fixed = rope.replace(policy=policy)
        for length in (None, 4096, 4097):
            assert floats(fixed, 1e4, 16, length) == floats(pr.LinearScaling(divisor))
            assert fixed.magnitude(length) == m


def test_proportional_is_not_partial_rotary():
    whole = pr.RoPE(64, layout="half", scaling=pr.Proportional(0.25))
    part = pr.RoPE(64, layout="half", rotary_dim=16)
    turning = np.flatnonzero(whole.frequencies())
    assert turning.tolist() == list(range(8))
    assert (whole.frequencies()[:8] != part.frequencies()).sum() == 7
    x = np.ones((2, 64))
    stays = (whole.apply(x, [5, 9]) == x).all(axis=0)
    assert np.flatnonzero(~stays).tolist() == [*range(8), *range(32, 40)]
    still = (part.apply(x, [5, 9]) == x).all(axis=0)
    assert np.flatnonzero(~still).tolist() == list(range(16))
    assert floats(pr.Proportional(1.0), 1e4, 64) == floats(pr.LinearScaling(1), 1e4, 64)
    assert set(floats(pr.Proportional(0.0), 1e4, 64)) == {0.0}


def test_given_frequencies_are_those_of_the_schedule_they_came_from():
    yarn = pr.RoPE(64, layout="half", base=1.5e5, scaling=pr.YaRN(32, 4096, attention_factor=1.0))
    given_rope = pr.RoPE(64, layout="half", scaling=pr.GivenFrequencies(yarn.frequencies()))
    assert (given_rope.frequencies() == yarn.frequencies()).all()
    assert (given_rope.replace(base=7.0).frequencies() == yarn.frequencies()).all()


def test_the_table_of_the_page_is_that_of_the_entries():
    module = tool("schedules_table")
    text = module.PAGE.read_text("utf-8")
    assert module.renewed(text) == text
    assert module.renewed(text.replace("| `RIFLEx(k, L)`", "| `?`")) == text
