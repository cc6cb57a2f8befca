"""The rounding errors of angles that are computed in float32 or bfloat16."""

from __future__ import annotations

import numpy as np

from posenc_ref.conformance.phases.precision import rounded

#: The number of positions at the end of the context that are tried.
_WINDOW = 1024


def angle_errors(frequencies: np.ndarray, length: int) -> dict[str, float]:
    """Return the largest error of ``position * frequency`` at the end of a context, in radians.

    The positions, the frequencies and their product are each rounded to the dtype.  The last 1024
    positions of the context are tried, with every frequency.
    """
    at = np.arange(max(length - _WINDOW, 0), length, dtype=np.float64)
    exact = at[:, None] * frequencies
    found = {}
    for dtype in ("float32", "bfloat16"):
        product = rounded(at, dtype)[:, None] * rounded(frequencies, dtype)
        found[dtype] = float(np.abs(rounded(product, dtype) - exact).max(initial=0.0))
    return found
