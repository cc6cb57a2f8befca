"""Numbers that agree within the error unit of float64."""

import numpy as np

from posenc_ref.accuracy import BUDGET, Truth


def close(actual, expected, *, terms=0.0, angle=0.0):
    """Whether two numbers agree.

    ``terms`` is the size of terms that cancel in the number, ``angle`` the angle of which it is a
    cosine or sine.
    """
    expected = float(expected)
    truth = Truth(np.array([expected]), np.array([abs(expected) + terms]), np.array([angle]))
    return truth.score(np.array([float(actual)]))[0] <= BUDGET["float64"]
