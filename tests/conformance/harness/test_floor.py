"""A function that refuses nearly everything is inconclusive; honest limits still conform."""

import numpy as np
import pytest

from posenc_ref import ALiBi, Kerple, RoPE, Sinusoidal
from posenc_ref.conformance import check
from posenc_ref.conformance.harness.floor import UNMET
from tests.night import by_day

ROPE, SINES, ALIBI = RoPE(8, layout="half"), Sinusoidal(8), ALiBi(4)
FAR = "positions up to 31"


def refused(wrong):
    if wrong:
        raise ValueError("refused")


def rotation(*, below=None, tokens=None):
    def apply(x, positions):
        refused(below is not None and np.max(positions, initial=0) >= below)
        refused(tokens is not None and x.shape[2] > tokens)
        return ROPE.apply(x, positions)

    return apply, ROPE, "apply"


def from_zero(length):
    def table(positions):
        refused(len(positions) > length or list(positions) != [*range(len(positions))])
        return SINES.table(positions)

    return table, SINES, "table"


def biases(answered):
    def bias(q_len, k_len):
        refused(not answered(q_len, k_len))
        return ALIBI.bias(range(k_len - q_len, k_len), range(k_len))

    return bias, ALIBI, "bias"


TOO_LITTLE = {
    "five positions": (rotation(below=5), [FAR]),
    "31 positions": (rotation(below=31), [FAR]),
    "five tokens": (rotation(tokens=5), ["calls of 8 tokens"]),
    "a table of 16 rows": (from_zero(16), [FAR]),
    "one bias": (biases(lambda q, k: (q, k) == (5, 5)), [FAR]),
    "16 keys": (biases(lambda q, k: k <= 16), [FAR]),
}


@pytest.mark.parametrize("name", by_day(TOO_LITTLE, ("five positions", "five tokens", "one bias")))
def test_what_refuses_nearly_everything_is_inconclusive(name):
    function, missing = TOO_LITTLE[name]
    report = check(*function)
    assert (report.verdict, report.missing, report.exit_code) == ("inconclusive", missing, 3)
    assert UNMET in report.limits
    accepted = check(*function, accept_limits=True)
    assert (accepted.verdict, accepted.missing) == ("conforms", [])
    assert UNMET not in accepted.limits


ENOUGH = {
    "32 positions": rotation(below=32),
    "2048 positions": rotation(below=2048),
    "8 tokens": rotation(tokens=8),
    "a table of 64 rows": from_zero(64),
    "64 keys": biases(lambda q, k: k <= 64),
    "square biases": biases(lambda q, k: q == k),
}


@pytest.mark.parametrize("name", by_day(ENOUGH, ("32 positions", "64 keys")))
def test_honest_limits_conform(name):
    assert check(*ENOUGH[name]).verdict == "conforms"


def test_a_wrong_function_that_refuses_much_deviates():
    assert check(lambda q, k: -biases(lambda q, k: k < 20)[0](q, k), ALIBI, "bias").codes


def test_positions_that_the_caller_leaves_out_are_no_refusals():
    assert check(*biases(lambda q, k: k < 12), max_position=10).passed


# --- values too small for the dtype -------------------------------------------------------------

NORMAL = "values of normal size"


def scaled(scale, wrong=0, kind=np.float64):
    encoding = SINES.replace(scale=scale)
    return lambda positions: encoding.table(positions + wrong).astype(kind), encoding, "table"


@pytest.mark.parametrize("scale", by_day([1e-40, 1e-300], (1e-40,)))
def test_values_below_the_normal_numbers_cannot_be_judged(scale):
    """The unit of float32 hides all mistakes; float64 shows them."""
    for wrong in (0, 1):
        report = check(*scaled(scale, wrong))
        assert (report.verdict, NORMAL in report.missing) == ("inconclusive", True)
    assert check(*scaled(scale), dtype="float64").verdict == "conforms"
    assert check(*scaled(scale, 1), dtype="float64").verdict == "deviates"
    assert check(lambda positions: SINES.table(positions), *scaled(scale)[1:]).codes


def test_the_squares_of_small_values_are_judged():
    assert check(*scaled(1e-30, kind=np.float32)).verdict == "conforms"
    assert check(*scaled(1e-30, 1)).codes == ["position-origin"]


def test_small_biases_are_no_error_of_the_harness():
    encoding = Kerple((1e-40, 1e-42), (1e-3, 1.0))
    report = check(lambda q, k: encoding.bias(range(k - q, k), range(k)), encoding, "bias")
    assert (report.verdict, report.missing) == ("inconclusive", [NORMAL])
