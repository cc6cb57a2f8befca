"""The unit that judges everything: what it is, what it lets pass, and what it rejects."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_ref import RoPE
from posenc_ref.accuracy import ANGLES, BUDGET, LARGEST, ROUNDOFF, VISIBLE, Truth, budget
from posenc_ref.angles import ERROR_BOUND

DTYPES = ("float64", "float32", "float16")
NOTHING = np.zeros(())


def test_roundoffs_are_those_of_the_dtypes():
    for name in DTYPES:
        assert ROUNDOFF[name] == np.finfo(name).eps / 2
        half = np.dtype(name).type(1) + np.dtype(name).type(2 * ROUNDOFF[name])
        assert half > 1
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes brings bfloat16 to NumPy")
    assert ROUNDOFF["bfloat16"] == float(ml_dtypes.finfo("bfloat16").eps) / 2
    assert ROUNDOFF["bfloat16"] / 2 == VISIBLE


def test_unit_by_hand():
    u64, u32, u8 = 2.0**-53, 2.0**-24, 2.0**-8
    truth = Truth(np.array([1.0]), np.array([3.0]), np.array([5.0]), np.array([7.0]))
    assert truth.unit("float32") == u32 * 3 + u32 * 5
    assert truth.unit("float32", angles="exact") == u32 * 3 + ERROR_BOUND * 7
    assert truth.unit("float32", angles="float64") == u32 * 3 + u64 * 5
    assert truth.unit("float64") == u64 * 8
    assert truth.unit("float64", angles="float32") == u64 * 3 + u32 * 5
    assert truth.unit("float32", precision="bfloat16") == u8 * 3 + u32 * 5
    assert truth.unit("bfloat16", precision="float32") == u8 * 3 + u32 * 5
    assert truth.score(np.array([1 + 2 * u32], np.float32)) == 2 * u32 / (u32 * 8)


def test_a_unit_of_zero_means_equality():
    truth = Truth(np.array([1.5, 0.0]), NOTHING, NOTHING)
    assert (truth.score(np.array([1.5, 0.0], np.float16)) == 0).all()
    found = truth.score(np.array([np.nextafter(1.5, 2), 5e-324]))
    assert (found == np.inf).all()


def test_the_sine_of_the_angle_0_may_be_rounded_in_float64():
    truth = Truth(*np.zeros((3, 1)), amplitude=np.ones(1))
    quarter_turn = np.cos(np.array([-np.pi / 2]))
    assert truth.score(quarter_turn.astype(np.float32)) == 0
    assert truth.score(np.float32([2.0**-52])) == np.inf
    assert truth.score(quarter_turn) == np.inf
    assert Truth(*np.zeros((3, 1))).score(quarter_turn.astype(np.float32)) == np.inf
    both = Truth(np.array([np.inf, 0.0]), *np.zeros((2, 2)), amplitude=np.ones(2))
    with np.errstate(all="raise"):
        assert (both.score(np.float32([np.inf, 1.0])) == np.inf).all()


def test_infinity_never_passes():
    """Not even where infinity is expected: their difference is not a number."""
    infinite = np.array([np.inf, -np.inf])
    truth = Truth(infinite, np.abs(infinite), np.zeros(2))
    assert (truth.score(infinite) == np.inf).all()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_infinity_is_right_beyond_the_largest_number(dtype):
    past = LARGEST[dtype] * (1 + 2.0**-7)
    values = np.array([past, -past, past, LARGEST[dtype]])
    truth = Truth(values, np.abs(values), np.zeros(4))
    found = truth.score(np.array([np.inf, -np.inf, -np.inf, np.inf]), dtype=dtype)
    assert found.tolist() == [0.0, 0.0, np.inf, np.inf]


def test_nan_never_passes():
    truth = Truth(np.ones(3), np.ones(3), np.ones(3))
    found = truth.score(np.array([np.nan, np.inf, -np.inf]))
    assert (found == np.inf).all()


@given(st.floats(-1e6, 1e6).filter(lambda v: abs(v) > 1e-3), st.sampled_from(DTYPES))
def test_one_rounding_is_at_most_one_unit(value, dtype):
    value = value / 100  # inside float16
    truth = Truth(np.array(value), np.array(abs(value)), NOTHING)
    rounded = np.asarray(value, dtype)
    assert truth.score(rounded, angles="exact") <= 1
    two_steps = np.nextafter(np.nextafter(rounded, np.inf, dtype=dtype), np.inf, dtype=dtype)
    if float(rounded) >= value:
        assert truth.score(two_steps, angles="exact") > 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_tiny_values_are_judged_by_the_constant_spacing_there(dtype):
    smallest = float(np.finfo(dtype).smallest_subnormal)
    truth = Truth(np.array(3 * smallest), np.array(3 * smallest), NOTHING)
    assert truth.score(np.asarray(4 * smallest, dtype)) <= 2
    assert truth.score(np.asarray(3 * smallest + 300 * smallest, dtype)) > budget("float64")


def test_float32_angles_pass_and_half_precision_angles_do_not():
    """The two sides that the budgets stand between, on a real rotation."""
    rope, p = RoPE(64, layout="half"), np.arange(0, 100_000, 997)
    waves = rope.frequencies()
    cos, _ = rope.cos_sin(p)
    truth = Truth(cos, np.abs(cos), p[:, None] * waves)
    float32 = np.cos((p[:, None] * waves.astype(np.float32)).astype(np.float32))
    assert truth.score(float32.astype(np.float32)).max() <= budget("float32")
    float64 = np.cos(p[:, None] * waves)
    assert truth.score(float64).max() <= budget("float64")
    half = np.cos(p[:, None] * waves.astype(np.float16).astype(np.float32)).astype(np.float32)
    assert truth.score(half).max() > 10 * budget("float32")
    # A bfloat16 output does not hide half-precision angles.
    assert truth.score(half, dtype="bfloat16").max() > budget("bfloat16")
    assert truth.score(float32, dtype="bfloat16").max() <= budget("bfloat16")


def test_the_exact_unit_does_not_grow_with_the_position():
    rope = RoPE(2, layout="half")
    p = np.array([2**40])
    cos, _ = rope.cos_sin(p)
    truth = Truth(cos, np.abs(cos), p[:, None] * 1.0, np.ones(()))
    naive = np.cos(p[:, None] * 1.0 * (1 + 2.0**-52))
    assert truth.score(naive).max() <= budget("float64")
    assert truth.score(naive, angles="exact").max() > budget("float64")
    assert truth.score(cos, angles="exact").max() == 0


def test_budgets():
    assert set(BUDGET) == set(ROUNDOFF)
    assert budget("float32") == 128
    assert budget("float32", "bfloat16") == budget("bfloat16", "float32") == budget("bfloat16") == 8


def test_unknown_words():
    truth = Truth(NOTHING, NOTHING, NOTHING)
    with pytest.raises(ValueError, match=r"dtype must be one of float64, float32.*got 'int8'"):
        truth.unit("int8")
    with pytest.raises(ValueError, match="angles must be one of float32, float64, exact, got 'x'"):
        truth.unit("float32", angles="x")
    assert ANGLES == ("float32", "float64", "exact")
