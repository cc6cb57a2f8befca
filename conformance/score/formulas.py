"""The formulas of scores, written in steps that a wrong implementation may compute differently."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posenc_ref import (
    TUPE,
    Bias,
    CoPE,
    DeBERTa,
    DecomposedRelative,
    ESPnetLegacy,
    GatedBias,
    LieRE,
    PaTH,
    PoPE,
    PRoPE,
    Score,
    SelectiveRoPE,
    Shaw,
    TransformerXL,
    XPos,
)
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.bias.formulas import step_changes as bias_changes
from posenc_ref.conformance.diagnosis.measured_constants import measured_constants
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.diagnosis.offset_sizes import Sizes
from posenc_ref.conformance.diagnosis.position_mistakes import WHOLE_POSITION, tiled
from posenc_ref.conformance.diagnosis.steps import Steps, changes, computed, plain_steps
from posenc_ref.conformance.oracle.scores import Scored

from . import camera_formula, liere_formula, offset_formulas, other_formulas, path_formulas
from .formula_parts import Terms

Formula = Callable[[Scored, Steps], Terms]


def formula_of(declared: Any) -> Formula | None:
    """Return the formula of the class of an encoding, or None if there is none here."""
    return next((of for form, of in _FORMS if isinstance(declared, form)), None)


def changed_steps(
    first: Scored,
    sizes: Sizes = Sizes(),  # noqa: B008 (immutable)
) -> Iterator[Mistake]:
    """Yield the mistake of every changed step; ``first`` is one of the judged calls.

    ``sizes`` are those of the bounds and tiles that offsets may have.
    """
    declared = first.encoding
    yield from _tiles(declared)
    if isinstance(declared, Bias):
        for code, message, remedy, values in bias_changes(declared, sizes):
            yield Mistake(code, message, _with_bias(values), remedy)
        return
    formula = formula_of(declared)
    if formula is None:
        return
    grid = getattr(declared, "grid", None)
    if isinstance(declared, DecomposedRelative) and grid is not None:
        sizes = Sizes(tuple(range(1, max(grid) - 1)), (2,))  # of offsets of rows and columns
    for code, message, remedy, change in changes(plain_steps(lambda s: formula(first, s), sizes)):
        yield Mistake(code, message, _predict(formula, change, sizes), remedy)


def changed_constants(first: Scored) -> list[Mistake]:
    """Return the mistake that one constant of the formula has another value."""
    formula = formula_of(first.encoding)
    if formula is None:
        return []
    plain = plain_steps(lambda s: formula(first, s))
    return [measured_constants(plain, lambda change: _predict(formula, change, Sizes()))]


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


def _predict(formula: Formula, change: Any, sizes: Sizes) -> Callable[[Scored], Truth]:
    def predict(call: Scored) -> Truth:
        declared = call.parts()
        terms = computed(lambda s: formula(call, s), change, sizes)
        whole: Any = sum(t.terms for t in declared.values())
        angle: Any = sum(t.angle for t in declared.values())
        value: Any = sum(terms.values())
        value = np.broadcast_to(value, np.broadcast_shapes(np.shape(value), np.shape(whole)))
        size: Any = sum(np.abs(t) for t in terms.values())
        return Truth(value, np.maximum(whole, size), np.broadcast_to(angle, value.shape))

    return predict


_FORMS: tuple[tuple[type, Formula], ...] = (
    (DeBERTa, offset_formulas.deberta),
    (Shaw, offset_formulas.shaw),
    (ESPnetLegacy, offset_formulas.espnet),
    (TransformerXL, offset_formulas.transformer_xl),
    (GatedBias, other_formulas.gated),
    (TUPE, other_formulas.tupe),
    (CoPE, other_formulas.cope),
    (DecomposedRelative, other_formulas.decomposed),
    (PoPE, other_formulas.pope),
    (LieRE, liere_formula.liere),
    (PaTH, path_formulas.path),
    (PRoPE, camera_formula.prope),
    (SelectiveRoPE, path_formulas.selective),
    (XPos, other_formulas.xpos),
)
