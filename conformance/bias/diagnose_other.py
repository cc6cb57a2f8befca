"""Why a bias is not the declared one, for every family but ALiBi and T5: by substitution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posenc_ref.accuracy import ROUNDOFF, Truth
from posenc_ref.conformance.harness.run import Run

from .cases import BiasCase
from .mistakes import BiasChange, bias_changes


def diagnose_other(run: Run, cases: Sequence[BiasCase]) -> None:
    """File the first change that meets the biases of every length; else with one factor."""
    every = list(bias_changes(run.encoding))
    long = max(cases, key=lambda case: case.q_len * case.k_len)
    if long.up_to_constant and all(_meets(run, every[0], 1.0, case) for case in cases):
        large_constants(run, [(case.name, case.own) for case in cases])
        return
    for fitted in (False, True):
        for change in every:
            factor = _fitted(change, long) if fitted else 1.0
            if not change.code and not fitted:
                continue
            if all(_meets(run, change, factor, case) for case in cases):
                _report(run, change, factor, long)
                return


def large_constants(run: Run, rows: Sequence[tuple[str, np.ndarray]]) -> None:
    """Say that nothing is wrong but what softmax does not see, the values at the own keys."""
    where, size = max(((name, float(np.abs(own).max())) for name, own in rows), key=lambda p: p[1])
    run.add(
        "inaccurate",
        f"rows have constants of up to {size:.3g}: softmax does not see them, but the bias is "
        "rounded beside them",
        f"{where}, at the queries' own keys",
        remedy="Take the constant off before the bias is rounded: at the query's own key it is 0.",
        values={"measured": size},
    )


def _truth(change: BiasChange, factor: float, case: BiasCase) -> Truth:
    truth = change.truth(case.rows, np.arange(case.k_len))
    value, terms = factor * truth.value, abs(factor) * truth.terms
    if case.up_to_constant:
        own = np.arange(case.q_len), case.rows
        value = value - value[:, own[0], own[1]][..., None]
        terms = terms + np.abs(case.own)
    return Truth(value, terms, abs(factor) * truth.angle)


def _meets(run: Run, change: BiasChange, factor: float, case: BiasCase) -> bool:
    score = run.scores(case.moved, _truth(change, factor, case))
    return bool((np.where(case.judged, score, 0.0) <= run.budget).all())


def _fitted(change: BiasChange, case: BiasCase) -> float:
    """The factor of the bias, by least squares."""
    value = _truth(change, 1.0, case).value[:, case.judged]
    actual = case.moved[:, case.judged]
    bottom = float((value * value).sum())
    return float((value * actual).sum()) / bottom if bottom else 1.0


def _report(run: Run, change: BiasChange, factor: float, case: BiasCase) -> None:
    evidence = f"{case.name}; with this put into the declaration, all biases agree"
    if change.code:
        run.add(change.code, change.message, evidence)
    slack = run.budget * ROUNDOFF[run.coarse]
    if abs(factor - 1.0) <= slack:
        return
    code, text = "bias-scale", f"the bias is multiplied by {factor:.6g}"
    if abs(factor + 1.0) <= slack:
        code, text = "bias-sign", "the bias has the opposite sign"
    elif abs(factor) <= slack:
        code, text = "bias-missing", "the bias is missing"
    run.add(code, text, evidence, values={"declared": 1.0, "measured": factor})
