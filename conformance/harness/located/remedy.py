"""Say where to look in a function that is wrong in a known place, for an unknown cause."""

from __future__ import annotations

from .atoms import Atom
from .features import LETTERS
from .locate import Place

#: The most hints of one remedy.
_MOST = 2


def where_to_look(place: Place | None) -> str:
    """Return which code to look at, and what is right already; empty if no rule is known."""
    if place is None or not place.rules:
        return ""
    atoms = [atom for rule in place.rules for atom in rule.atoms]
    hints = list(dict.fromkeys(filter(None, map(_hint, atoms))))[:_MOST]
    if not hints:
        return ""
    text = f"Look at {', and at '.join(hints)}."
    return text if place.partial else f"{text} Judged elements that the rule does not name pass."


def _hint(atom: Atom) -> str:
    """Return the code that a condition points to."""
    kind, axis, value = atom.kind, atom.name[1], atom.values[0]
    if kind == "remainder":
        size = atom.name[0].split()[1]
        what = "heads" if axis == "head" else "tokens"
        if value:
            return (
                f"the last, incomplete block of {size} {what}: its start, its length and what it "
                "loads"
            )
        return (
            f"the whole blocks of {size} {what}: the rest is handled by other code, which is right"
        )
    if kind == "size":
        return _of_size(atom, axis, value)
    if kind in ("call", "fresh"):
        return "what the instance keeps between calls: caches, counters, buffers"
    if kind == "memory":
        return "the strides of x: code that takes x to be contiguous"
    if kind == "own rows":
        return "the code for positions of each row, (B, S)" if value else (
            "the code for positions that all rows share, (S,)"
        )  # fmt: skip
    if kind == "apart":
        return "the code for a position of each axis" if value else (
            "the code for positions that are equal on all axes, as those of text"
        )  # fmt: skip
    if kind == "first position":
        return "how the offset of a call enters its positions"
    if kind in ("consecutive", "fractional", "int32"):
        return "how positions are read: their order, their dtype, and whether they are looked up"
    if kind in ("distance", "far"):
        return "how the distance of query and key is computed at these distances"
    if atom.op in ("mod", "not mod"):
        return f"what repeats every {value}: blocks, pages or lanes of this size"
    if kind == "position":
        return "what changes at these positions: the length of a table, a limit, a narrow integer"
    if kind == "from end":
        return (
            f"the end of the loop over the {axis}s: its last block, or a bound that is off by one"
        )
    if axis == "batch row":
        return "how the batch row is indexed"
    if axis == "head":
        return "how heads are indexed: blocks of heads, or heads that share a key head"
    return f"the loop over the {axis}s, where the rule's bound stands" if axis else ""


def _of_size(atom: Atom, axis: str, value: int) -> str:
    letter = LETTERS.get(axis, f"the size of the {axis}s")
    if atom.op == "is" and value == 1:
        what = {"S": "token", "B": "batch row", "H": "head", "Q": "query", "K": "key"}.get(letter)
        return f"the path for one {what}" if what else f"calls with {letter} = 1"
    if atom.op in ("mod", "not mod"):
        return f"what depends on {letter}, such as the size of a block"
    if atom.op in ("from", "to"):
        return f"what depends on {letter}: a block size, a limit or the length of a table"
    return f"what depends on {letter}"
