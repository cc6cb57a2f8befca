"""What a signal handler of the caller raises ends the check; what the function raises does not."""

import signal

import numpy as np
import pytest

from posenc_ref import ALiBi
from posenc_ref.conformance import check


class Late(BaseException):
    """What a timer of the caller raises."""


def late(*_):
    raise Late


@pytest.fixture
def timer():
    """Install a signal handler that raises."""
    before = signal.signal(signal.SIGTERM, late)
    yield lambda: signal.raise_signal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, before)


def test_the_timer_of_the_caller_ends_the_check(timer):
    def slopes(num_heads):
        timer()
        return ALiBi(num_heads).slopes()

    with pytest.raises(Late):
        check(slopes, ALiBi(12), "slopes")


def test_the_timer_ends_the_check_while_a_result_is_read(timer):
    class Result:
        dtype = np.dtype("float64")

        @property
        def shape(self):
            timer()
            return (12,)

    with pytest.raises(Late):
        check(lambda num_heads: Result(), ALiBi(12), "slopes")


def test_the_same_exception_of_the_function_is_a_finding(timer):
    def slopes(num_heads):
        raise Late

    assert check(slopes, ALiBi(12), "slopes").codes == ["raises"]
