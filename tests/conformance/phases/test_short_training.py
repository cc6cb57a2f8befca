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


def test_lengths_with_no_room_for_a_sum_are_a_limit():
    e = encoding(DynamicNTK(4.0, 4))
    report = check(lambda x, p: e.apply(x, p), e, "apply")
    assert report.passed, report
    assert "sums of positions are not judged: frequencies change at length 4" in report.limits
