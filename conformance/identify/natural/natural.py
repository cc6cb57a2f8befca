"""The calls of a function that are tried if it is no function of a surface.

Each call is seen as a function of the surface that its result belongs to.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from posenc_ref import RoPE
from posenc_ref.conformance.calling import NoConvention, bind
from posenc_ref.conformance.calling.roles import required_roles
from posenc_ref.conformance.harness.foreign import Refused
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.harness.pace import watch
from posenc_ref.conformance.identify.card import Card
from posenc_ref.conformance.identify.defects import odd_base
from posenc_ref.conformance.identify.precision import looked_up

from .biases import matrices
from .foreign import Foreign, copied, foreigners
from .ids import documents, of_tokens, streams
from .owners import owners
from .points import coordinates
from .relative import decomposed, indices
from .tables import grids, lengths, one_length, own_grids, patches, turned_grids, volumes

#: The surfaces that calling conventions are tried on, after the most likely one.
_BOUND = ("add", "table", "cos_sin", "bias", "bucket", "slopes")
#: Roles of parameters that give a size, besides a number of columns.
_SIZES = {"grid", "grid_height", "side", "image_size", "length", "grid_tokens"}
#: The size of a head, if nothing states it.
_DIM = 64


@dataclass
class Called:
    """What other calls of a function gave."""

    #: The first card of an exact encoding; else the first one with a published rule, or None.
    card: Card | None = None
    tried: list[str] = field(default_factory=list)  #: the surfaces that calls were seen as
    calls: list[str] = field(default_factory=list)  #: the calls that gave a result
    broken: list[str] = field(default_factory=list)  #: the steps of ``identify`` that failed

    @property
    def words(self) -> list[str]:
        """What was tried, for the reader of a card without an encoding, and what helps."""
        if self.broken or watch().left:
            return []
        if self.calls:
            return [f"calls that gave a result, but no known encoding: {'; '.join(self.calls)}"]
        return [
            "no call with positions, a length, a grid, an image, tokens or logits gave a table, "
            "cos and sin, or a bias: name the surface with --surface, surface= in Python, or wrap "
            "the function in one with the arguments of a surface"
        ]


def called(
    target: Any,
    card_of: Callable[[Implementation], Card],
    head_dim: int | None,
    axes: int,
    surface: str | None,
) -> Called:
    """Return the card of the first call that is identified exactly, and what was tried.

    A learned table may have any rows, so that a formula which another call shows is preferred.
    """
    seen = Called()
    for found in naturals(target, head_dim, axes, surface):
        seen.tried += [found.surface] if found.surface not in seen.tried else []
        seen.calls += [f"{found.surface} ({found.how})"] if found.how else []
        try:
            card = card_of(found)
        except (ValueError, TypeError):
            continue
        seen.broken += [text for text in card.broken if text not in seen.broken]
        if not (card.found and card.rule):
            continue
        if seen.card is None or (card.exact and not seen.card.exact):
            seen.card = card
        if card.exact and not looked_up(card.encoding) and not odd_base(card):
            seen.card = card
            break
    return seen


def of_axes(
    target: Any, card_of: Callable[[Implementation], Card], head_dim: int | None
) -> Card | None:
    """Return the exact card of a class ``fn(x, positions)`` that takes positions of several axes.

    It also answers for positions of one axis, which it takes for those of every axis.
    """
    for owner in owners(target, head_dim or _DIM) if inspect.isclass(target) else ():
        for fn in foreigners(owner):
            if {"x", "positions"} <= fn.required:
                for found in coordinates(fn):
                    card = card_of(_made(fn, found))
                    if card.exact and card.rule:
                        return card
    return None


def naturals(
    target: Any, head_dim: int | None, axes: int, surface: str | None
) -> Iterator[Implementation]:
    """Yield the calls of ``target`` as functions of a surface, or of the given one only."""
    for found in _every(target, head_dim, axes, surface):
        if watch().left:  # no call is made any more
            return
        fits = surface in (None, found.surface) or {surface, found.surface} == {"add", "table"}
        if fits or (surface == "cos_sin" and found.axes > 1):
            yield found


def _every(
    target: Any, head_dim: int | None, axes: int, surface: str | None
) -> Iterator[Implementation]:
    made = list(owners(target, head_dim or _DIM))
    if axes == 1 and states_width(target):
        for owner in made:
            for fn in foreigners(owner):
                yield from grids(fn)
    for name in _BOUND:
        if surface in (None, name) and axes == 1:
            try:
                yield bind(copied(target), None, name, head_dim=head_dim)
            except (ValueError, TypeError, Refused):
                continue
    makers: list[Callable[[Foreign], Iterator[Implementation]]]
    makers = [documents, of_tokens, streams, indices, decomposed, grids, volumes, lengths]
    makers += [patches, matrices, coordinates, turned_grids, own_grids, one_length]
    if axes > 1:
        whole = [volumes] if axes == 3 else [grids]
        makers = [*whole, lambda fn: coordinates(fn, axes), patches, own_grids]
    if "num_heads" in _required(target):  # as a builder of biases asks for it
        makers = [matrices, *(maker for maker in makers if maker is not matrices)]
    for maker in makers:
        for fn in (fn for owner in made for fn in foreigners(owner) if not watch().left):
            for found in maker(fn):
                yield _made(fn, found)
    if surface in (None, "apply", "apply_qk"):
        yield from _with_tables(target, head_dim or _DIM, axes)


def _made(fn: Foreign, found: Implementation) -> Implementation:
    """Return a call with the words about how its object was made."""
    how = f"{fn.words}, called with {found.how}" if fn.words else found.how
    return replace(found, how=how)


def states_width(fn: Callable[..., Any]) -> bool:
    """Return whether the required parameters are a number of columns and the size of a grid.

    Another surface of two numbers would ask for that many columns, and for large arrays.
    """
    roles = _required(fn)
    return "width" in roles and len(roles) == 2 and bool(roles & _SIZES)


def _required(target: Any) -> set[str | None]:
    """Return the roles of the required parameters, if they can be read."""
    try:
        return required_roles(target)
    except (TypeError, ValueError):
        return set()


def _with_tables(target: Any, head_dim: int, axes: int) -> Iterator[Implementation]:
    """Yield a rotation with cos and sin of the base 10000, if it makes none itself."""
    try:
        bind(target, None, "apply", head_dim=head_dim, axes=axes)
        return
    except (NoConvention, ValueError, TypeError):
        pass
    for table in _TABLES if axes == 1 else ():
        try:
            yield bind(target, None, "apply", table=table, head_dim=head_dim)
        except (NoConvention, ValueError, TypeError):
            continue


def _angles(dim: int, end: int) -> np.ndarray:
    return np.asarray(np.arange(end)[:, None] * RoPE(dim, layout="half").frequencies())


def halves(dim: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    """Return cos and sin of base 10000, both halves of the columns alike."""
    both = np.tile(_angles(dim, end), 2)
    return np.cos(both).astype(np.float32), np.sin(both).astype(np.float32)


def adjacent(dim: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    """Return cos and sin of base 10000, adjacent columns alike."""
    both = np.repeat(_angles(dim, end), 2, axis=1)
    return np.cos(both).astype(np.float32), np.sin(both).astype(np.float32)


def single(dim: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    """Return cos and sin of base 10000, one column for each pair."""
    angles = _angles(dim, end)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def angles(dim: int, end: int) -> np.ndarray:
    """Return the angles of base 10000, both halves of the columns alike."""
    return np.tile(_angles(dim, end), 2).astype(np.float32)


_TABLES = (halves, adjacent, single, angles)
