"""The record of a known mistake: its code, its message, and the result that it predicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import is_not
from typing import Any, TypeVar

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.harness.run import Run

T = TypeVar("T")


@dataclass(frozen=True)
class JudgedCall:
    """One judged call; from ``facts``, a mistake predicts the result of the call."""

    case: str
    actual: np.ndarray
    truth: Truth
    facts: Any
    mask: np.ndarray | None = None  #: True for elements that are compared; None: all


@dataclass(frozen=True)
class Mistake:
    """A known mistake and its prediction.

    ``predict`` takes the facts of a call and returns the result that the mistake would give, or
    None if the mistake is impossible in that call.

    ``fit`` measures free numbers, such as a factor, from the wrong calls. It returns the mistakes
    with these numbers, or an empty sequence. If it returns several, the function makes all of them
    at once, and ``predict`` of the first returns the result of all together.

    ``before`` returns the facts of a call, or the steps of its computation, whose result is that of
    the mistake, so that another mistake can be made in it too.
    """

    code: str
    message: str
    predict: Callable[[Any], Truth | None]
    remedy: str = ""
    equivalent: tuple[str, ...] = ()
    values: dict[str, Any] = field(default_factory=dict)
    fit: Fit | None = None
    before: Callable[[Any], Any] | None = None


#: Measures the free numbers of a mistake from the wrong calls.
Fit = Callable[[Run, Sequence[JudgedCall]], Sequence[Mistake]]


def mistakes(
    code: str, predict: Callable[[Any], Callable[[Any], Truth | None]], *rows: tuple[Any, ...]
) -> Iterator[Mistake]:
    """Yield a mistake for each of ``rows``: (message, argument of ``predict``[, remedy])."""
    for message, of, *remedy in rows:
        yield Mistake(code, message, predict(of), *remedy)


def remembered(of: Callable[..., T]) -> Callable[..., T]:
    """Return a function that keeps its last result, for as long as it gets the same objects."""
    last: list[Any] = []

    def call(*arguments: Any) -> T:
        if not last or len(last[0]) != len(arguments) or any(map(is_not, last[0], arguments)):
            last[:] = arguments, of(*arguments)
        return last[1]  # type: ignore[no-any-return]

    return call


def each_part(truth: Truth, change: Callable[[np.ndarray], np.ndarray]) -> Truth:
    """Return ``truth`` with ``change`` applied to its value, its A and its B."""
    return Truth(change(truth.value), change(truth.terms), change(truth.angle))


def with_value(truth: Truth, value: np.ndarray) -> Truth:
    """Return ``truth`` with another value and the same error unit."""
    return Truth(value, truth.terms, truth.angle, truth.amplitude)
