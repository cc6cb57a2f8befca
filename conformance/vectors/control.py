"""The negative control: a right result with one element moved, which every case must reject."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth, budget

from .case import VectorCase
from .output import Output


def perturbed(case: VectorCase, result: Any, dtype: str) -> Any:
    """``result`` with one judged element of its first array moved by three budgets.

    An integer, or a number of which only equality passes, is moved by one.
    """
    parts = [np.array(p) for p in (result if isinstance(result, tuple | list) else (result,))]
    truth = next(iter(case.truth.values()))
    size = np.abs(truth.hi) + 1.0
    if truth.judged is not None:
        size = size * truth.judged
    if truth.relative_to is not None:  # moving the reference would move its row along
        heads = np.arange(truth.shape[0])[:, None]
        size[heads, np.arange(truth.shape[1]), truth.relative_to] = 0.0
    place = np.unravel_index(int(np.argmax(size)), truth.shape)
    at = parts[0][place]
    move = 3.0 * budget(dtype) * _unit(truth, parts[0], place, dtype)
    parts[0][place] = at + (move or 1)
    return tuple(parts) if isinstance(result, tuple | list) else parts[0]


def _unit(truth: Output, part: np.ndarray, place: tuple[Any, ...], dtype: str) -> float:
    """The unit of one element, the constant of its row included."""
    if truth.whole:
        return 0.0
    terms = float(truth.terms[place])
    if truth.relative_to is not None:
        terms += abs(float(part[(*place[:-1], truth.relative_to[place[-2]])]))
    one = Truth(np.zeros(()), np.asarray(terms), np.asarray(float(truth.angle[place])))
    return float(one.unit(dtype))
