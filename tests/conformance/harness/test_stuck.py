"""A call that never returns counts as refused where the process runs nothing else."""

import signal
import time

import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check
from posenc_ref.conformance.harness.pace import calls_end_after, ended
from tests.conformance.handwritten import rope

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer on Windows")
RIGHT = rope()


def endless(x, positions):
    """Halve the position until it is 0: shifted, -1 stays -1."""
    left = int(positions.max()) if positions.size else 0
    while left != 0:
        left >>= 1
    return RIGHT(x, positions)


def test_negative_positions_that_never_return_are_refused():
    with calls_end_after(0.5):
        report = check(endless, RoPE(16, layout="half"), "apply")
    assert report.passed, report
    [limit] = [text for text in report.limits if text.startswith("negative positions")]
    assert "TimeoutError: the call did not return within 0.5 s" in limit


def test_the_timer_of_others_is_left_alone():
    before = signal.getsignal(signal.SIGALRM)
    with ended():
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    with calls_end_after(0.05), pytest.raises(TimeoutError), ended():
        time.sleep(5)
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
