"""The negative control: every case must reject a correct result with one element moved."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth, budget
from posenc_ref.conformance.exact.output import Output

from .case import VectorCase


def perturbed(case: VectorCase, result: Any, dtype: str) -> Any:
    """``result`` with one judged element of its first array moved by three budgets."""
    parts = [np.array(p) for p in (result if isinstance(result, tuple | list) else (result,))]
    parts[0] = moved(next(iter(case.truth.values())), parts[0], dtype)
    return tuple(parts) if isinstance(result, tuple | list) else parts[0]


def moved(truth: Output, result: np.ndarray, dtype: str, angles: str | None = None) -> np.ndarray:
    """A result with one judged element moved by three budgets.

    An integer, or a number of which only equality passes, is moved by one.
    """
    part = np.array(result)
    size = np.abs(truth.hi) + 1.0
    if truth.judged is not None:
        size = size * truth.judged
    if truth.relative_to is not None:  # moving the reference would move its row along
        heads = np.arange(truth.shape[0])[:, None]
        size[heads, np.arange(truth.shape[1]), truth.relative_to] = 0.0
    place = np.unravel_index(int(np.argmax(size)), truth.shape)
    at = part[place]
    move = 3.0 * budget(dtype) * _unit(truth, part, place, dtype, angles)
    part[place] = at + (move or 1)
    return part


def _unit(
    truth: Output, part: np.ndarray, place: tuple[Any, ...], dtype: str, angles: str | None
) -> float:
    """The unit of one element, the constant of its row included."""
    if truth.whole:
        return 0.0
    terms = float(truth.terms[place])
    if truth.relative_to is not None:
        terms += abs(float(part[(*place[:-1], truth.relative_to[place[-2]])]))
    angle, amplitude = (
        np.broadcast_to(of, truth.shape)[place] for of in (truth.angle, truth.amplitude)
    )
    one = Truth(np.zeros(()), np.asarray(terms), np.asarray(angle), np.asarray(amplitude))
    return float(one.unit(dtype, angles=angles))
