"""Sums with tables in 50-digit mpmath, and the positions of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from posenc_ref import Sinusoidal, Sinusoidal2D
from posenc_ref.conformance.exact.digits import DIGITS, mpmath
from posenc_ref.conformance.exact.numbers import Array, Number, Real, objects, sizes
from posenc_ref.conformance.exact.rotation import exact

from .registered import registered


def grid(e: Any, inputs: Mapping[str, Any], digits: int = DIGITS) -> Real:
    """The rows of all patches, their positions not rounded: B holds what rounding them moves."""
    mp, h, w = mpmath().mp, inputs["height"], inputs["width"]
    tokens = range(h * w)
    if isinstance(e, Sinusoidal):
        return registered(e, {"positions": np.array(tokens)}, digits)
    by_columns = getattr(e, "flatten", "") == "columns"
    places = [divmod(t, h)[::-1] if by_columns else divmod(t, w) for t in tokens]
    with mp.workdps(digits):
        positions = [[_placed(e, i, n) for i, n in zip(place, (h, w), strict=True)]
                     for place in places]  # fmt: skip
    columns = np.array(positions, dtype=object).T
    return registered(e, {"positions": columns}, digits)


def _placed(e: Any, i: int, n: int) -> Number:
    """The position of patch i of n on one axis."""
    mpf = mpmath().mp.mpf
    if isinstance(e, Sinusoidal2D):
        return mpf(i) if e.extent is None else i * mpf(e.extent) / n
    if not e.normalize:
        return mpf(i + 1)
    return mpf(e.scale) * (i + 1 + mpf(e.shift)) / (n + mpf(e.eps))


def add(e: Any, inputs: Mapping[str, Any]) -> Real:
    """x + table: A = |x| + |row|."""
    x = exact(inputs["x"])
    rows = registered(e, {"positions": np.arange(x.shape[-2])})
    moved: Array = objects(x.shape) + rows.angle
    return Real(x + rows.value, sizes(x) + sizes(rows.value), moved)


def ids_from_tokens(e: Any, inputs: Mapping[str, Any]) -> np.ndarray:
    """Real tokens count on from ``padding_idx + 1``, less the offset of the table."""
    ids, pad = inputs["input_ids"], e.padding_idx
    made: np.ndarray = np.zeros_like(ids)
    for b, row in enumerate(ids.tolist()):
        seen = 0
        for s, token in enumerate(row):
            seen += token != pad
            made[b, s] = (pad if token == pad else pad + seen) - e.offset
    return made
