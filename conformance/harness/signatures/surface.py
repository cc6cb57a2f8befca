"""The record of a surface: its signature, its results, and its judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

Function = Callable[..., Any]


@dataclass(frozen=True)
class Surface:
    """One signature under which libraries expose an encoding.

    x, q and k are (B, H, S, D); positions are (S,), sometimes (B, S), or (A, B, S) for A > 1
    axes. Functions are given as "module:function" below ``posenc_ref.conformance``.

    Attributes
    ----------
    name : str
        The name of the surface.
    call : str
        The signature of the function and its result.
    own : callable
        ``own(encoding, dtype)`` returns the function of ``posenc_ref`` with this signature.
    arguments : tuple[str, ...]
        The names of the positional arguments; an argument that an encoding does not use is omitted.
    families : tuple[str, ...]
        The families that may be declared ("none": no encoding is needed); empty if only test
        vectors exist.
    judge : str
        The judge, as "module:function".
    identify : str
        The function that fills in an identity card, or an empty string.
    outputs : tuple[str, ...]
        The names of the results in vectors; empty if there are no vectors.
    meaning : str
        The description of the results on the page about vectors.
    one_map : bool
        Whether the surface uses one map for both queries and keys.
    least : int
        The smallest ``max_position`` that the judge accepts.
    """

    name: str
    call: str
    own: Callable[[Any, str], Function]
    arguments: tuple[str, ...]
    families: tuple[str, ...] = ()
    judge: str = "functions.judge:judge"
    identify: str = ""
    outputs: tuple[str, ...] = ()
    meaning: str = ""
    one_map: bool = False
    least: int = 0

    @property
    def needs_encoding(self) -> bool:
        """Return whether an encoding must be declared."""
        return "none" not in self.families


def load(place: str) -> Function:
    """Return the function named by "module:function", such as "rotary.judge:judge"."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"posenc_ref.conformance.{module}"), name)  # type: ignore[no-any-return]


def method(name: str) -> Callable[[Any, str], Function]:
    """Return the ``own`` of a surface that is a method of the encoding."""
    return lambda e, dtype: getattr(e, name)


def plain(fn: Function) -> Callable[[Any, str], Function]:
    """Return the ``own`` of a surface that needs no encoding."""
    return lambda e, dtype: fn
