"""The first visible error: every smaller position was tried, in each form of a call."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check
from posenc_ref.conformance.phases.accuracy_by_length import first_visible


def counted_from_zero(late):
    """Errors of a function that forgets offsets past ``late``: calls of consecutive positions.

    Its calls from 0 on are right, however many tokens they have.
    """

    def error(positions):
        starts = np.r_[True, np.diff(positions) != 1]
        first = np.maximum.accumulate(np.where(starts, np.arange(positions.size), 0))
        return np.where(positions[first] > late, 1.0, 0.0)

    return error


@pytest.mark.parametrize("late", [0, 5, 300, 5000])
def test_calls_of_one_token_count_too(late):
    assert first_visible(counted_from_zero(late), 2**20 - 1, 0.0, False) == late + 1


@pytest.mark.parametrize("first", [0, 1, 15, 256, 16383, 70000])
def test_an_error_in_every_call_has_its_own_position(first):
    found = first_visible(lambda at: (at >= first) * 1.0, 2**20 - 1, 0.0, False)
    assert found == first


def test_a_table_made_in_every_call_is_made_once_for_a_window():
    """Tables of a million rows for every token would take minutes."""
    encoding, far = RoPE(4, layout="half"), []

    def fn(x, offset=0):
        end = offset + x.shape[-2]
        far.append(end) if end > 2**16 else None
        return encoding.apply(x, np.arange(offset, end))

    report = check(fn, encoding)
    assert report.passed
    assert max(far) == 2**20
    assert len(far) < 100, len(far)
