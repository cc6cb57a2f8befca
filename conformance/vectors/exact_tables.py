"""Sums with tables in 50-digit mpmath, and the positions of tokens, from the JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from posenc_ref.conformance.exact import mpmath

from .exact_numbers import Array, Json, Real, objects, sizes
from .registered import registered


def add(e: Json, inputs: Mapping[str, Any]) -> Real:
    """x + table: A = |x| + |row|."""
    mp = mpmath().mp
    x = np.frompyfunc(mp.mpf, 1, 1)(inputs["x"].astype(np.float64))
    rows = registered(e, {"positions": np.arange(x.shape[-2])})
    moved: Array = objects(x.shape) + rows.angle
    return Real(x + rows.value, sizes(x) + sizes(rows.value), moved)


def ids_from_tokens(e: Json, inputs: Mapping[str, Any]) -> np.ndarray:
    """Real tokens count on from ``padding_idx + 1``, less the offset of the table."""
    ids, pad = inputs["input_ids"], e["padding_idx"]
    made: np.ndarray = np.zeros_like(ids)
    for b, row in enumerate(ids.tolist()):
        seen = 0
        for s, token in enumerate(row):
            seen += token != pad
            made[b, s] = (pad if token == pad else pad + seen) - e["offset"]
    return made
