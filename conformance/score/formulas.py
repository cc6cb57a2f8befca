"""The formulas of scores, written in steps that a wrong implementation may compute differently."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posenc_ref import Bias, Score
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.bias.formulas import step_changes as bias_changes
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.diagnosis.position_mistakes import WHOLE_POSITION, tiled
from posenc_ref.conformance.diagnosis.steps import changes, computed, plain_steps
from posenc_ref.conformance.oracle.scores import Scored

from .registered import Formula, formula_of


def changed_steps(first: Scored) -> Iterator[Mistake]:
    """Yield the mistake of every changed step; ``first`` is one of the judged calls."""
    declared = first.encoding
    yield from _tiles(declared)
    if isinstance(declared, Bias):
        for code, message, remedy, values in bias_changes(declared):
            yield Mistake(code, message, _with_bias(values), remedy)
        return
    formula = formula_of(declared)
    if formula is None:
        return
    for code, message, remedy, change in changes(plain_steps(lambda s: formula(first, s))):
        yield Mistake(code, message, _predict(formula, change), remedy)


def _tiles(declared: Any) -> Iterator[Mistake]:
    """Yield logits at positions that tiles of a kernel make."""
    code = "bias-alignment" if isinstance(declared, Bias | Score) else "decode-offset"
    for what, of_queries in (("keys", False), ("queries", True)):
        for text, place in tiled(what):

            def predict(
                call: Scored, place: Any = place, of_queries: bool = of_queries
            ) -> Truth | None:
                q_at, k_at = call.positions
                q_at, k_at = (place(q_at), k_at) if of_queries else (q_at, place(k_at))
                try:
                    return call.replace(q_at=q_at, k_at=k_at).truth()
                except ValueError:  # positions outside the table
                    return None

            yield Mistake(code, text, predict, WHOLE_POSITION)


def _with_bias(values: Callable[..., Truth]) -> Callable[[Scored], Truth]:
    return lambda call: call.total(call.parts() | {"bias": call.added(values(*call.positions))}, {})


def _predict(formula: Formula, change: Any) -> Callable[[Scored], Truth]:
    def predict(call: Scored) -> Truth:
        declared = call.parts()
        terms = computed(lambda s: formula(call, s), change)
        whole: Any = sum(t.terms for t in declared.values())
        angle: Any = sum(t.angle for t in declared.values())
        value: Any = sum(terms.values())
        value = np.broadcast_to(value, np.broadcast_shapes(np.shape(value), np.shape(whole)))
        size: Any = sum(np.abs(t) for t in terms.values())
        return Truth(value, np.maximum(whole, size), np.broadcast_to(angle, value.shape))

    return predict
