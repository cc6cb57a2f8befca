"""A plain function as a row of the table of surfaces: its reference, probes and mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import identical

Function = Callable[..., Any]


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call; one that is not required may be refused."""

    name: str
    arguments: tuple[Any, ...]
    required: bool = True


def written(code: str, message: str, function: Function, remedy: str = "") -> Mistake:
    """Return the mistake of a wrong function.

    The function returns the values, or a Truth where these have a unit of their own.
    """
    return Mistake(code, message, lambda call: call.returned_by(function), remedy)


def several(*rows: tuple[Any, ...]) -> Iterator[Mistake]:
    """Yield a mistake for each row: the code, the message, the function, perhaps a remedy."""
    return (written(*row) for row in rows)


def _identical(encoding: Any, arguments: tuple[Any, ...], value: np.ndarray) -> Truth:
    return identical(value)


@dataclass(frozen=True)
class Plain:
    """How to judge a surface; ``probes`` and ``mistakes`` get the declared encoding, or None."""

    #: By encoding, seed and dtype, from small to large.
    probes: Callable[[Any, int, str], Iterable[Arguments]]
    mistakes: Callable[[Any], Iterable[Mistake]]
    otherwise: str  #: the code where no known mistake explains the result
    integers: bool = True  #: whether integers (or bools) are wanted
    truth: Callable[[Any, tuple[Any, ...], np.ndarray], Truth] = _identical
    judged: Callable[[tuple[Any, ...]], np.ndarray | None] = lambda arguments: None
    #: Mistakes that a wrong result suggests, by the encoding, the arguments and the result.
    suggested: Callable[[Any, tuple[Any, ...], np.ndarray], Iterable[Mistake]] = (
        lambda encoding, arguments, actual: ()
    )
    #: The arguments held to positions up to a last one.
    within: Callable[[tuple[Any, ...], int], tuple[Any, ...]] = lambda arguments, last: arguments
    #: A further diagnosis where no mistake explains the calls.
    closer: Callable[[Run, list[JudgedCall]], None] | None = None
    #: The part of a result that is compared.
    meaning: Callable[[np.ndarray], np.ndarray] = lambda result: result


@dataclass(frozen=True)
class PlainCall:
    """One call of the function of a row."""

    row: Plain
    encoding: Any
    arguments: tuple[Any, ...]

    def truth(self, value: np.ndarray) -> Truth:
        """A result with its unit."""
        return self.row.truth(
            self.encoding, self.arguments, self.row.meaning(np.asarray(value, np.float64))
        )

    def returned_by(self, function: Function) -> Truth | None:
        """The result of another function; None where it has none."""
        try:
            value = function(*self.arguments)
            if isinstance(value, Truth):
                return value
            value = np.asarray(value, dtype=np.float64)
        except (ValueError, IndexError, ArithmeticError):
            return None
        return self.truth(value)
