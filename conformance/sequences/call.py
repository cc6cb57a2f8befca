"""Call the judged function ``fn(x, ...)``, and judge a repetition of its first call."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, each_part
from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.driver import Malformed
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.rotary.as_apply import host_positions, starts


def called(run: Run, highest: int, x: np.ndarray, *others: Any) -> np.ndarray:
    """Return ``y = fn(x, *others)``; raise Malformed if y and x differ in shape.

    ``highest`` is the highest position of the call.
    """
    y = run.driver.array(run.driver.call(x, *others))
    if y.shape != x.shape:
        raise Malformed(f"expected shape {x.shape}, as {run.driver.names[0]} has, got {y.shape}")
    run.reached(highest)
    return y


def first_positions(run: Run, positions: Any) -> np.ndarray:
    """Return the first position of each row; raise Inexpressible unless each row is contiguous."""
    return starts(host_positions(run, positions))


def judge_repetition(run: Run, first: JudgedCall, *others: Any) -> None:
    """Judge a repetition of ``fn(x, *others)``: it must return the result of the first call.

    Also judge that a call with another x does not overwrite a result returned before.
    """
    x = first.facts.x
    state.replay(
        run, lambda: called(run, 0, x, *others), first.actual, first.case, first.truth.value
    )
    state.kept_result(
        run, lambda: run.driver.call(x, *others), lambda: run.driver.call(-x, *others)
    )


def scaled(truth: Truth, size: float) -> Truth:
    """Return ``truth`` with the rotated channels multiplied by ``size``."""
    each = np.where(truth.terms > 0, size, 1.0)
    return each_part(truth, lambda part: part * each)
