"""A step of a table with several axes that is wrong in all parts, or in one of them."""

import numpy as np
import pytest

from posenc_ref import Sinusoidal2D
from posenc_ref.conformance import check

DECLARED = Sinusoidal2D(16, layout="interleaved")


def table(*wrong):
    """Return a function whose cosines have their own column in the exponent, in these parts."""

    def fn(height, width):
        y, x = (axis.reshape(-1, 1) for axis in np.indices((height, width)))
        parts = []
        for axis, at in (("h", y), ("w", x)):
            column = np.arange(8)
            exponent = column if axis in wrong else column // 2 * 2
            angle = at * 10000.0 ** (-exponent / 8)
            parts.append(np.where(column % 2, np.cos(angle), np.sin(angle)))
        return np.concatenate(parts, axis=1).astype(np.float32)

    return fn


def test_the_right_function_conforms():
    assert check(table(), DECLARED, "grid").passed


@pytest.mark.parametrize(
    ("wrong", "words"),
    [("hw", "the exponent of every part"), ("h", "the exponent of the row part")],
)
def test_parts(wrong, words):
    report = check(table(*wrong), DECLARED, "grid")
    assert report.findings[0].message.startswith(words), report
