"""Calls of ``apply_qk`` in which every two of its sizes and forms of positions meet."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from posenc_ref import XPos
from posenc_ref.conformance.diagnosis.drive import Probe, drive, drive_crossed, reached
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.harness.crossing import Crossing, Row
from posenc_ref.conformance.harness.probes import AROUND, NEAR
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.calls import one_table

from .cases_qk import Side

#: Positions (B, S), the same for queries and keys.
FROM_0, PER_ROW = "from 0", "per row"
_TOKENS = (1, 2, 5, 17, 129)
#: Sizes and forms of positions; the function may refuse all but the first of the last four.
CROSSED = {
    "B": (1, 2, 3), "key heads": (1, 2, 3), "S": _TOKENS,
    "query heads per key head": (1, 2, 4), "more keys than queries": (0, 3),
    "positions": (FROM_0, "later", PER_ROW, "keys before queries"), "range": (NEAR,),
}  # fmt: skip
#: The most query tokens of all rows and heads of a call.
MOST = 400


def crossed(run: Run, ask: Callable[[Probe], Sequence[JudgedCall]]) -> list[JudgedCall]:
    """Judge the crossed calls; return their queries and keys in turn."""
    if run.settings.reduced or run.encoding.num_axes > 1:
        return []
    # A function that adds no axis of heads to (B, S) takes the rows for heads where there are as
    # many, or one. It refuses other numbers; so these are asked first.
    rows = dict(zip(CROSSED, (2, 3, 5, 1, 0, PER_ROW, NEAR), strict=True))
    first = _probe(run, rows)
    seen = (drive(run, [first], ask) or []) if first is not None else []
    forms = tuple(form for form in CROSSED["positions"] if seen or form != PER_ROW)
    tokens, known = max(_TOKENS), AROUND[:1] if isinstance(run.encoding, XPos) else AROUND[:-1]
    far: Sequence[int] = [n for n in known if run.settings.allows(n + tokens)]  # see cases_qk
    most = (1, 1, tokens, 1, 0, "later")
    last = lambda n: _call(run, dict(zip(CROSSED, (*most, n), strict=True)))  # noqa: E731
    far = reached(run, far, last, ask)
    levels = CROSSED | {"positions": forms, "range": (NEAR, *far)}
    crossing = Crossing(levels, _allowed, run.settings.seed, tuple(CROSSED)[3:])
    return seen + drive_crossed(run, crossing, lambda row: _probe(run, row), ask)


def _allowed(row: Row) -> bool:
    """Return whether a call, or a part of one, is small enough, and not far from 0 if from 0."""
    if row.get("positions") == FROM_0 and row.get("range", NEAR) != NEAR:
        return False
    names = ("B", "key heads", "S", "query heads per key head")
    return int(math.prod(row.get(name, 1) for name in names)) <= MOST


def _probe(run: Run, row: Row) -> Probe | None:
    """Return the call of a row, or None if its lengths have different frequencies."""
    one = _call(run, row)
    ends = [int(side.positions.max()) + 1 for side in one.facts]
    return one if run.settings.allows(max(ends)) and one_table(run.encoding, ends) else None


def _call(run: Run, row: Row) -> Probe:
    b, heads, s, group, more, form, around = row.values()
    q_at, k_at = more + np.arange(s), np.arange(s + more)
    first = 37 if around == NEAR else around - s // 2
    if form == "later" or around != NEAR:
        q_at, k_at = q_at + first, k_at + first
    if form == PER_ROW:
        far = around // 3 if around != NEAR else 0
        starts = ((3 + 11 * np.arange(b)) - far * (np.arange(b) % 3))[:, None]
        q_at, k_at = starts + q_at, starts + k_at
    elif form == "keys before queries":
        q_at = q_at + 6
    ends = [int(q_at.max()) + 1, int(k_at.max()) + 1]
    sides, dim = [], run.encoding.head_dim
    for h, at, others, keys in ((heads * group, q_at, k_at, False), (heads, k_at, q_at, True)):
        x = run.random((b, h, at.shape[-1], dim), 7 * h + at.shape[-1])
        sides.append(Side(run.encoding, x, at, others, keys=keys, length=max(ends), group=group))
    case = f"B, H, S = {(b, heads * group, s)}, {heads} key heads, {s + more} keys, {form}"
    case += "" if around == NEAR else f" around {around}"
    return Probe("pairs", case, tuple(sides), False)
