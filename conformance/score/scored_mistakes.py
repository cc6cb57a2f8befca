"""A mistake in logits made of ``q . k`` and a bias; two factors can be fitted besides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.scores import Scored

from . import factors


def changed(
    code: str,
    message: str,
    change: Callable[[Scored], Scored | None] = lambda call: call,
    bias: Callable[[Scored], Truth] = lambda call: call.bias(),
    remedy: str = "",
) -> Mistake:
    """Return the mistake of another call, or of another bias in it."""

    def predicts(dot: float, by: float) -> Callable[[Scored], Truth | None]:
        def predict(call: Scored) -> Truth | None:
            try:
                other = change(call)
                return None if other is None else other.sum(dot, by, bias(other), call)
            except ValueError:  # positions that a table does not have
                return None

        return predict

    def fit(run: Run, wrong: Sequence[JudgedCall]) -> list[Mistake]:
        one = factors.to_fit(wrong)
        product, added = predicts(1.0, 0.0)(one.facts), predicts(0.0, 1.0)(one.facts)
        if product is None or added is None:
            return []
        found = factors.fitted(one, [product, added] if added.value.any() else [product])
        if not found:
            return []
        (dot, by), call = (*found, 1.0)[:2], wrong[0].facts
        named = chain(
            factors.of_bias(run, by, call.q.shape[-1]), factors.of_product(run, dot, call)
        )
        predict = predicts(dot, by)
        told = [Mistake(name, text, predict, values=values) for name, text, values in named]
        return [Mistake(code, message, predict, remedy), *told] if code else told

    return Mistake(code, message, predicts(1.0, 1.0), remedy, fit=fit)
