"""Right functions conform whose frequencies change after few tokens.

The properties compare calls at sums of positions, which may be longer than the trained length.
"""

import numpy as np
import pytest

from posenc_ref import DynamicNTK, LongRoPE, QwenNTK, RoPE
from posenc_ref.conformance import check
from tests.night import by_day

SHORT = [DynamicNTK(4.0, 32), QwenNTK(8), LongRoPE([1.0] * 8, [4.0] * 8, 48, factor=4.0)]


def encoding(scaling):
    return RoPE(16, layout="half", scaling=scaling)


@pytest.mark.parametrize("scaling", by_day(SHORT, SHORT[:1]), ids=lambda s: type(s).__name__)
def test_right_functions_conform(scaling):
    e = encoding(scaling)
    assert check(lambda x, p: e.apply(x, p), e, "apply").passed
    assert check(lambda k, chunks: e.apply(k, np.arange(k.shape[2])), e, "key_cache").passed


def test_measured_angles_belong_to_calls_within_the_trained_length():
    """Angles were once measured in calls of 17 tokens, whose factor is that of long ones."""
    e = encoding(LongRoPE([1.0] * 8, [4.0] * 8, 12, attention_factor=(1.0, 1.25)))
    report = check(lambda k, chunks: e.apply(k, np.arange(k.shape[2])), e, "key_cache")
    assert report.passed, report
    report = check(lambda x, p: 1.25 * e.apply(x, p), e, "apply")
    assert "attention-factor" in report.codes


def test_a_factor_of_long_calls_is_no_change_of_size():
    """Two factors on cos and sin, as LongRoPE allows: calls past 48 tokens have another one."""
    e = encoding(LongRoPE([1.0] * 8, [4.0] * 8, 48, attention_factor=(1.1, 1.3)))
    for surface, fn in {
        "apply": lambda x, p: e.apply(x, p),
        "cos_sin": lambda p: e.cos_sin(p),
        "calls": lambda calls: [e.apply(x, np.arange(o, o + x.shape[2])) for x, o in calls],
    }.items():
        report = check(fn, e, surface)
        assert report.passed, report
    wrong = encoding(LongRoPE([1.0] * 8, [4.0] * 8, 48, attention_factor=(1.1, 1.2)))
    report = check(lambda x, p: wrong.apply(x, p), e, "apply")
    assert "multiplied by 1.2 in calls of length 49, declared 1.3" in str(report)
    # Short calls are right, so the two factors are not exchanged.
    wrong = encoding(LongRoPE([1.0] * 8, [4.0] * 8, 48, attention_factor=1.1))
    report = check(lambda x, p: wrong.apply(x, p), e, "apply")
    assert "declared 1.3, since the factor of short contexts is used" in str(report)


def test_lengths_with_no_room_for_a_sum_are_a_limit():
    e = encoding(DynamicNTK(4.0, 4))
    report = check(lambda x, p: e.apply(x, p), e, "apply")
    assert report.passed, report
    assert "sums of positions are not judged: frequencies change at length 4" in report.limits
