"""Identify a function without a declared surface: try each surface that its signature allows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from posenc_ref import Sinusoidal
from posenc_ref.conformance.calling import takes
from posenc_ref.conformance.calling.bind import BOUND
from posenc_ref.conformance.calling.roles import role_of
from posenc_ref.conformance.harness.signatures import SURFACES

from .card import Card
from .defects import odd_base
from .natural.natural import Called, states_width
from .table import NO_LAYOUT

#: Surfaces that accept almost any result: tried only if a parameter has the name of theirs.
_WEAK = ("layers", "softmax_scale", "frequencies", "bucket")
#: Names of arguments that many functions have.
_VAGUE = {"x", "q", "k", "offset", "positions", "chunks"}
#: The most surfaces to try.
_MOST = 12
#: Other names of the arguments of surfaces.
_NAMES = {
    "h": "height", "w": "width", "n": "seq_len", "length": "seq_len", "mask": "attention_mask",
    "cu_seqlens": "cu_seqlens", "window_size": "window", "n_head": "num_heads",
    "tokens": "input_ids", "ids": "input_ids", "seqlens": "lengths", "seq_lens": "lengths",
    "rank": "cp_rank", "q_len": "q_len", "k_len": "k_len",
}  # fmt: skip

#: Returns the card for a surface, or for None as :func:`identify` finds out by itself.
One = Callable[[str | None], Card]
#: Returns what other calls of the function gave.
Others = Callable[[], Called]


def best(
    fn: Callable[..., Any],
    one: One,
    surfaces: Sequence[str],
    others: Others,
    several: Callable[[], Card | None],
) -> Card:
    """Return the card of the first of ``surfaces`` that gives an exact result.

    Surfaces whose arguments have the names of the parameters come first; their cards may have
    deviations. Then come the surface that ``one`` finds by itself, unless ``several`` finds it
    with several axes, ``others``, which are other calls of the function, and the surfaces
    with as many arguments.
    """
    first, failed = None, None
    early = others() if states_width(fn) else None
    if early is not None and early.card is not None and early.card.exact:
        early.card.facts = {"surface": _words(early.card.surface, early.tried), **early.card.facts}
        return early.card
    for surface in surfaces:
        if surface not in BOUND and _same_names(fn, surface):
            card = one(surface)
            if card.found and card.exact:
                card.facts = {"surface": _words(surface, [surface]), **card.facts}
                return card
    try:
        first = or_table(one(None), lambda: one("table"))
        if first.found and first.exact and not odd_base(first):
            return several() or first if first.surface == "cos_sin" else first
    except ValueError as error:
        failed = error
    tried: list[str] = [first.surface] if first is not None else []
    # A rotation fn(x, positions) that returned results was called as it is meant.
    plain = first is not None and first.answered and first.surface == "apply"
    called = (
        Called() if plain and inspect.isroutine(fn) and takes(fn, "apply") else early or others()
    )
    near, broken = called.card, called.broken
    tried += [surface for surface in called.tried if surface not in tried]
    if near is not None and near.exact:
        near.facts = {"surface": _words(near.surface, tried), **near.facts}
        return near
    if first is not None and first.found:
        return first
    for surface, named in _ranked(fn):
        if surface in tried or surface not in surfaces:
            continue
        if len(tried) >= _MOST:
            break
        tried.append(surface)
        try:
            card = one(surface)
        except (ValueError, TypeError):
            continue
        broken += [text for text in card.broken if text not in broken]
        if card.found and card.exact:
            near = card
            break
        if card.found and card.rule and named and near is None:
            near = card
    if near is not None:
        near.facts = {"surface": _words(near.surface, tried), **near.facts}
        return near
    if first is None:
        assert failed is not None
        raise type(failed)("\n".join([*called.words, *broken, str(failed)]))
    if len(tried) > 1:
        first.unknown.append(f"its surface: {', '.join(tried)} were tried; pass surface=")
    first.unknown += called.words if called.tried else []
    first.broken += [text for text in broken if text not in first.broken]
    return first


def or_table(first: Card, as_table: Callable[[], Card]) -> Card:
    """Return the card of a table if sines and cosines that are joined in one array may be added.

    The same numbers may be the cos and sin of a rotation: the card says so.
    """
    if first.surface != "cos_sin" or NO_LAYOUT not in first.unknown:
        return first
    try:
        table = as_table()
    except (ValueError, TypeError):
        return first
    if not first.found and table.exact and table.rule:
        return table  # such as a learned one, whose columns are no cosines and sines
    if not table.exact or not isinstance(table.encoding, Sinusoidal):
        return first
    added, turning = repr(table.encoding), repr(first.encoding)
    if first.exact and table.encoding.first == "cos":
        first.relations += (f"as a table that is added, it is {added}",)
        return first
    if first.exact:
        table.relations += (f"as cos and sin of a rotation, it is {turning}",)
    return table


def _same_names(fn: Callable[..., Any], surface: str) -> bool:
    """Return whether the parameters are the arguments of a surface, with names that tell it."""
    try:
        names = tuple(inspect.signature(fn).parameters)
    except (TypeError, ValueError):
        return False
    row = SURFACES.get(surface)
    return row is not None and names == row.arguments and not set(names) <= _VAGUE


def _words(found: str, tried: list[str]) -> str:
    others = [name for name in tried if name != found]
    call = f", {SURFACES[found].call}" if found in SURFACES else ""  # not of visual positions
    text = f"not declared: the function is one of {found!r}{call}"
    return f"{text}; also tried: {', '.join(others)}" if others else text


def _ranked(fn: Callable[..., Any]) -> Iterator[tuple[str, bool]]:
    """Yield the surfaces whose arguments the function takes, and whether it has their names."""
    try:
        names = list(inspect.signature(fn).parameters)
    except (TypeError, ValueError):
        return
    mine = {_NAMES.get(name, name) for name in names}
    roles = {role_of(name) for name in names} - {None}
    rated = []
    for place, (surface, row) in enumerate(SURFACES.items()):
        if not takes(fn, surface):
            continue
        same = len(mine & set(row.arguments))
        same += len(roles & {role_of(name) for name in row.arguments})
        if surface in _WEAK and not same:
            continue
        rated.append((-same, abs(len(names) - len(row.arguments)), place, surface))
    yield from ((surface, same < 0) for same, _, _, surface in sorted(rated))
