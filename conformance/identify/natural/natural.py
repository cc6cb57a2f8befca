"""The calls of a function that are tried if it is no function of a surface.

Each call is seen as a function of the surface that its result belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posenc_ref import RoPE
from posenc_ref.conformance.calling import NoConvention, bind
from posenc_ref.conformance.harness.foreign import Refused
from posenc_ref.conformance.harness.implementation import Implementation

from posenc_ref.conformance.identify.card import Card

from .biases import matrices
from .foreign import Foreign, copied, foreigners
from .tables import grids, lengths, patches, points

#: The surfaces that calling conventions are tried on, after the most likely one.
_BOUND = ("table", "add", "cos_sin", "bias", "bucket", "slopes")
#: The size of a head, if nothing states it.
_DIM = 64


def called(
    target: Any,
    card_of: Callable[[Implementation], Card],
    head_dim: int | None,
    axes: int,
    surface: str | None,
) -> tuple[Card | None, list[str]]:
    """Return the card of the first call that is identified exactly, and the surfaces tried.

    If none is exact, the card is the first one with a published rule, or None.
    """
    near: Card | None = None
    tried: list[str] = []
    for found in naturals(target, head_dim, axes, surface):
        if found.surface not in tried:
            tried.append(found.surface)
        try:
            card = card_of(found)
        except (ValueError, TypeError):
            continue
        if card.found and card.rule and card.exact:
            return card, tried
        if card.found and card.rule and near is None:
            near = card
    return near, tried


def naturals(
    target: Any, head_dim: int | None, axes: int, surface: str | None
) -> Iterator[Implementation]:
    """Yield the calls of ``target`` as functions of a surface, or of the given one only."""
    for found in _every(target, head_dim, axes, surface):
        if surface in (None, found.surface) or (surface == "cos_sin" and found.axes > 1):
            yield found


def _every(
    target: Any, head_dim: int | None, axes: int, surface: str | None
) -> Iterator[Implementation]:
    for name in _BOUND:
        if surface in (None, name) and axes == 1:
            try:
                yield bind(copied(target), None, name, head_dim=head_dim)
            except (ValueError, TypeError, Refused):
                continue
    makers: list[Callable[[Foreign], Iterator[Implementation]]]
    makers = [grids, lengths, patches, matrices]
    if axes > 1:
        makers = [grids, lambda fn: points(fn, axes), patches]
    for maker in makers:
        for fn in foreigners(copied(target), head_dim or _DIM):
            yield from maker(fn)
    if surface in (None, "apply", "apply_qk"):
        yield from _with_tables(target, head_dim or _DIM, axes)


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
    return np.arange(end)[:, None] * RoPE(dim, layout="half").frequencies()


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


_TABLES = (halves, adjacent, single)
