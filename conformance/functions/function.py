"""A plain function as a row of the table of surfaces: our own, and how to judge by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.match import Seen
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import identical

Function = Callable[..., Any]


@dataclass(frozen=True)
class Probe:
    """The arguments of one call; one that is not required may be refused."""

    name: str
    arguments: tuple[Any, ...]
    required: bool = True


@dataclass(frozen=True)
class Mistake:
    """A function that is known to be written in place of the right one.

    It gives the values, or a Truth where these have an A and B of their own.
    """

    code: str
    message: str
    function: Function
    remedy: str = ""


def _identical(encoding: Any, arguments: tuple[Any, ...], value: np.ndarray) -> Truth:
    return identical(value)


@dataclass(frozen=True)
class Plain:
    """How to judge a surface; ``probes`` and ``mistakes`` get the declared encoding, or None."""

    probes: Callable[[Any, int, str], Iterable[Probe]]  #: by seed and dtype; from small to large
    mistakes: Callable[[Any], Iterable[Mistake]]
    otherwise: str  #: the code where no known mistake explains what came out
    integers: bool = True  #: whether integers (or bools) are wanted
    truth: Callable[[Any, tuple[Any, ...], np.ndarray], Truth] = _identical
    judged: Callable[[tuple[Any, ...]], np.ndarray | None] = lambda arguments: None
    #: Mistakes that a wrong result suggests, by the encoding, the arguments and what came out.
    suggested: Callable[[Any, tuple[Any, ...], np.ndarray], Iterable[Mistake]] = (
        lambda encoding, arguments, actual: ()
    )
    #: The arguments held to positions up to a last one.
    within: Callable[[tuple[Any, ...], int], tuple[Any, ...]] = lambda arguments, last: arguments
    #: What looks closer where no mistake explains the calls that came out.
    closer: Callable[[Run, list[Seen]], None] | None = None
    #: What of a result is compared: the result itself, unless only a part of it has a meaning.
    meaning: Callable[[np.ndarray], np.ndarray] = lambda result: result
