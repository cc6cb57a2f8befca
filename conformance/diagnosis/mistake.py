"""The record of a known mistake: the code, the words, and the result that it gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.harness.run import Run


@dataclass(frozen=True)
class JudgedCall:
    """One call that was judged; ``facts`` is what a mistake needs to predict its result."""

    case: str
    actual: np.ndarray
    truth: Truth
    facts: Any
    mask: np.ndarray | None = None  #: which elements are compared; None: all


@dataclass(frozen=True)
class Mistake:
    """A known mistake and the result that it gives.

    ``predict`` makes the whole result of a call from its facts, or None where the mistake cannot
    be made.  ``fit`` measures free numbers, such as a factor, from wrong calls.  It returns the
    mistakes that together give one prediction, that of the first; none if nothing fits.
    """

    code: str
    message: str
    predict: Callable[[Any], Truth | None]
    remedy: str = ""
    equivalent: tuple[str, ...] = ()
    values: dict[str, Any] = field(default_factory=dict)
    fit: Callable[[Run, Sequence[JudgedCall]], Sequence[Mistake]] | None = None


def mistakes(
    code: str, predict: Callable[[Any], Callable[[Any], Truth | None]], *rows: tuple[Any, ...]
) -> Iterator[Mistake]:
    """Yield one mistake for each row: a message, what ``predict`` is made of, perhaps a remedy."""
    for message, of, *remedy in rows:
        yield Mistake(code, message, predict(of), *remedy)


def each_part(truth: Truth, change: Callable[[np.ndarray], np.ndarray]) -> Truth:
    """Return ``truth`` with one change of the value and of both coefficients of its unit."""
    return Truth(change(truth.value), change(truth.terms), change(truth.angle))


def with_value(truth: Truth, value: np.ndarray) -> Truth:
    """Return ``truth`` with another value in the same unit."""
    return Truth(value, truth.terms, truth.angle, truth.amplitude)
