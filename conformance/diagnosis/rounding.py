"""Round numbers to a few significant bits, as narrow floating-point formats hold them."""

from __future__ import annotations

from typing import Any

import numpy as np

#: The significant bits of narrow formats; numbers within their range are held to these.
SIGNIFICANT_BITS = {"bfloat16": 8, "float16": 11}


def significant(values: Any, bits: int, *, cut: bool = False) -> np.ndarray:
    """Return ``values`` with so many significant bits, as float64.

    They are rounded to nearest, ties to even, or with ``cut`` towards 0.
    """
    mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    whole = mantissa * 2.0**bits
    return np.asarray(np.ldexp(np.trunc(whole) if cut else np.rint(whole), exponent - bits))
