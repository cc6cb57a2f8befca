"""One change of the declared schedule is named for what it is, and rounding is not accused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.phases.explain import explain
from posenc_ref.conformance.phases.frequencies import (
    PUBLISHED_BASES,
    Schedule,
    agree,
    round_bfloat16,
)

PAIRS = st.sampled_from([4, 8, 16, 31, 32, 64, 128])
BASES = st.one_of(st.sampled_from(PUBLISHED_BASES), st.floats(50.0, 1e8))
FACTORS = st.sampled_from([1.0, 2.0, 4.0, 8.0, 32.0])
OTHERS = {"one less": -1.0, "one more": 1.0}


@st.composite
def schedules(draw, factors=FACTORS):
    pairs = draw(PAIRS)
    denominators = {name: pairs + off for name, off in OTHERS.items()}
    return Schedule(draw(BASES), float(pairs), pairs, draw(factors), denominators)


@st.composite
def noise(draw, size=256):
    """Relative errors of a few float32 roundings, one per pair."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return 1 + 8 * ROUNDOFF["float32"] * rng.uniform(-1, 1, size)


def found(measured, declared, sigma=None):
    sigma = np.zeros(declared.pairs) if sigma is None else sigma
    return explain(measured, sigma, declared)


def named(measured, declared):
    """The codes of the only explanation, the first one first."""
    explanations = found(measured, declared)
    assert len(explanations) == 1
    e = explanations[0]
    assert agree(measured, e.predicted, np.zeros(declared.pairs)).all()
    return (e.code, *e.equivalent)


@given(schedules(), noise())
def test_rounding_is_not_accused(declared, errors):
    measured = declared.values() * errors[: declared.pairs]
    assert found(measured, declared) == []
    assert found(measured.astype(np.float32).astype(np.float64), declared) == []


@given(schedules(), noise(), st.floats(1.01, 1e3))
def test_another_base(declared, errors, ratio):
    base = declared.base * ratio
    measured = declared.values(base=base) * errors[: declared.pairs]
    assert "base" in named(measured, declared)


@given(schedules(), st.sampled_from(PUBLISHED_BASES))
def test_a_published_base_is_printed_as_it_is(declared, base):
    if base == declared.base:
        return
    e = found(declared.values(base=base), declared)[0]
    assert "base" in (e.code, *e.equivalent)
    if e.code == "base":
        assert e.values == {"declared": declared.base, "measured": base}


@pytest.mark.parametrize("declared", [10000.0, 500000.0], ids="{:g}".format)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n": 0.5}, "doubled"),
        ({"n": 2.0}, "halved"),
        ({"shift": 1}, "counted from 1"),
        ({"shift": -1}, "counted from -1"),
        ({"n": -1.0}, "wrong sign"),
    ],
)
def test_another_exponent(declared, change, words):
    schedule = Schedule(declared, 32.0, 32)
    change = {k: v * 32.0 if k == "n" else v for k, v in change.items()}
    e = found(schedule.values(**change), schedule)[0]
    assert e.code == "exponent"
    assert words in e.message


@given(schedules(), noise(), st.sampled_from(sorted(OTHERS)))
def test_another_denominator(declared, errors, name):
    n = declared.denominators[name]
    measured = declared.values(n=n) * errors[: declared.pairs]
    assert named(measured, declared)[0] == "denominator"
    assert name in found(measured, declared)[0].message


@pytest.mark.parametrize(
    ("power", "code", "words"),
    [
        (0, "scaling-missing", "missing"),
        (2, "position-scale", "applied twice"),
        (-1, "position-scale", "multiplied by the scaling factor"),
    ],
)
@given(declared=schedules(st.sampled_from([2.0, 4.0, 8.0, 1.5])), errors=noise())
def test_a_wrong_power_of_the_scaling(power, code, words, declared, errors):
    measured = declared.values(factor=declared.factor**power) * errors[: declared.pairs]
    assert named(measured, declared)[0] == code
    assert words in found(measured, declared)[0].message


@given(schedules(), noise(), st.floats(1.001, 100.0))
def test_another_scale(declared, errors, ratio):
    measured = declared.values() / ratio * errors[: declared.pairs]
    assert {"position-scale", "scaling-missing"} & set(named(measured, declared))


@given(schedules(), noise())
def test_a_sign_alone_and_with_a_second_change(declared, errors):
    measured = -declared.values() * errors[: declared.pairs]
    assert [e.code for e in found(measured, declared)] == ["sign"]
    both = [e.code for e in found(measured / 3, declared)]
    assert both[0] == "sign"
    assert len(both) == 2


@pytest.mark.parametrize("rounded", [round_bfloat16, lambda v: v.astype(np.float16)])
@given(declared=schedules(st.just(1.0)))
def test_half_precision_frequencies(rounded, declared):
    exact = declared.values()
    measured = rounded(exact.astype(np.float32).astype(np.float64)).astype(np.float64)
    # A float32 frequency next to a tie may be rounded the other way.
    if not agree(measured, rounded(exact), np.zeros(exact.size)).all():
        return
    if agree(measured, exact, np.zeros(exact.size)).all():
        return
    assert named(measured, declared)[0] == "angle-precision"


def test_half_precision_timescales():
    declared = Schedule(10000.0, 32.0, 32)
    measured = 1 / round_bfloat16(1 / declared.values())
    e = found(measured, declared)[0]
    assert (e.code, e.message) == ("angle-precision", "timescales are rounded to bfloat16")


def test_what_no_rule_explains_is_listed_pair_by_pair():
    declared = Schedule(10000.0, 32.0, 32)
    measured = declared.values()
    measured[[3, 7]] *= 1.5
    e = found(measured, declared)[0]
    assert e.code == "frequency-spacing"
    assert "2 of 32 frequencies are wrong" in e.message
    assert "pair 3 has " in e.message
    assert "pair 7 has " in e.message


@pytest.mark.parametrize(
    ("declared", "other", "message"),
    [
        # 4000 ** (32 / 16) is a base with few digits; 10000 ** (32 / 31) is none.
        (Schedule(4000.0, 32.0, 32), 16.0,
         "the exponent of the frequencies is doubled; or the base is 16000000, declared 4000: the "
         "same frequencies"),
        (Schedule(10000.0, 32.0, 32, 1.0, {"one less": 31.0}), 31.0,
         "the exponent of pair k is k/31 (one less), not k/32"),
    ],
)  # fmt: skip
def test_an_equal_base_is_named_if_it_has_few_digits(declared, other, message):
    (explanation,) = found(declared.values(n=other), declared)
    assert explanation.message == message
    assert "base" in explanation.equivalent


def test_base_and_scale_together_are_one_relation():
    declared = Schedule(10000.0, 32.0, 32)
    e = found(declared.values(base=77777.0) / 3.0, declared)[0]
    assert (e.code, e.equivalent[0]) == ("base", "position-scale")
    assert "77777" in e.message


def test_uncertain_measurements_are_given_slack():
    declared = Schedule(10000.0, 8.0, 8)
    off = declared.values() + 2.0**-12
    assert found(off, declared) != []
    assert found(off, declared, np.full(8, 2.0**-12)) == []


@given(st.floats(2.0**-60, 2.0**60), st.sampled_from([-1.0, 1.0]))
def test_bfloat16_is_that_of_ml_dtypes(value, sign):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes brings bfloat16 to NumPy")
    value = np.float32(sign * value)
    assert round_bfloat16(value) == np.float64(value.astype(ml_dtypes.bfloat16))
