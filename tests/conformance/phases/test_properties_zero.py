"""The sine of the angle 0 may be off by 2**-53 in the properties of rotations too."""

import numpy as np
import pytest

from posenc_ref.conformance.phases.properties import orthogonality, with_zeros

TINY = 6.123e-17  # cos(pi / 2) in float64


def score(entry, dtype):
    """The largest score of one block whose sine at the angle 0 is ``entry``."""
    blocks = with_zeros(np.array([[[[1.0, entry], [0.0, 1.0]]]]), np.ones(1), dtype)
    actual, truth = orthogonality(blocks, np.ones(1))
    return truth.score(actual, dtype=dtype).max()


@pytest.mark.parametrize(
    ("entry", "dtype", "passes"),
    [
        (TINY, "float32", True),
        (TINY, "bfloat16", True),
        (TINY, "float64", False),
        (4 * TINY, "float32", False),
    ],
)
def test_the_sine_of_the_angle_0_may_be_that_of_a_polar_form(entry, dtype, passes):
    assert bool(score(entry, dtype) <= 8) is passes
