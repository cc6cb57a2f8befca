"""Rules in plain English."""

from __future__ import annotations

import numpy as np

from .atoms import Atom
from .features import LETTERS
from .record import MEMORY
from .search import Rule, Table

_PLURAL = {
    "batch row": "batch rows", "head": "heads", "token": "tokens", "query": "queries",
    "key": "keys", "channel": "channels", "pair": "pairs", "row": "rows", "layer": "layers",
}  # fmt: skip

#: A rule without conditions.
EVERYWHERE = "every element of every call"


def said(rule: Rule, table: Table | None = None, channels: str = "") -> str:
    """Return a rule as a phrase, such as "heads from 8 on, in calls with S = 1".

    With ``table``, thresholds of sizes say the nearest size that is right.
    """
    elements = sorted((a for a in rule.atoms if not a.of_call), key=_from_small_to_large)
    calls = [_of_call(a, table) for a in rule.atoms if a.of_call]
    where = channels
    for atom in elements:
        joint = " at " if atom.kind == "position" else ", within "
        where += joint * bool(where) + _of_elements(atom)
    where = where or "every element"
    if not calls:
        return EVERYWHERE if where == "every element" else where
    return f"{where}, in {_calls(calls)}"


def _from_small_to_large(atom: Atom) -> int:
    """Return the rank of a condition: tokens come before heads and rows, positions come last."""
    order = ("batch row", "head", "query", "key", "row", "token")
    return (
        1 if atom.kind == "position" else -order.index(atom.name[1]) if atom.name[1] in order else 0
    )


def _calls(calls: list[str]) -> str:
    joined = " and ".join(c.removeprefix("calls ") for c in calls)
    return f"calls {joined}"


def _of_elements(atom: Atom) -> str:
    """Return a condition on elements as a noun phrase."""
    kind, axis = atom.kind, atom.name[1]
    value, many = atom.values[0], _PLURAL.get(axis, f"indices of the {axis}")
    if kind == "remainder":
        factor, letter = atom.name[0].split()[1], LETTERS.get(axis, "n")
        if value:
            return f"the last {letter} mod {factor} {many} of a call"
        return f"all {many} of a call but the last {letter} mod {factor}"
    if kind == "from end":
        return _from_end(atom, axis, many)
    if kind == "index":
        one, each = axis, many
        if axis in ("token", "query", "key"):
            return _listed(atom, one, each, " of a call")
        return _listed(atom, one, each)
    if kind == "position":
        of = "query position" if axis == "query" else "position"
        return _listed(atom, of, f"{of}s")
    if kind == "distance":
        known = {
            ("from", 0): "keys at or before their query", ("from", 1): "keys before their query",
            ("to", -1): "keys after their query", ("to", 0): "keys at or after their query",
            ("is", 0): "each query with its own key", ("not", 0): "all keys but the query's own",
        }  # fmt: skip
        text = known.get((atom.op, value))
        return text or _listed(atom, "query minus key", "query minus key")
    return _listed(atom, "distance", "distances")


def _listed(atom: Atom, one: str, many: str, of: str = "") -> str:
    value = atom.values[0]
    if atom.op == "is":
        return f"{one} {value}{of}"
    if atom.op == "not":
        return f"all {many}{of} but {value}"
    if atom.op == "from":
        return f"{many} from {value}{of} on" if not of else f"{many} from {value} of a call on"
    if atom.op == "to":
        return f"{many} up to {value}{of}"
    if atom.op == "in":
        return f"{many} {', '.join(map(str, atom.values))}{of}"
    divisor, left = atom.values
    if divisor == 2:
        return f"{'odd' if left else 'even'} {many}{of}"
    sign = "=" if atom.op == "mod" else "!="
    return f"{many}{of} with index mod {divisor} {sign} {left}"


def _from_end(atom: Atom, axis: str, many: str) -> str:
    value = atom.values[0]
    of = " of a call" if axis in ("token", "query", "key") else ""
    if atom.op == "is":
        return f"the last {axis}{of}" if value == 0 else f"{axis} {-value - 1}{of}"
    if atom.op == "not" and value == 0:
        return f"all {many}{of} but the last"
    if atom.op == "from":
        return (
            f"all {many}{of} but the last {value}" if value > 1 else f"all {many}{of} but the last"
        )
    if atom.op == "to":
        return f"the last {value + 1} {many}{of}"
    if atom.op == "in":
        return f"{many} {', '.join(str(-v - 1) for v in atom.values)}{of}"
    divisor, left = (*atom.values, 0)[:2]
    sign = "!=" if atom.op.startswith("not") else "="
    return f"{many}{of} with index from the end mod {divisor} {sign} {left}"


def _of_call(atom: Atom, table: Table | None) -> str:
    """Return a condition on calls, beginning with "calls"."""
    kind, value = atom.kind, atom.values[0]
    if kind == "size":
        letter = LETTERS.get(atom.name[1], f"the size of {atom.name[1]}")
        return f"calls with {_compared(letter, atom)}{_nearest(atom, table)}"
    if kind == "call":
        if atom.op == "from":
            return f"calls from call {value} on{_nearest(atom, table)}"
        if atom.op == "to":
            return f"calls up to call {value}{_nearest(atom, table)}"
        return f"calls with {_compared('call number', atom)}"
    if kind == "first position":
        if atom.op in ("is", "not") and value == 0:
            return f"calls that {'start' if atom.op == 'is' else 'do not start'} at position 0"
        return f"calls with {_compared('first position', atom)}{_nearest(atom, table)}"
    if kind == "memory":
        names = " or ".join(MEMORY[v] for v in atom.values)
        return f"calls with x {'not ' if atom.op == 'not' else ''}{names}"
    words = {
        "fresh": ("on a used instance", "on a fresh instance"),
        "own rows": ("with positions shared by all rows", "with positions of each row (B, S)"),
        "apart": ("with positions equal on all axes", "with positions that differ on the axes"),
        "consecutive": ("with positions that are not consecutive", "with consecutive positions"),
        "fractional": ("with whole positions", "with fractional positions"),
        "int32": ("with int64 positions", "with int32 positions"),
    }
    return f"calls {words[kind][bool(value)]}"


def _compared(letter: str, atom: Atom) -> str:
    value = atom.values[0]
    if atom.op == "in":
        return f"{letter} = {' or '.join(map(str, atom.values))}"
    if atom.op in ("mod", "not mod"):
        sign = "=" if atom.op == "mod" else "!="
        return f"{letter} mod {value} {sign} {atom.values[1]}"
    sign = {"is": "=", "not": "!=", "from": ">=", "to": "<="}[atom.op]
    return f"{letter} {sign} {value}"


def _nearest(atom: Atom, table: Table | None) -> str:
    """Return the nearest tried value beyond a threshold, if there is a gap."""
    if table is None or atom.op not in ("from", "to"):
        return ""
    column = table.values(atom.name, table.right)
    value, sign = atom.values[0], 1 if atom.op == "from" else -1
    beyond = column[~np.isnan(column)]
    beyond = beyond[sign * beyond < sign * value]
    if not beyond.size:
        return ""
    near = int(sign * (sign * beyond).max())
    return f" ({near} was not)" if abs(near - value) > 1 else ""
