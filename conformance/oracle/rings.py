"""Pairs of residues on a ring: those that a ring has, and those with two offsets of one size."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref import Bias, ChainBias, ResidueBias


def on_rings(
    encoding: Bias, rows: np.ndarray, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return two masks (Q, K) for positions (Q,) and (K,), None for a bias without a ring.

    The first has the pairs that the ring has: a ring of P residues has no offset of P or more.  The
    second has the pairs at exactly P / 2: the two ways round are equal, and both signs are right.
    """
    if isinstance(encoding, ResidueBias):
        if encoding.period is None:
            return None
        d, period = rows[:, None] - columns[None, :], np.asarray(encoding.period)
        inside = np.asarray(True)
    elif isinstance(encoding, ChainBias):
        if encoding.cyclic_period is None:
            return None
        residue, asym, period = (
            np.asarray(values)
            for values in (encoding.residue_index, encoding.asym_id, encoding.cyclic_period)
        )
        d = residue[rows][:, None] - residue[columns][None, :]
        period = period[columns][None, :]
        inside = (asym[rows][:, None] == asym[columns][None, :]) & (period > 0)
    else:
        return None
    size: Any = np.abs(d)
    return ~inside | (size < period), inside & (2 * size == period)
