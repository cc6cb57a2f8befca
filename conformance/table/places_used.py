"""Decode the places of rows of a table with several axes, and find the rules behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from posenc_ref.conformance.diagnosis.conditions import Variables
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.diagnosis.rule import Rule, find_rule
from posenc_ref.conformance.diagnosis.scored import fits
from posenc_ref.conformance.harness.run import Run

from .reference import longest, rows_of

#: The largest place that is sought on an axis, and the most rows of a call.
_REACH, _MOST = 256, 1100
#: How many places before the first are sought.
_BEFORE = 8
_AXES = {"t": "time", "h": "row", "w": "column"}


@dataclass(frozen=True)
class _Seen:
    one: JudgedCall
    used: np.ndarray  #: (A, S)
    variables: Variables


def name_places(run: Run, calls: Sequence[JudgedCall]) -> bool:
    """Report the rules that give the place of every row; return whether there are such rules.

    The facts of a call are integer positions (A, S), or the height and the width of a grid. Every
    row must be one of the declared table, and the rules must predict all calls.
    """
    encoding = run.encoding
    columns = _columns(run)
    if columns is None:
        return False
    seen = []
    for one in calls:
        declared = _declared(run, one)
        if declared.dtype.kind != "i" or declared.shape[1] > _MOST:
            continue
        used = _decoded(run, one, declared, columns)
        if used is None:
            return False
        seen.append(_Seen(one, used, _variables(run, one, declared)))
    if not seen:  # normalised positions are no integers
        return False
    names = [f"the {_AXES.get(a, a)}" for a in getattr(encoding, "axes", "hw")]
    rules = {}
    for axis, name in enumerate(names[: len(columns)]):
        used = np.concatenate([s.used[axis] for s in seen])
        flat = {n: np.concatenate([s.variables[n] for s in seen]) for n in seen[0].variables}
        if np.array_equal(used, flat[name]):
            continue
        once = np.unique(np.stack([used, *flat.values()]), axis=1)
        rule = find_rule(once[0], dict(zip(flat, once[1:], strict=True)), name)
        if rule is None:
            return False
        rules[axis] = rule
    if not rules or not all(_follows(run, one, rules, names) for one in calls):
        return False
    said = [
        f"the {names[a].removeprefix('the ')} used is {rule.words}" for a, rule in rules.items()
    ]
    rights = [f"the {names[a].removeprefix('the ')} itself, not {r.text}" for a, r in rules.items()]
    first = next(s for s in seen if not np.array_equal(s.used, _declared(run, s.one)))
    at = int(np.flatnonzero((first.used != _declared(run, first.one)).any(axis=0))[0])
    places = [tuple(int(v) for v in p[:, at]) for p in (first.used, _declared(run, first.one))]
    run.add(
        "wrong-row",
        "; ".join(said),
        f"{first.one.case}, row {at}: place {places[0]}, declared {places[1]}",
        remedy=f"Use, for every row of the table, {'; and '.join(rights)}.",
    )
    return True


def _declared(run: Run, one: JudgedCall) -> np.ndarray:
    grid = isinstance(one.facts, tuple)
    return np.asarray(run.encoding.grid_positions(*one.facts) if grid else one.facts)


def _columns(run: Run) -> list[np.ndarray] | None:
    """Return the columns that each axis has for itself, or None if axes share columns."""
    axes = run.encoding.num_axes
    if axes < 2 or longest(run.encoding) <= 8:
        return None
    none = np.zeros((axes, 1), np.int64)
    try:
        base = rows_of(run, run.encoding, none).value
        moved = [rows_of(run, run.encoding, none + 7 * _unit(axes, a)).value for a in range(axes)]
    except (TypeError, ValueError):
        return None
    found = [np.flatnonzero((m != base)[0]) for m in moved]
    counted = np.bincount(np.concatenate(found), minlength=1)
    return found if counted.max() == 1 and all(c.size for c in found) else None


def _unit(axes: int, axis: int) -> np.ndarray:
    return np.asarray((np.arange(axes) == axis).astype(np.int64)[:, None])


def _decoded(
    run: Run, one: JudgedCall, declared: np.ndarray, columns: list[np.ndarray]
) -> np.ndarray | None:
    last = longest(run.encoding)
    # A formula gives rows before the first, too: those of an index that is 1 too small.
    at = np.arange(0 if last < 2**40 else -_BEFORE, min(_REACH, last))
    axes = len(columns)
    used = declared.copy()
    for axis, own in enumerate(columns):
        table = rows_of(run, run.encoding, at * _unit(axes, axis)).value[:, own]
        away = np.abs(one.actual[:, None, own] - table).max(axis=-1)
        nearest = at[np.argmin(away, axis=1)]
        right = np.abs(one.actual - one.truth.value)[:, own].max(axis=-1) <= away.min(axis=1)
        used[axis] = np.where(right, declared[axis], nearest)
    return used if fits(run, one, rows_of(run, run.encoding, used)) else None


def _variables(run: Run, one: JudgedCall, declared: np.ndarray) -> Variables:
    names = [f"the {_AXES.get(a, a)}" for a in getattr(run.encoding, "axes", "hw")]
    found = dict(zip(names, declared, strict=False))
    token = np.arange(declared.shape[1])
    found["the number of the patch"] = token
    if isinstance(one.facts, tuple):
        height, width = one.facts
        found |= {"the height": 0 * token + height, "the width": 0 * token + width}
        ends = {"the row": height, "the column": width}
        found |= {f"the number of {n.removeprefix('the ')}s after this one": ends[n] - 1 - found[n]
                  for n in ends if n in found}  # fmt: skip
    return found


def _follows(run: Run, one: JudgedCall, rules: dict[int, Rule], names: list[str]) -> bool:
    declared = _declared(run, one)
    if declared.dtype.kind != "i":
        return fits(run, one, one.truth)
    v = _variables(run, one, declared)
    used = np.stack(
        [rules[a].of(v) if a in rules else v[names[a]] for a in range(declared.shape[0])]
    )
    last = longest(run.encoding)
    if used.max(initial=0) >= last or (last < 2**40 and used.min(initial=0) < 0):
        return False
    return fits(run, one, rows_of(run, run.encoding, used))
