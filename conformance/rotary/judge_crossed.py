"""Judge calls in which every two of B, H, S, positions, their range and the memory layout meet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc_ref.conformance.harness.crossing import Crossing, Row, cross
from posenc_ref.conformance.harness.probes import AROUND, NEAR, PER_ROW
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth

#: Batch rows, heads and tokens: one and more, and around multiples of 4, 8, 16, 32, 64 and 128.
SIZES = {"B": (1, 2, 5), "H": (1, 2, 3, 9, 17), "S": (1, 2, 3, 8, 17, 33, 64, 127, 129)}
#: How x lies in memory.
MEMORY = ("contiguous", "transposed", "sliced")
#: The form of positions that every function accepts.
FROM_0 = "from 0"
#: The most tokens of all rows and heads of a call.
MOST = 400
#: Libraries whose arrays are views, and that need no compilation for each shape.
_VIEWS = ("numpy", "torch", "cupy")
#: The case that shows that unsorted positions are refused.
UNSORTED = "repeated, unsorted positions"


def judge(run: Run, access: Access, dim: int, longest: int, refused: set[str], quick: bool) -> None:
    """Judge the crossed calls.

    ``longest`` is the largest accepted number of tokens, or 0 if none is known to be refused;
    ``refused`` are the optional cases that were refused before. If calls at far positions are not
    ``quick``, the farthest ones are not made.
    """
    settled = run.settings.few or run.report.surface != "apply"
    if settled or run.driver.backend_name not in _VIEWS:
        return
    if run.driver.axes > 1 and (access.mode != "any" or longest or {PER_ROW, UNSORTED} & refused):
        return  # it accepts some grids only
    highest = access.reach(max(2 * SIZES["S"][-1], run.ledger.highest))
    forms = [FROM_0]
    if access.mode in ("any", "contiguous"):
        forms.append("later")
    if access.mode == "any" and PER_ROW not in refused:
        forms.append("per row")
    if access.mode == "any" and UNSORTED not in refused:
        forms.append("unsorted")
    far = AROUND if quick else AROUND[:-1]
    tokens = [n for n in SIZES["S"] if n <= min(longest or n, highest + 1)]
    levels: dict[str, Sequence[Any]] = {**SIZES} | {
        "S": tokens,
        "positions": forms,
        "range": (NEAR, *(n for n in far if n <= highest + 1 and len(forms) > 1)),
        "memory": MEMORY,
    }
    crossing = Crossing(levels, _allowed, run.settings.seed, ("positions", "range", "memory"))
    cross(run, crossing, lambda row: _judge(run, dim, row, highest), _said)


def crossed_rows(case: str) -> bool:
    """Return whether a case is a crossed call in which each row has positions of its own."""
    return "positions per row" in case


def crossed_apart(case: str) -> bool:
    """Return whether a case is a crossed call whose positions differ on the axes, if several."""
    return ", positions " in case and f", positions {FROM_0}" not in case


def _allowed(row: Row) -> bool:
    """Return whether a call, or a part of one, is small enough and has the memory layout.

    Transposing axes of which one has size 1 leaves x contiguous; so does slicing a single row.
    """
    if row.get("positions") == FROM_0 and row.get("range", NEAR) != NEAR:
        return False
    small = int(math.prod(row.get(name, 1) for name in SIZES)) <= MOST
    b, h, s = (row.get(name, 2) for name in SIZES)
    if row.get("memory") == "transposed":
        return small and h > 1 and s > 1
    return small and (row.get("memory") != "sliced" or b * h * s > 1)


def _said(row: Row) -> str:
    memory = "" if row["memory"] == "contiguous" else f", x {row['memory']}"
    size = f"B, H, S = {(row['B'], row['H'], row['S'])}"
    around = "" if row["range"] == NEAR else f" around {row['range']}"
    return f"{size}, positions {row['positions']}{around}{memory}"


def _judge(run: Run, dim: int, row: Row, highest: int) -> bool:
    size = (row["B"], row["H"], row["S"])
    x, positions = run.random((*size, dim), sum(size)), _positions(row, highest)
    if run.driver.axes > 1 and row["positions"] != FROM_0:
        wide = np.broadcast_to(positions, (row["B"], row["S"]))
        axes = np.arange(run.driver.axes)[:, None, None]
        positions = np.maximum(wide - axes * (3 + wide // 5), 0)  # float32 angles tell these apart
    y = run.driver.apply(x, positions, row["memory"])
    truth = apply_truth(run.encoding, x, positions)
    return run.judge("optional inputs", _said(row), y, truth)


def _positions(row: Row, highest: int) -> np.ndarray:
    """Return the positions of a call, none above ``highest``."""
    b, s, form, around = row["B"], row["S"], row["positions"], row["range"]
    at = np.arange(s)
    if around != NEAR:
        last = min(around + s // 2, highest)
        if form == "unsorted":
            return np.asarray(last - np.random.default_rng(s).permutation(2 * s + 5)[:s])
        # Of several rows, one is around this position, others are at two and one thirds of it.
        down = np.arange(b)[:: 1 if s % 2 else -1] % 3 if form == "per row" else np.zeros(1, int)
        positions = last - down[:, None] * (around // 3) - at[::-1]
        return np.asarray(positions if form == "per row" else positions[0])
    if form == "later":
        return np.asarray(at + min(37, highest + 1 - s))
    if form == "per row":
        start = (3 + 11 * np.arange(b)) % (highest + 2 - s)
        return np.asarray(start[:, None] + at)
    if form == "unsorted":
        return np.asarray(np.random.default_rng(s).permutation(min(2 * s + 5, highest + 1))[:s])
    return at
