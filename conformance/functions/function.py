"""How to judge a plain function: one that must equal the ``posenc_ref`` function of its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.conditions import Variables
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.diagnosis.together import Together
from posenc_ref.conformance.harness.crossing import Crossing, Row
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import identical

Function = Callable[..., Any]
#: Part of the message of a wrong result without a known cause.
NO_CAUSE = "no known mistake explains"


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call, which the function may refuse unless ``required``."""

    name: str
    arguments: tuple[Any, ...]
    required: bool = True


@dataclass(frozen=True)
class Returned:
    """The prediction that a call gets the result of ``function``."""

    function: Function

    def __call__(self, call: PlainCall) -> Truth | None:
        """Return what ``function`` returns for the arguments of a call."""
        return call.returned_by(self.function)


def written(code: str, message: str, function: Function, remedy: str = "") -> Mistake:
    """Return the mistake of computing ``function`` in place of the declared function.

    ``function`` returns values, or a ``Truth``: values with a tolerance of their own.
    """
    return Mistake(code, message, Returned(function), remedy)


def several(*rows: tuple[Any, ...]) -> Iterator[Mistake]:
    """Yield a mistake for each row (code, message, function, optional remedy)."""
    return (written(*row) for row in rows)


@dataclass(frozen=True)
class Plain:
    """How to judge a plain function; "the encoding" is the declared encoding, or None."""

    #: Return calls from small to large, given the encoding, the seed and the dtype.
    probes: Callable[[Any, int, str], Iterable[Arguments]]
    mistakes: Callable[[Any], Iterable[Mistake]]  #: given the encoding
    otherwise: str  #: the code if no known mistake explains the result
    integers: bool = True  #: whether the result must be integers (or bools)
    #: Return further mistakes, of which only those are tried that predict the smallest wrong call.
    rarer: Callable[[Any], Iterable[Mistake]] = lambda encoding: ()
    #: Return two mistakes that are made at once.
    together: Callable[[Any], Iterable[Together]] = lambda encoding: ()
    #: Return values with their tolerance.
    truth: Callable[..., Truth] = lambda encoding, arguments, value: identical(value)
    judged: Callable[[tuple[Any, ...]], np.ndarray | None] = lambda arguments: None
    #: Return numbers that may be mistaken for the result, by name; all broadcast to its shape.
    variables: Callable[[tuple[Any, ...]], Variables] | None = None
    #: Return further mistakes that a wrong result suggests.
    suggested: Callable[..., Iterable[Mistake]] = lambda encoding, arguments, actual: ()
    #: Return the arguments cut to positions up to a largest one.
    within: Callable[[tuple[Any, ...], int], tuple[Any, ...]] = lambda arguments, last: arguments
    #: A further diagnosis if no mistake explains the calls.
    closer: Callable[[Run, list[JudgedCall]], None] | None = None
    #: Return what is right, in a sentence, for mistakes that have no remedy of their own.
    remedy: Callable[[Any], str] = lambda encoding: ""
    #: Return factors of which every two levels meet in a call, and the arguments of such a call.
    crossing: tuple[Callable[[], Crossing], Callable[[Row], tuple[Any, ...]]] | None = None
    #: Return a hint for a result of another shape, given the encoding and both shapes.
    misshapen: Callable[..., str] = lambda encoding, expected, actual: ""
    #: Return the part of a result to compare.
    meaning: Callable[[np.ndarray], np.ndarray] = lambda result: result
    #: Note what right results have that is not compared, given the arguments and results of calls.
    remark: Callable[[Run, Sequence[tuple[tuple[Any, ...], np.ndarray]]], None] | None = None

    def whole(self, encoding: Any) -> bool:
        """Return whether results must be integers: not if the declared rule keeps fractions."""
        return self.integers and not getattr(encoding, "fractional", False)


@dataclass(frozen=True)
class PlainCall:
    """The arguments of one judged call."""

    row: Plain
    encoding: Any
    arguments: tuple[Any, ...]
    before: tuple[tuple[Any, ...], ...] = ()  #: the arguments of the calls before, in order

    def truth(self, value: np.ndarray) -> Truth:
        """Return ``value`` with the tolerance of this call."""
        compared = self.row.meaning(np.asarray(value, np.float64))
        return self.row.truth(self.encoding, self.arguments, compared)

    def returned_by(self, function: Function) -> Truth | None:
        """Return the result of ``function`` for the same arguments, or None if it fails."""
        try:
            value = function(*self.arguments)
            return value if isinstance(value, Truth) else self.truth(value)
        except (ValueError, IndexError, ArithmeticError):
            return None
