"""Fit the base, the denominator and the position scale of sinusoids."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from posenc_ref.conformance.phases.frequencies import PUBLISHED_BASES

from .measurement import Measurement, chosen, fitted_base, nice

BASES = (*PUBLISHED_BASES, 20.0, 100.0, 2.0)


def spacings(m: Measurement, dim: int) -> Iterator[dict[str, Any]]:
    """Yield base, denominator and position scale, published values first, then fitted ones."""
    first = float(m.w[0])
    whole = nice(first, float(m.error[0]))
    scales = [s for s in (1.0, 2 * np.pi, np.pi, whole, first) if abs(s / first - 1) <= m.error[0]]
    for scale in dict.fromkeys(scales):
        for base, denominator in product(BASES, ("dim", "half-1")):
            yield {"base": base, "denominator": denominator, "position_scale": scale}
        fitted = fitted_base(m, 1 / scale)
        if fitted is None:
            continue
        slope = float(np.log(fitted)) / m.w.size
        for base in BASES:  # a denominator in steps of 1/2
            number = round(2 * float(np.log(base)) / slope) / 2
            if number > 0:
                yield {"base": base, "denominator": number, "position_scale": scale}
        fitted = float(np.exp(slope * dim / 2))
        for base in (*chosen(m, fitted), fitted):
            if base > 1:
                yield {"base": base, "denominator": "dim", "position_scale": scale}
