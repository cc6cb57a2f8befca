"""Find the role of every recorded tensor from its name: q before, q after, positions, ..."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .files import Tensor
from .labels import belongs, layer_number

#: Tensors that are rotated; ``x`` is a single tensor that is neither q nor k.
ROTATED = ("q", "k", "x")
POSITIONS = ("positions", "q_positions", "k_positions")
#: Where the sequences begin whose tokens stand one after another, and how long they are.
SEQUENCES = ("cu_seqlens", "q_cu_seqlens", "k_cu_seqlens", "seq_lens")
TABLES = ("cos", "sin")
#: Every role that a tensor may have.
ROLES = (*(f"{t}_{when}" for t in ROTATED for when in ("before", "after")), *POSITIONS,
         *SEQUENCES, *TABLES)  # fmt: skip
#: Roles of tensors that are judged together.
_PAIRS = (TABLES, *((f"{t}_before", f"{t}_after") for t in ROTATED))

#: The words of a name that name the tensor, and the moment at which it was recorded.
_TENSOR = {
    "q": "q", "query": "q", "queries": "q", "xq": "q", "k": "k", "key": "k", "keys": "k",
    "xk": "k", "x": "x", "y": "x",
}  # fmt: skip
_BEFORE = (
    "before", "pre", "prerope", "raw", "unrotated", "orig", "original", "in", "input", "nope",
)  # fmt: skip
_AFTER = (
    "after", "post", "postrope", "rot", "rotated", "roped", "rope", "rotary", "embed", "embedded",
    "emb", "out", "output", "y",
)  # fmt: skip
_POSITIONS = ("position", "positions", "pos", "positionids", "posids")
#: Words next to them that say which positions, and no layer: token_pos, cache_position.
_OF_POSITIONS = {
    "token", "tokens", "tok", "seq", "sequence", "cache", "cached", "kv", "start", "current", "cur",
    "abs", "absolute", "rope", "rotary", "offset",
}  # fmt: skip
#: Words that say nothing about the role.
_NOISE = {
    "states", "state", "tensor", "ids", "id", "input", "attn", "self", "cache", "apply", "proj",
    "norm", "normed",
}  # fmt: skip
_TABLE_WORDS = ("cached", "table", "position", "embeddings", "embedding", "pos")
_GLUED = re.compile(rf"({'|'.join(_TENSOR)})({'|'.join((*_BEFORE, *_AFTER))})")
_PACKED = re.compile(
    r"(?P<starts>cu_?seq_?lens?(?=[_./]|$)|query_start_loc|qo_indptr)"
    r"|(?<![a-z])(?<!max_)seq_?lens(?=[_./]|$)"
)
_EXAMPLE = "--role q_before=NAME --role q_after=NAME --role positions=NAME"


@dataclass
class Layer:
    """The recorded tensors of one layer, by role, and their names."""

    label: str  #: such as "layers.3"; empty if the recording has one layer only
    tensors: dict[str, Tensor] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    @property
    def rotated(self) -> list[str]:
        """Return which of q, k and x were recorded both before and after."""
        return [t for t in ROTATED if {f"{t}_before", f"{t}_after"} <= set(self.tensors)]

    @property
    def has_tables(self) -> bool:
        """Return whether cos and sin were recorded."""
        return set(TABLES) <= set(self.tensors)

    @property
    def number(self) -> int | None:
        """Return the number of the layer, if its label has exactly one that is no step."""
        return layer_number(self.label)


def role_of(name: str) -> tuple[str, str] | None:
    """Return the role and the label of the layer that the name of a tensor gives, or None."""
    words = [w for w in re.split(r"[^a-z0-9]+", name.lower()) if w]
    split: list[str] = []
    for word in words:
        glued = _GLUED.fullmatch(word)
        split += list(glued.groups()) if glued else [word]
    if "weight" in split or "bias" in split:
        return None
    own = [w for w in split if w in _TENSOR]
    table = [w for w in split if w in TABLES]
    packed = _PACKED.search(name.lower())
    if packed:
        rest = name[: packed.start()] + name[packed.end() :]
        left = [w for w in re.split(r"[^a-z0-9]+", rest.lower()) if w]
        which = next((f"{w}_" for w in left if w in ("q", "k")), "")
        which = which if packed["starts"] else ""
        role = f"{which}cu_seqlens" if packed["starts"] else "seq_lens"
        return role, ".".join(w for w in left if w not in ("q", "k", *_NOISE))
    if table and not own:
        said = {*table, *_AFTER, *_TABLE_WORDS, *_NOISE}
        return table[0], ".".join(w for w in split if w not in said)
    if any(w in _POSITIONS for w in split):
        role = f"{_TENSOR[own[0]]}_positions" if own else "positions"
        at = next(i for i, w in enumerate(split) if w in _POSITIONS)
        numbered = at + 2 < len(split) and split[at + 2].isdigit()
        beside = {split[at - 1] if at else ""} | {w for w in split[at + 1 : at + 2] if not numbered}
        used = {*_POSITIONS, *own[:1], *(beside & _OF_POSITIONS)}
    elif own:
        before, after = (any(w in when for w in split) for when in (_BEFORE, _AFTER))
        role = f"{_TENSOR[own[0]]}_{'after' if after and not before_first(split) else 'before'}"
        used = {*_BEFORE, *_AFTER, *own} if before or after else set(own)
    else:
        return None
    label = ".".join(w for w in split if w not in used | _NOISE)
    return role, label


def before_first(words: list[str]) -> bool:
    """Return whether a word for "before" stands ahead of every word for "after": pre_rope."""
    first = next((w for w in words if w in (*_BEFORE, *_AFTER)), "")
    return first in _BEFORE and first != "nope"


def layers(arrays: Mapping[str, Any], roles: Mapping[str, str], where: str) -> list[Layer]:
    """Return the layers of a recording, in the order of their numbers.

    ``roles`` maps roles to the names of tensors; a ``*`` in a name stands for the layer. All other
    tensors get the role that their name gives, or none. Positions without a layer belong to
    every layer, and those of a step to every layer of the step.

    Raises
    ------
    ValueError
        A role or a name is unknown, two tensors have the same role, or nothing was recorded both
        before and after the rotation.
    """
    found = _named(arrays, roles, where)
    complete = [part for part in found.values() if part_is_whole(part)]
    if not complete:
        held = ", ".join(f"{name} {tuple(getattr(a, 'shape', ()))}" for name, a in arrays.items())
        raise ValueError(
            f"{where} holds no tensor both before and after the rotation, and not cos and sin; it "
            f"has {held or 'none'}. Known names are such as q_before, q_after, k_before, k_after, "
            f"positions; or say which is which: {_EXAMPLE}"
        )
    for part in complete:
        shared = {
            role: name
            for other in sorted(found.values(), key=lambda other: len(other.label))
            for role, name in other.names.items()
            if role in (*POSITIONS, *SEQUENCES)
            and (len(complete) == 1 or belongs(other.label, part.label))
        }
        part.names = {**shared, **part.names}
        part.tensors = {r: Tensor.of(f"{where}: {n!r}", arrays[n]) for r, n in part.names.items()}
    if len(complete) == 1:
        complete[0].label = complete[0].label if complete[0].number is not None else ""
    return sorted(complete, key=lambda part: [_ordered(w) for w in part.label.split(".")])


def strays(
    arrays: Mapping[str, np.ndarray], roles: Mapping[str, str], where: str
) -> Iterator[tuple[Layer, str, str]]:
    """Yield tensors recorded only before or only after the rotation: layer, name and a sentence.

    A layer without any other tensor counts if its label differs from that of a judged layer in
    numbers only, or if the name says "after": other names may mean anything. So may ``x``, where q
    or k was recorded.
    """
    found = _named(arrays, roles, where).values()
    judged = {re.sub(r"\d+", "N", part.label) for part in found if part_is_whole(part)}
    main = any(role[0] in "qk" for part in found for role in part.names)
    for part in found:
        for pair in _PAIRS:
            alone = set(pair) & set(part.names)
            if len(alone) != 1 or (main and "x_before" in pair):
                continue
            (role,) = alone
            (other,) = set(pair) - alone
            array = arrays[part.names[role]]
            usual = re.sub(r"\d+", "N", part.label) in judged or role.endswith("_after")
            if usual and array.ndim > 1 and array.dtype.kind in "fV":
                what, without = (r.replace("_", " ") for r in (role, other))
                name = part.names[role]
                yield part, name, f"{name} ({what}) was recorded without {without}: not judged"


def part_is_whole(part: Layer) -> bool:
    """Return whether a tensor was recorded before and after the rotation, or cos and sin were."""
    return any(set(pair) <= set(part.names) for pair in _PAIRS)


def _named(arrays: Mapping[str, Any], roles: Mapping[str, str], where: str) -> dict[str, Layer]:
    """Return the names of the tensors of every layer, by role."""
    found: dict[str, Layer] = {}
    given = _given(arrays, roles, where)
    taken = {role for role, _ in given.values()}
    for name in arrays:
        known = given.get(name) or role_of(name)
        if known is None or (name not in given and known[0] in taken):
            continue
        role, label = known
        layer = found.setdefault(label, Layer(label))
        if role in layer.names:
            raise ValueError(
                f"{where}: both {layer.names[role]!r} and {name!r} look like {role}"
                f"{f' of {label}' if label else ''}; say which one is: --role {role}=NAME"
            )
        layer.names[role] = name
    return found


def _given(
    arrays: Mapping[str, Any], roles: Mapping[str, str], where: str
) -> dict[str, tuple[str, str]]:
    """Return the role and the layer of every tensor that ``roles`` names."""
    found: dict[str, tuple[str, str]] = {}
    for role, wanted in roles.items():
        if role not in ROLES:
            raise ValueError(f"role must be one of {', '.join(ROLES)}, got {role!r}")
        before, star, after = wanted.partition("*")
        matching = {
            name: name[len(before) : len(name) - len(after)]
            for name in arrays
            if (name.startswith(before) and name.endswith(after) if star else name == wanted)
        }
        if not star and not matching:  # the name in every step and layer
            found |= {n: (role, _label_of(n, wanted)) for n in arrays if _ends(n, wanted)}
            if any(_ends(n, wanted) for n in arrays):
                continue
        if not matching:
            raise ValueError(
                f"{where} has no tensor {wanted!r} (role {role}); it has {', '.join(arrays)}. Give "
                "the whole name, its end after the last '/' or '.', or a pattern with one '*'"
            )
        found |= {n: (role, rest if star else _label(n, arrays)) for n, rest in matching.items()}
    return found


def _ends(name: str, wanted: str) -> bool:
    """Return whether a name is ``wanted`` in a step or layer: decode_0/token_pos."""
    return name.endswith(wanted) and name[: -len(wanted)].endswith(("/", "."))


def _label_of(name: str, wanted: str) -> str:
    """Return the label in front of ``wanted``, as :func:`role_of` gives it."""
    words = re.split(r"[^a-z0-9]+", name[: -len(wanted)].lower())
    return ".".join(w for w in words if w and w not in _NOISE)


def _label(name: str, arrays: Mapping[str, Any]) -> str:
    """Return the only label among the other tensors' with the numbers of this name, or no label."""
    numbers = re.findall(r"\d+", name)
    known = {found[1] for other in arrays if other != name and (found := role_of(other))}
    same = [label for label in known if numbers and re.findall(r"\d+", label) == numbers]
    return same[0] if len(same) == 1 else ""


def _ordered(word: str) -> tuple[int, str]:
    return (int(word), "") if word.isdigit() else (-1, word)
