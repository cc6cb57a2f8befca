"""Diagnose biases other than ALiBi and T5 by substitution of known mistakes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from posenc_ref.accuracy import ROUNDOFF, Truth
from posenc_ref.conformance.diagnosis.match import fits, match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.harness.run import Run

from .cases import BiasCase
from .mistakes import bias_mistakes


def diagnose_other(run: Run, cases: Sequence[BiasCase]) -> None:
    """Report the first mistake that explains all calls, if necessary with a fitted factor."""
    declared, *others = (_of_cases(mistake) for mistake in bias_mistakes(run.encoding))
    calls = []
    for case in cases:
        truth = declared.predict(case)
        assert truth is not None
        calls.append(JudgedCall(case.name, case.moved, truth, case, case.judged))
    if cases[0].up_to_constant and all(fits(run, one, one.truth) for one in calls):
        large_constants(run, [(case.name, case.own) for case in cases])
        return
    match(run, calls, [declared, *others])


def large_constants(run: Run, rows: Sequence[tuple[str, np.ndarray]]) -> None:
    """Report rows that are correct except for large constants, which cancel in softmax."""
    where, size = max(((name, float(np.abs(own).max())) for name, own in rows), key=lambda p: p[1])
    run.add(
        "inaccurate",
        f"rows have constants of up to {size:.3g}: softmax does not see them, but the bias is "
        "rounded beside them",
        f"{where}, at the queries' own keys",
        remedy="Take the constant off before the bias is rounded: at the query's own key it is 0.",
        values={"measured": size},
    )


def _of_cases(mistake: Mistake) -> Mistake:
    """Return the mistake with a prediction for a ``BiasCase``, to which a factor can be fitted."""

    def predicts(factor: float) -> Callable[[BiasCase], Truth | None]:
        def predict(case: BiasCase) -> Truth | None:
            truth = mistake.predict((case.rows, np.arange(case.k_len)))
            assert truth is not None
            value, terms = factor * truth.value, abs(factor) * truth.terms
            if case.up_to_constant:
                value = value - value[:, np.arange(case.q_len), case.rows][..., None]
                terms = terms + np.abs(case.own)
            return Truth(value, terms, abs(factor) * truth.angle)

        return predict

    def fit(run: Run, wrong: Sequence[JudgedCall]) -> list[Mistake]:
        one = max(wrong, key=lambda call: call.actual.size)
        predicted = predicts(1.0)(one.facts)
        assert predicted is not None
        value, actual = predicted.value[:, one.mask], one.actual[:, one.mask]
        bottom = float((value * value).sum())
        factor = float((value * actual).sum()) / bottom if bottom else 1.0
        named = replace(mistake, predict=predicts(factor))
        return [named] * bool(mistake.code) + [
            replace(named, code=code, message=text, values={"declared": 1.0, "measured": factor})
            for code, text in _factor(run, factor)
        ]

    return replace(mistake, predict=predicts(1.0), fit=fit)


def _factor(run: Run, factor: float) -> list[tuple[str, str]]:
    slack = run.budget * ROUNDOFF[run.coarse]
    if abs(factor - 1.0) <= slack:
        return []
    if abs(factor + 1.0) <= slack:
        return [("bias-sign", "the bias has the opposite sign")]
    if abs(factor) <= slack:
        return [("bias-missing", "the bias is missing")]
    return [("bias-scale", f"the bias is multiplied by {factor:.6g}")]
