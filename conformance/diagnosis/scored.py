"""Compare the results of judged calls with references."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.harness.run import Run

from .mistake import JudgedCall


def failed(run: Run, calls: Sequence[JudgedCall]) -> list[JudgedCall]:
    """Return those of the calls that do not match their reference."""
    return [one for one in calls if not fits(run, one, one.truth)]


def fits(run: Run, one: JudgedCall, truth: Truth | None) -> bool:
    """Return whether the result of the call matches ``truth`` within the tolerance."""
    if truth is None or truth.value.shape != one.actual.shape:
        return False
    score = scores(run, one, truth)
    return bool(score.size == 0 or score.max() <= run.budget)


def scores(run: Run, one: JudgedCall, truth: Truth) -> np.ndarray:
    """Return the score of every element of the call, or 0 for masked elements.

    NaN is right where a mistake predicts it; no reference has it.
    """
    score = run.scores(one.actual, truth)
    none = np.isnan(truth.value)
    if none.any():
        score = np.where(none & np.isnan(one.actual), 0.0, score)
    return score if one.mask is None else np.where(one.mask, score, 0.0)
