"""Judge calls in which every two of B, H, S, the form of positions and the memory layout meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc_ref.conformance.harness.crossing import Crossing, Row, cross
from posenc_ref.conformance.harness.probes import PER_ROW
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth

#: Batch rows, heads and tokens: one and more, and around multiples of 4, 8, 16, 32, 64 and 128.
SIZES = {"B": (1, 2, 5), "H": (1, 2, 3, 9, 17), "S": (1, 2, 3, 8, 17, 33, 64, 127, 129)}
#: How x lies in memory.
MEMORY = ("contiguous", "transposed", "sliced")
#: The most tokens of all rows and heads of a call.
MOST = 400
#: Libraries whose arrays are views, and that need no compilation for each shape.
_VIEWS = ("numpy", "torch", "cupy")
#: The case that shows that unsorted positions are refused.
UNSORTED = "repeated, unsorted positions"


def judge(run: Run, access: Access, dim: int, longest: int, refused: set[str]) -> None:
    """Judge the crossed calls.

    ``longest`` is the largest accepted number of tokens, or 0 if none is known to be refused;
    ``refused`` are the optional cases that were refused before.
    """
    settled = run.settings.few or run.driver.axes > 1 or run.report.surface != "apply"
    if settled or run.driver.backend_name not in _VIEWS:
        return
    highest = access.reach(2 * SIZES["S"][-1])
    forms = ["from 0"]
    if access.mode in ("any", "contiguous"):
        forms.append("later")
    if access.mode == "any" and PER_ROW not in refused:
        forms.append("per row")
    if access.mode == "any" and UNSORTED not in refused:
        forms.append("unsorted")
    tokens = [n for n in SIZES["S"] if n <= min(longest or n, highest + 1)]
    levels: dict[str, Sequence[Any]] = {**SIZES} | {
        "S": tokens,
        "positions": forms,
        "memory": MEMORY,
    }
    crossing = Crossing(levels, _allowed, run.settings.seed, ("positions", "memory"))
    cross(run, crossing, lambda row: _judge(run, dim, row, highest), _said)


def crossed_rows(case: str) -> bool:
    """Return whether a case is a crossed call in which each row has positions of its own."""
    return "positions per row" in case


def _allowed(row: Row) -> bool:
    """Return whether a call, or a part of one, is small enough and has the memory layout.

    Transposing axes of which one has size 1 leaves x contiguous; so does slicing a single row.
    """
    small = int(np.prod([row.get(name, 1) for name in SIZES])) <= MOST
    b, h, s = (row.get(name, 2) for name in SIZES)
    if row.get("memory") == "transposed":
        return small and h > 1 and s > 1
    return small and (row.get("memory") != "sliced" or b * h * s > 1)


def _said(row: Row) -> str:
    memory = "" if row["memory"] == "contiguous" else f", x {row['memory']}"
    return f"B, H, S = {(row['B'], row['H'], row['S'])}, positions {row['positions']}{memory}"


def _judge(run: Run, dim: int, row: Row, highest: int) -> bool:
    size = (row["B"], row["H"], row["S"])
    x, positions = run.random((*size, dim), sum(size)), _positions(row, highest)
    y = run.driver.apply(x, positions, row["memory"])
    truth = apply_truth(run.encoding, x, positions)
    return run.judge("optional inputs", _said(row), y, truth)


def _positions(row: Row, highest: int) -> np.ndarray:
    """Return the positions of a call, none above ``highest``."""
    b, s, form = row["B"], row["S"], row["positions"]
    at = np.arange(s)
    if form == "later":
        return np.asarray(at + min(37, highest + 1 - s))
    if form == "per row":
        start = (3 + 11 * np.arange(b)) % (highest + 2 - s)
        return np.asarray(start[:, None] + at)
    if form == "unsorted":
        return np.asarray(np.random.default_rng(s).permutation(min(2 * s + 5, highest + 1))[:s])
    return at
