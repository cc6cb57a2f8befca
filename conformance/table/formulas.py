"""The formulas of tables, written in steps that a wrong implementation may compute differently."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import (
    AxialLearned,
    BoxSine,
    DETRSine,
    FourierFeatures,
    Hybrid,
    Learned,
    Sinusoidal,
    Sinusoidal2D,
    Sinusoidal3D,
    StandardizedSinusoidal,
    Table,
    Time2Vec,
)
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.measured_constants import measured_constants
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.diagnosis.steps import (
    Change,
    Steps,
    changes,
    computed,
    plain_steps,
)
from posenc_ref.conformance.diagnosis.whole_values import HALVES, MIXED, OF_ROWS, whole_values
from posenc_ref.conformance.harness.run import Run

from . import other_formulas, wave_formulas
from .remedies import of_step
from .resized import resized_otherwise

#: Tables with learned rows, which results must equal to the last bit.
_LEARNED = (AxialLearned, Hybrid, Learned)
#: Returns rows (S, dim), given the table, positions (S,) or (A, S), or a grid (h, w), and steps.
Formula = Callable[[Any, Any, Steps], np.ndarray]


def formula_of(declared: Any) -> Formula | None:
    """Return the formula of the class of a table, or None if there is none here."""
    found = next((of for form, of in _FORMS if isinstance(declared, form)), None)
    if found is None or found in _OF_GRIDS:
        return found

    def at_positions(e: Any, at: Any, s: Steps) -> np.ndarray:
        return found(e, e.grid_positions(*at) if isinstance(at, tuple) else at, s)

    return at_positions


def changed_steps(run: Run, first: Any) -> Iterator[Mistake]:
    """Yield the mistake of every changed step; ``first`` are the arguments of a judged call.

    They are positions, or the height and the width of a grid.
    """
    declared: Table = run.encoding
    formula = formula_of(declared)
    if formula is not None:
        yield from _of(run, formula, first)
    if formula is wave_formulas.of_axes:
        yield from _of(run, partial(formula, alike=True), first)

    if isinstance(declared, Learned):
        yield from resized_rows(declared)
    if isinstance(declared, AxialLearned):
        yield from _resized_axes(declared)

    def truth(at: Any) -> Truth:
        places = declared.grid_positions(*at) if isinstance(at, tuple) else at
        return declared.truth(np.asarray(places))

    if isinstance(first, tuple):
        yield from _after_class_token(truth)
    ordered = hasattr(declared, "first")
    functions = tuple(row for row in OF_ROWS if not (ordered and row[0] == HALVES))
    yield from whole_values(truth, "the table", "amplitude", functions)
    yield from whole_values(truth, "the table", "layout", MIXED)


def _after_class_token(truth: Callable[[Any], Truth]) -> Iterator[Mistake]:
    """Yield grids with rows of a class token in front, cut to the number of patches."""
    right = (
        "Return the rows of the patches alone, or one row more: the class token's is no patch's."
    )
    for kept, words in ((0.0, "0"), (1.0, "that of the first patch")):

        def predict(at: Any, kept: float = kept) -> Truth:
            own = truth(at)
            parts = (own.value, kept), (own.terms, 1.0), (own.angle, kept)
            moved = (np.concatenate([part[:1] * by, part[:-1]]) for part, by in parts)
            return Truth(*moved)

        text = f"row 0 is {words}, and every patch has the row of the patch before it: a row of a "
        text += "class token comes first, and the last patch is cut off"
        yield Mistake("wrong-row", text, predict, right)


def resized_rows(declared: Learned) -> Iterator[Mistake]:
    """Yield the rows of a table that was resized in another way."""
    for one in resized_otherwise(np.asarray(declared.weight)):
        rows, terms = (declared.replace(weight=a) for a in (one.rows, one.terms))

        def predict(at: Any, rows: Learned = rows, terms: Learned = terms) -> Truth:
            truth = rows.truth(np.asarray(at))
            return Truth(truth.value, terms.truth(np.asarray(at)).value, truth.angle)

        yield Mistake("wrong-row", f"the table is {one.words}", predict, one.remedy)


def _resized_axes(declared: AxialLearned) -> Iterator[Mistake]:
    """Yield the rows of axis tables that were resized in another way, all or one of them."""
    tables = [np.asarray(t, np.float64) for t in declared.tables]
    found = [
        {one.way: one for one in resized_otherwise(t, (0,), (len(t), 1)) if one.way is not None}
        for t in tables
    ]
    axes = [a for a, ways in enumerate(found) if ways]
    for chosen in dict.fromkeys((tuple(axes), *((a,) for a in axes))):
        for way in dict.fromkeys(way for a in chosen for way in found[a]):
            made = {a: found[a][way] for a in chosen if way in found[a]}
            if len(made) < len(chosen):
                continue
            rows, sizes = (
                declared.replace(tables=tuple(
                    getattr(made[a], part) if a in made else of(t) for a, t in enumerate(tables)
                ))
                for part, of in (("rows", np.asarray), ("terms", np.abs))
            )  # fmt: skip

            def predict(at: Any, rows: Table = rows, sizes: Table = sizes) -> Truth:
                places = declared.grid_positions(*at) if isinstance(at, tuple) else at
                truth = rows.truth(np.asarray(places))
                return Truth(truth.value, sizes.truth(np.asarray(places)).value, truth.angle)

            names = " and ".join(f"tables[{a}]" for a in chosen)
            verb = "is" if len(chosen) == 1 else "are"
            right = made[chosen[0]].declared
            text = f"{names} {verb} resized with {way}, not with {right}"
            remedy = f"Resize {names} with {right}."
            yield Mistake("wrong-row", text, predict, remedy)


def changed_constants(run: Run, first: Any) -> list[Mistake]:
    """Return the mistake that one constant of the formula has another value."""
    formula = formula_of(run.encoding)
    if formula is None:
        return []
    plain = plain_steps(lambda s: formula(run.encoding, first, s))
    of = partial(predicted, run, formula, code="amplitude", truth=declared_once(run.encoding))
    return [measured_constants(plain, of)]


def _of(run: Run, formula: Formula, first: Any) -> Iterator[Mistake]:
    declared: Table = run.encoding
    plain = plain_steps(lambda s: formula(declared, first, s))
    truth = declared_once(declared)
    for code, message, remedy, change in changes(plain):
        predict = predicted(run, formula, change, code=code, truth=truth)
        yield Mistake(code, message, predict, of_step(declared, message) or remedy)


def declared_once(declared: Table) -> Callable[[Any], Truth]:
    """Return a function for the declared rows at positions or of a grid, computed once for each."""
    known: dict[Any, Truth] = {}

    def truth(at: Any) -> Truth:
        grid = isinstance(at, tuple)
        key = at if grid else (at.shape, at.dtype.str, at.tobytes())
        if key not in known:
            known[key] = declared.truth(np.asarray(declared.grid_positions(*at) if grid else at))
        return known[key]

    return truth


def predicted(
    run: Run,
    formula: Formula,
    *made: Change,
    code: str = "",
    table: Table | None = None,
    truth: Callable[[Any], Truth] | None = None,
) -> Callable[[Any], Truth | None]:
    """Return a function that predicts the rows of a call by the formula with changes.

    ``table`` is computed in place of the declared one; ``code`` is that of the mistake, and
    ``truth`` returns the declared rows.
    """
    declared: Table = run.encoding
    of_declared = truth or declared_once(declared)

    def predict(at: Any) -> Truth | None:
        try:
            value = np.asarray(computed(lambda s: formula(table or declared, at, s), *made))
        except (IndexError, ValueError):
            return None
        truth = of_declared(at if isinstance(at, tuple) else np.asarray(at))
        if value.shape != truth.value.shape:
            return None
        if np.array_equal(value, truth.value):
            return truth  # not with a larger tolerance
        copied = (truth.terms == 0) & (truth.angle == 0)
        if isinstance(declared, _LEARNED) and code != "amplitude":
            value = np.where(copied, run.driver.copied(value), value)
            size = np.maximum(truth.terms, np.abs(value) * (truth.terms > 0))
            return Truth(value, size, truth.angle, truth.amplitude)
        angle = np.where(copied, truth.angle.max(axis=-1, keepdims=True), truth.angle)
        return Truth(value, np.maximum(truth.terms, np.abs(value)), angle, truth.amplitude)

    return predict


_FORMS: tuple[tuple[Any, Formula], ...] = (
    (Sinusoidal2D | Sinusoidal3D | DETRSine | BoxSine, wave_formulas.of_axes),
    (Sinusoidal, wave_formulas.sinusoidal),
    (FourierFeatures, other_formulas.fourier),
    (Time2Vec, other_formulas.time2vec),
    (AxialLearned, other_formulas.axial),
    (Learned, other_formulas.learned),
    (Hybrid, other_formulas.hybrid),
    (StandardizedSinusoidal, other_formulas.standardized),
)
#: The formulas that number the patches of a grid in steps of their own.
_OF_GRIDS = (wave_formulas.of_axes, other_formulas.axial)
