"""The record of a surface: its signature, its results, and its judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

Function = Callable[..., Any]
#: The axes of a rotated x, and of a table.
X = ("batch row", "head", "token", "channel")
ROWS = ("row", "channel")
#: The arguments that are floating numbers.
_FLOATS = {"x", "q", "k", "v", "w"}


@dataclass(frozen=True)
class Surface:
    """One signature under which libraries expose an encoding.

    x, q and k are (B, H, S, D); positions are (S,), sometimes (B, S), or (A, B, S) for A > 1
    axes. Functions are given as "module:function" below ``posenc_ref.conformance``.
    """

    name: str
    call: str  #: the signature of the function, and its result
    own: Callable[[Any, str], Function]  #: (encoding, dtype) -> the function of posenc_ref
    arguments: tuple[str, ...]  #: positional arguments; those that an encoding lacks are omitted
    families: tuple[str, ...] = ()  #: families that may be declared; empty: test vectors only
    judge: str = "functions.judge:judge"
    identify: str = ""  #: finds the encoding of an unknown function; empty: impossible
    outputs: tuple[str, ...] = ()  #: names of the results in test vectors; empty: no vectors
    meaning: str = ""  #: describes the results
    one_map: bool = False  #: whether queries and keys share one map
    axes: tuple[str, ...] = ()  #: the axes of the judged result; empty: failures are not located
    least: int = 0  #: the smallest ``max_position`` that the judge accepts

    @property
    def needs_encoding(self) -> bool:
        """Return whether an encoding must be declared."""
        return "none" not in self.families

    @property
    def takes_floats(self) -> bool:
        """Return whether an argument has a floating dtype, which a result may be expected in."""
        return not _FLOATS.isdisjoint(self.arguments)


def load(place: str) -> Function:
    """Return the function named by "module:function", such as "rotary.judge:judge"."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"posenc_ref.conformance.{module}"), name)  # type: ignore[no-any-return]


def method(name: str) -> Callable[[Any, str], Function]:
    """Return an :attr:`Surface.own` that gives the encoding's method ``name``."""
    return lambda e, dtype: getattr(e, name)


def plain(fn: Function) -> Callable[[Any, str], Function]:
    """Return an :attr:`Surface.own` that gives ``fn`` for every encoding."""
    return lambda e, dtype: fn
