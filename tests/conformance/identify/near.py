"""Comparison of fitted parameters, in the project's error unit."""

import numpy as np

from posenc_ref.accuracy import BUDGET, Truth


def near(actual, expected):
    """Return whether all values are within the budget of float32 of the largest expected one."""
    value = np.asarray(expected, dtype=np.float64)
    size = np.full(value.shape, np.abs(value).max(initial=0.0))
    truth = Truth(value, size, np.zeros(value.shape))
    return bool((truth.score(np.asarray(actual), dtype="float32") <= BUDGET["float32"]).all())
