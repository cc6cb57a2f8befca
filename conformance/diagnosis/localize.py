"""Report which rows, heads and tokens are wrong if no known mistake explains the calls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posenc_ref.conformance.harness.run import Run

from .match import failed
from .mistake import JudgedCall


def name_pattern(run: Run, seen: Sequence[JudgedCall], otherwise: str, message: str) -> None:
    """Report which rows, heads or tokens are wrong; if all are, report the code ``otherwise``."""
    wrong = failed(run, seen)
    if not wrong:
        return
    found = some_lines(run, wrong)
    if found is not None:
        code, what, line = found
        at = np.flatnonzero(line).tolist()
        run.add(code, f"only some {what} are wrong: {at[:6]} of {line.size}", wrong[0].case)
        return
    run.add(otherwise, message, f"{len(wrong)} of {len(seen)} calls, {wrong[0].case} first")


def some_lines(run: Run, wrong: Sequence[JudgedCall]) -> tuple[str, str, np.ndarray] | None:
    """Return the axis of which only some lines are wrong: its code, its name, and which lines."""
    maps = [np.array((run.scores(w.actual, w.truth) > run.budget).any(axis=-1)) for w in wrong]
    axes = {"row-offset": ("rows", 0), "position-axis": ("heads", 1), "wrong-row": ("tokens", 2)}
    for code, (what, axis) in axes.items():
        flat = [np.moveaxis(m, axis, 0).reshape(m.shape[axis], -1) for m in maps]
        lines = [np.asarray(m.any(axis=1)) for m in flat]
        if all(line.any() and not line.all() for line in lines if line.size > 1) and any(
            line.size > 1 for line in lines
        ):
            return code, what, next(line for line in lines if line.size > 1)
    return None
