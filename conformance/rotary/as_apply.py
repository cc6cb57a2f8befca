"""Adapt other surfaces to ``apply`` or ``table``, so that they share one judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref.conformance.harness.located.record import Evidence
from posenc_ref.conformance.harness.report import Finding
from posenc_ref.conformance.harness.run import Run

from . import judge as judge_apply


class Inexpressible(ValueError):
    """The surface cannot express these arguments, so the function was not called."""


@contextmanager
def seen_as(run: Run, view: Callable[..., Any], encoding: Any, recipe: str) -> Iterator[Run]:
    """Yield a run that judges ``view``, the function adapted to another surface.

    A call that the surface cannot express adds no limit to the report. ``recipe`` is ``view`` as a
    Python expression of ``fn``, for the code that reproduces a failure.
    """
    driver, required = run.driver, run.report.required
    axes = encoding.num_axes if isinstance(encoding, Rotary) else 1
    viewed = replace(
        driver,
        fn=view,
        keeps_dtype=True,
        axes=axes,
        mutated=None,
        factory=None,
        made=None,
        view=True,
    )
    ledger, outer = run.ledger, run.ledger.evidence
    ledger.evidence = Evidence()  # the calls of the view are not those of the function
    try:
        yield replace(run, driver=viewed, encoding=encoding)
    finally:
        driver.mutated = driver.mutated or viewed.mutated
        driver.calls = viewed.calls
        if any(record.failed for record in outer.records):
            ledger.evidence, ledger.ask, ledger.place = outer, None, None
        run.report.required = tuple(dict.fromkeys([*required, *run.report.required]))
        run.report.findings[:] = [_recalled(f, encoding, recipe) for f in run.report.findings]
        own = Inexpressible.__name__
        run.report.limits[:] = [text for text in run.report.limits if own not in text]


def judge_as_apply(run: Run, view: Callable[..., Any], encoding: Rotary, recipe: str) -> None:
    """Judge ``view(x, positions)`` against ``encoding`` as an ``apply`` function."""
    with seen_as(run, view, encoding, recipe) as viewed:
        judge_apply.judge(viewed)


def _recalled(finding: Finding, encoding: Any, recipe: str) -> Finding:
    """Return the finding with code that reproduces the failure through ``recipe``."""
    if "got = fn(" not in finding.reproduce:
        return finding
    first, *rest = finding.reproduce.replace("got = fn(", "got = apply(").splitlines()
    return replace(finding, reproduce="\n".join([first, f"apply = {recipe}", *rest]))


def host_positions(run: Run, positions: Any) -> np.ndarray:
    """Return the positions passed to a view, in NumPy; raise Inexpressible unless integers."""
    p = np.asarray(run.driver.backend.asnumpy(positions))
    if p.dtype.kind not in "iu":
        raise Inexpressible("positions must be integers on this surface")
    return p


def starts(positions: np.ndarray) -> np.ndarray:
    """Return the first position of each row of contiguous positions (S,) or (B, S)."""
    if positions.shape[-1] == 0 or (np.diff(positions, axis=-1) != 1).any():
        raise Inexpressible("only contiguous positions can be expressed")
    return np.asarray(positions[..., 0])
