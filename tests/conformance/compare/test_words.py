"""The differences of two measurements, in words."""

import numpy as np

from posenc_ref.conformance.compare.words import differ


def test_frequencies_differ_beyond_eight_standard_errors():
    w, sigma = np.array([1.0, 1.0, 1.0]), 1e-3
    assert differ(w, w + np.array([0.0, 0.0079, 0.0081]), sigma).tolist() == [False, False, True]
    assert differ(w, w + np.array([0.0, 0.5, 2.0]), 0.0).tolist() == [False, True, True]
