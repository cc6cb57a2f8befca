"""Mistakes in logits, predicted as a sum of changed parts; each part may have a fitted factor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.scores import Parts, Scored

from . import factors


def changed(code: str, message: str, parts: Callable[[Scored], Parts], remedy: str = "") -> Mistake:
    """Return the mistake of summing ``parts`` in place of the declared parts."""

    def predicts(by: dict[str, float]) -> Callable[[Scored], Truth | None]:
        def predict(call: Scored) -> Truth | None:
            try:
                return call.total(parts(call), by)
            except ValueError:  # positions outside the table
                return None

        return predict

    def fit(run: Run, wrong: Sequence[JudgedCall]) -> list[Mistake]:
        one = factors.to_fit(wrong)
        try:
            by = factors.fitted(one, parts(one.facts))
        except ValueError:
            return []
        named = [
            Mistake(name, text, predicts(by), values=values)
            for name, text, values in (factors.named(run, by, wrong[0].facts) if by else ())
        ]
        return [Mistake(code, message, predicts(by), remedy)] * bool(code) + named

    return Mistake(code, message, predicts({}), remedy, fit=fit)


def other(code: str, message: str, encoding: Any) -> Mistake:
    """Return the mistake of using ``encoding`` in place of the declared one."""
    return changed(code, message, lambda call: call.replace(encoding=encoding).parts())
