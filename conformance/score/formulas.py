"""The formulas of scores, written in steps that a wrong implementation may compute differently."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from posenc_ref import Bias, DecomposedRelative, Score
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.bias.formulas import changed as bias_changed
from posenc_ref.conformance.bias.formulas import formula_of as formula_of_bias
from posenc_ref.conformance.bias.formulas import plain_of, sizes_in
from posenc_ref.conformance.bias.formulas import step_changes as bias_changes
from posenc_ref.conformance.bias.head_fits import of_heads
from posenc_ref.conformance.diagnosis.measured_constants import measured_constants
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake, with_value
from posenc_ref.conformance.diagnosis.offset_sizes import Sizes
from posenc_ref.conformance.diagnosis.position_mistakes import WHOLE_POSITION, tiled
from posenc_ref.conformance.diagnosis.rounding import SIGNIFICANT_BITS, significant
from posenc_ref.conformance.diagnosis.steps import Steps, changes, computed, plain_steps
from posenc_ref.conformance.diagnosis.whole_values import OF_BIAS, whole_values
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.scores import Parts, Scored
from posenc_ref.rotary_score import RotaryScore

from .changed import OfCall
from .registered import Formula, formula_of

#: What to do about functions of positions.
_AS_THEY_ARE = "Use the positions of queries and keys as they are, without a function or a bound."
#: Functions of the positions of queries and keys.
_BOTH: tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...] = (
    ("halved", lambda p: p / 2),
    ("doubled", lambda p: 2 * p),
    ("negated", lambda p: -p),
    ("replaced by log(1 + p)", np.log1p),
    ("replaced by their square roots", np.sqrt),
    ("rounded down to even ones", lambda p: p // 2 * 2),
    ("rounded to bfloat16", lambda p: significant(p, SIGNIFICANT_BITS["bfloat16"])),
    ("rounded to float16", lambda p: _in_float16(p).astype(np.float64)),
    *(
        (f"clamped to at most {n}", partial(np.minimum, n))
        for n in (16, 32, 50, 64, 100, 128, 200, 256, 500, 512, 1000, 1024)
    ),
)


def _in_float16(positions: np.ndarray) -> np.ndarray:
    """Return positions in float16: infinite ones from 65520 on."""
    with np.errstate(over="ignore"):
        return np.asarray(positions).astype(np.float16)


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
    yield from _terms(first.scale, formula(first, Steps()))


def _terms(scale: float, terms: Iterable[str]) -> Iterator[Mistake]:
    """Yield logits with another factor on one of their terms."""
    names = [*terms]
    for name in names if len(names) > 1 else ():  # a factor on all logits is a scale
        remedy = f"Add the term {name} once, with the factor that is declared for it."
        for words, by in (
            ("is left out", 0.0),
            ("is subtracted", -1.0),
            ("is added twice", 2.0),
            ("is halved", 0.5),
            ("is multiplied by the scale once more than declared", scale),
            ("is divided by the scale, or lacks it", 1 / scale),
        ):

            def predict(call: Scored, name: str = name, by: float = by) -> Truth:
                return call.total(call.parts(), {name: by})

            yield Mistake("score-term", f"the term {name} {words}", predict, remedy)


def changed_constants(first: Scored) -> list[Mistake]:
    """Return the mistake that one constant of the formula has another value."""
    formula = formula_of(first.encoding)
    if formula is None:
        return []
    plain = plain_steps(lambda s: formula(first, s))
    return [measured_constants(plain, lambda change: _predict(formula, change, Sizes()))]


def measured_biases(first: Scored) -> tuple[list[Mistake], list[Mistake]]:
    """Return functions of the whole bias, and mistakes measured for each of its heads."""
    declared = first.encoding
    if not isinstance(declared, Bias) or first.up_to_constant:
        return [], []
    whole = whole_values(Scored.bias, "the bias", "bias-scale", OF_BIAS)
    each = of_heads(Scored.bias, False, lambda call: call.dot().value)
    return [_added(one) for one in whole], [_added(one) for one in each]


def _added(mistake: Mistake) -> Mistake:
    """Return a mistake of a bias as one of the logits."""

    def predict(call: Scored) -> Truth | None:
        bias = mistake.predict(call)
        return None if bias is None else call.total(call.parts() | {"bias": bias}, {})

    def fit(run: Run, wrong: Sequence[JudgedCall]) -> list[Mistake]:
        assert mistake.fit is not None
        return [_added(one) for one in mistake.fit(run, wrong)]

    return replace(mistake, predict=predict, fit=None if mistake.fit is None else fit)


def changed_sizes(first: Scored) -> Iterator[Mistake]:
    """Yield other windows, groups and factors of scores with a rotation for each pair."""
    declared = first.encoding
    known: dict[str, tuple[Any, ...]] = {
        "window": tuple(range(1, 65)),
        "group": (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 32, 64),
        "factor": (None, 2.0, 3.0, 4.0, 5.0, 8.0, 10.0, 16.0, 32.0, 64.0),
        "chunk_size": tuple(range(2, 65)),
        "local_size": tuple(range(64)),
    }
    if not isinstance(declared, RotaryScore):
        return
    for name, values in known.items():
        if not hasattr(declared, name):
            continue
        own = getattr(declared, name)
        for value in values:
            try:
                other = declared.replace(**{name: value})
            except ValueError:  # impossible beside the other sizes
                continue
            if value == own:
                continue
            words = f"{name} is {value}, declared {own}"
            remedy = f"Use {name} = {own}."
            yield Mistake("far-keys", words, partial(_encoded, other), remedy)


def _encoded(other: Any, call: Scored) -> Truth:
    return call.replace(encoding=other).truth()


def _tiles(declared: Any) -> Iterator[Mistake]:
    """Yield logits at positions that tiles of a kernel make."""
    code = "bias-alignment" if isinstance(declared, Bias | Score) else "decode-offset"
    sides = {"keys": (False, True), "queries": (True, False), "queries and keys": (True, True)}
    for what, moved in sides.items():
        same = {f"the positions of {what} are {how}": of for how, of in _BOTH if all(moved)}
        rows = chain(tiled(what), same.items())
        for text, place in rows:

            def predict(
                call: Scored, place: Any = place, moved: tuple[bool, bool] = moved
            ) -> Truth | None:
                q_at, k_at = (
                    place(at) if move else at
                    for at, move in zip(call.positions, moved, strict=True)
                )
                over = ~np.isfinite(q_at)[:, None] | ~np.isfinite(k_at)
                if over.any():
                    q_at, k_at = (np.where(np.isfinite(at), at, 0) for at in (q_at, k_at))
                try:
                    truth = call.replace(q_at=q_at, k_at=k_at).truth()
                except (TypeError, ValueError):  # positions outside the table, or fractional
                    return None
                return with_value(truth, np.where(over, np.nan, truth.value))

            remedy = WHOLE_POSITION if text not in same else _AS_THEY_ARE
            yield Mistake(code, text, predict, remedy)


def _with_bias(values: Callable[..., Truth]) -> Callable[[Scored], Truth]:
    return lambda call: call.total(call.parts() | {"bias": call.added(values(*call.positions))}, {})


def _predict(formula: Formula, change: Any, sizes: Sizes) -> Callable[[Scored], Truth]:
    def predict(call: Scored) -> Truth:
        declared = call.parts()
        terms = computed(lambda s: formula(call, s), change, sizes=sizes)
        whole: Any = sum(t.terms for t in declared.values())
        angle: Any = sum(t.angle for t in declared.values())
        value: Any = sum(terms.values())
        value = np.broadcast_to(value, np.broadcast_shapes(np.shape(value), np.shape(whole)))
        size: Any = sum(np.abs(t) for t in terms.values())
        return Truth(value, np.maximum(whole, size), np.broadcast_to(angle, value.shape))

    return predict


def parts_by_steps(*made: Any, sizes: Sizes = Sizes()) -> OfCall:  # noqa: B008 (immutable)
    """Return a function for the parts of logits by the formula of their encoding, with changes."""

    def parts(call: Scored) -> Parts:
        declared = call.parts()
        if isinstance(call.encoding, Bias):
            values = bias_changed(call.encoding, *made, sizes=sizes)
            return declared | {"bias": call.added(values(*call.positions))}
        formula = formula_of(call.encoding)
        if formula is None:
            raise ValueError("the encoding has no formula in steps")
        terms = computed(lambda s: formula(call, s), *made, sizes=sizes)
        whole: Any = sum(t.terms for t in declared.values())
        angle: Any = sum(t.angle for t in declared.values()) / len(terms)
        return {
            name: Truth(*np.broadcast_arrays(t, np.maximum(whole / len(terms), np.abs(t)), angle))
            for name, t in terms.items()
        }

    return parts


def steps_of(first: Scored, sizes: Sizes = Sizes()) -> Steps | None:  # noqa: B008 (immutable)
    """Return the unchanged steps of the encoding of a call, None if it has no formula here."""
    declared = first.encoding
    if isinstance(declared, Bias):
        of_bias = formula_of_bias(declared) is not None
        return plain_of(declared, sizes_in(declared, sizes)) if of_bias else None
    formula = formula_of(declared)
    return None if formula is None else plain_steps(lambda s: formula(first, s), sizes)
