"""The record of a surface: how a function is called, what it returns, and who judges it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

Function = Callable[..., Any]


@dataclass(frozen=True)
class Surface:
    """One shape in which people expose an encoding.

    x, q and k are (B, H, S, D); positions are (S,), sometimes (B, S), or (A, B, S) for A > 1 axes.
    Places in the code are "module:function" below ``posenc_ref.conformance``.

    Attributes
    ----------
    name : str
        The name of the surface.
    call : str
        How the function is called, and what it returns.
    own : callable
        ``own(encoding, dtype)``: the function of ``posenc_ref``.
    arguments : tuple[str, ...]
        The positional arguments; one that an encoding does not use is left out.
    families : tuple[str, ...]
        What may be declared ("none": no encoding is needed); empty if only vectors exist.
    judge : str
        The place of the judge.
    identify : str
        The place of the function that fills in an identity card, if there is one.
    outputs : tuple[str, ...]
        The names of the results in vectors; empty if there are no vectors.
    meaning : str
        What the page about vectors says of the results.
    one_map : bool
        Whether queries and keys are rotated alike.
    least : int
        The smallest ``max_position`` with which it can be judged.
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
        """Whether it can only be judged against an encoding."""
        return "none" not in self.families


def load(place: str) -> Function:
    """Return the function at a place such as "rotary.judge:judge"."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"posenc_ref.conformance.{module}"), name)  # type: ignore[no-any-return]


def method(name: str) -> Callable[[Any, str], Function]:
    """Return the ``own`` of a method of the encoding."""
    return lambda e, dtype: getattr(e, name)


def plain(fn: Function) -> Callable[[Any, str], Function]:
    """Return the ``own`` of a function that needs no encoding."""
    return lambda e, dtype: fn
