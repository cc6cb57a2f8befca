"""The rows of a declared table, and how many positions it has."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref import AxialLearned, Hybrid, Learned, StandardizedSinusoidal, Table
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.harness.run import Run


def longest(encoding: Table) -> int:
    """Return the number of positions on one axis of the table."""
    if isinstance(encoding, Learned):
        return encoding.rows - max(encoding.offset, 0)
    if isinstance(encoding, StandardizedSinusoidal):
        return encoding.length
    if isinstance(encoding, AxialLearned):
        return encoding.rows if encoding.flat else min(t.shape[0] for t in encoding.tables)
    if isinstance(encoding, Hybrid):
        return min(map(longest, encoding.parts))
    return 2**40


def rows_of(run: Run, encoding: Any, positions: np.ndarray) -> Truth:
    """Return the reference at ``positions``; rows that are looked up are rounded to the dtype."""
    truth = encoding.truth(positions)
    looked_up = (truth.terms == 0) & (truth.angle == 0)
    if not looked_up.any():
        return truth  # type: ignore[no-any-return]
    value = np.where(looked_up, run.driver.copied(truth.value), truth.value)
    return Truth(value, truth.terms, truth.angle, truth.amplitude)
