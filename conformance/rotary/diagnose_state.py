"""Diagnose state: a call is wrong now, but right on a fresh instance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.probes import GENERIC, WINDOWS
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth

from .judge_length import lengths_of, positions_of


def diagnose(run: Run, access: Access) -> bool:
    """Report a call that is right only on a fresh instance; return whether there is one.

    Without a factory of fresh instances, nothing is reported.
    """
    if run.driver.factory is None or access.mode == "prefix":
        return False
    highest = access.reach(int(GENERIC[-1]))
    calls = [GENERIC[highest >= GENERIC]]
    calls += [np.arange(n, n + 9) for n in WINDOWS if n + 8 <= highest]  # windows of equal length
    if run.encoding.depends_on_length:
        calls += [positions_of(n) for n in lengths_of(run.encoding) if n - 1 <= highest]
    for positions in calls:
        if not positions.size or _right(run, access, positions):
            continue
        fresh = replace(run, driver=run.driver.fresh())
        if _right(fresh, replace(access, run=fresh), positions):
            run.add(
                "state",
                "the same call is right on a fresh instance, and wrong after other calls",
                f"{positions.size} tokens at positions up to {positions.max()}, first on a fresh "
                "instance, then after the others",
                by=None,
            )
            return True
    return False


def _right(run: Run, access: Access, positions: np.ndarray) -> bool:
    x = run.random((1, 2, positions.size, access.dim), 21)
    truth = apply_truth(run.encoding, x, positions, access.lengths(positions))
    try:
        y = access.rows(x, positions)
    except (Refused, Malformed):
        return False
    return run.fits(y, truth)
