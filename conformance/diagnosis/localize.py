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
    maps = [np.array((run.scores(w.actual, w.truth) > run.budget).any(axis=-1)) for w in wrong]
    axes = {"row-offset": ("rows", 0), "position-axis": ("heads", 1), "wrong-row": ("tokens", 2)}
    for code, (what, axis) in axes.items():
        lines = [np.moveaxis(m, axis, 0).reshape(m.shape[axis], -1).any(axis=1) for m in maps]
        if all(line.any() and not line.all() for line in lines if line.size > 1) and any(
            line.size > 1 for line in lines
        ):
            line = next(line for line in lines if line.size > 1)
            at = np.flatnonzero(line).tolist()
            run.add(code, f"only some {what} are wrong: {at[:6]} of {line.size}", wrong[0].case)
            return
    run.add(otherwise, message, f"{len(wrong)} of {len(seen)} calls, {wrong[0].case} first")
