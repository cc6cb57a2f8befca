"""Find a relation of all wrong values to the declared ones, when no known mistake explains them.

The wrong values may be 0, have the opposite sign, be multiplied by a number, or be the declared
values of another batch row, head, query, key, token or column. The relation says nothing about
where the values are wrong: that is the rule of the report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.harness.located.locate import Place
from posenc_ref.conformance.harness.located.remedy import where_to_look
from posenc_ref.conformance.harness.plural import plural, rooted
from posenc_ref.conformance.harness.run import PREDICTS, Run, largest

from .in_part import names_of_axes
from .mistake import JudgedCall, each_part
from .position_mistakes import PLACE_CODES
from .scored import failed, scores

#: Returns the result that a relation predicts; only its wrong elements are compared.
Predict = Callable[[JudgedCall], Truth]
#: The fewest wrong values that show a relation.
_FEWEST = 8
#: How far the element may be whose value is returned: up to _NEAREST in a smaller result, too.
_STEPS = (1, 2, 3, 4, 8, 16, 32, 64, 128)
_NEAREST = 64
#: The relative error of a measured factor.
_NEAR = 1e-5
#: The code of a failure whose rule is about elements along one axis only.
_PLACES = {"batch row": "row-offset", "head": "position-axis", "token": "wrong-row"}


def report_relation(run: Run, calls: Sequence[JudgedCall]) -> bool:
    """Report the relation of all wrong values to the declared ones; return whether there is one."""
    wrong = sorted(failed(run, calls), key=lambda one: one.actual.size)
    masks = [scores(run, one, one.truth) > run.budget for one in wrong]
    count = sum(int(mask.sum()) for mask in masks)
    if count < _FEWEST or any(one.truth.value.shape != one.actual.shape for one in wrong):
        return False
    place = run.located()
    if place is None or not place.rules:
        return False
    for code, words, predict, remedy in _relations(wrong, masks):
        if all(_holds(run, one, mask, predict) for one, mask in zip(wrong, masks, strict=True)):
            at = largest(np.where(masks[0], scores(run, wrong[0], wrong[0].truth), 0.0))
            values = plural(count, "wrong value", "wrong values")
            run.add(
                code,
                f"every wrong value is {words}; {place.text}",
                f"{wrong[0].case}, index {at}: {wrong[0].actual[at]:.9g}, declared "
                f"{wrong[0].truth.value[at]:.9g}; {PREDICTS} {values}, to rounding",
                remedy=" ".join(filter(None, (remedy, where_to_look(place)))),
                by=None,
            )
            return True
    return False


def _holds(run: Run, one: JudgedCall, mask: np.ndarray, predict: Predict) -> bool:
    predicted = predict(one)
    return not (mask & (scores(run, replace(one, mask=None), predicted) > run.budget)).any()


def _relations(
    wrong: Sequence[JudgedCall], masks: Sequence[np.ndarray]
) -> Iterator[tuple[str, str, Predict, str]]:
    """Yield a code, the relation in words, its prediction and a remedy."""
    pairs = zip(wrong, masks, strict=True)
    seen = [(one.actual[mask], one.truth.value[mask]) for one, mask in pairs]
    actual, declared = (np.concatenate(part) for part in zip(*seen, strict=True))
    if not np.isfinite(actual).all():
        return
    if not actual.any():
        yield "amplitude", "0", _times(0.0), "Compute these values too: they are never written."
    size = float((declared * declared).sum())
    c = float((declared * actual).sum()) / size if size else 0.0
    if abs(c + 1) <= _NEAR:
        text = "the declared one with the opposite sign"
        yield "amplitude", text, _times(-1.0), "Do not change the sign there."
    elif c and abs(c - 1) > _NEAR:
        whole = min(abs(v - round(v)) for v in (c, 1 / c)) <= _NEAR
        text = f"{f'{c:.6g}' if whole else rooted(c, _NEAR)} times the declared one"
        yield "amplitude", text, _times(c), f"Do not multiply by {c:.6g} there."
    more = float(np.median(actual - declared))
    if more and hasattr(wrong[0].facts, "k_len") | hasattr(wrong[0].facts, "k"):
        text = f"the declared one {'+' if more > 0 else '-'} {abs(more):.6g}"
        yield "score-term", text, _plus(more), f"Do not add {more:.6g} there."
    for axis, (one_name, _) in enumerate(names_of_axes(wrong[0])):
        code = PLACE_CODES.get(one_name, "wrong-row")
        right = f"Return the value of the {one_name} itself there."
        for words, move in _moves(one_name, wrong[0].actual.shape[axis]):
            text = f"the declared one of {words}"
            yield code, text, _moved(move, axis - wrong[0].actual.ndim), right


def _times(c: float) -> Predict:
    def predict(one: JudgedCall) -> Truth:
        t = one.truth
        terms = np.maximum(np.abs(c) * t.terms, np.abs(c * t.value))
        return Truth(c * t.value, np.maximum(terms, t.terms), abs(c) * t.angle)

    return predict


def _plus(more: float) -> Predict:
    def predict(one: JudgedCall) -> Truth:
        t = one.truth
        return Truth(t.value + more, t.terms + abs(more), t.angle)

    return predict


def _moves(name: str, size: int) -> Iterator[tuple[str, Callable[[int], np.ndarray]]]:
    """Yield words for another element of an axis, and its index for each of n elements.

    ``size`` is the number of elements in the smallest wrong result.
    """
    yield f"the first {name}", lambda n: np.zeros(n, np.int64)
    yield f"the last {name}", lambda n: np.full(n, n - 1)
    yield f"the {name} that stands as far from the end", lambda n: np.arange(n)[::-1]
    for by in dict.fromkeys((*_STEPS, *range(1, min(size, _NEAREST)))):
        for sign, words in ((-1, "before"), (1, "after")):
            near = f"the {name} {words}" if by == 1 else f"the {name} {by} {words}"
            yield near, lambda n, k=sign * by: np.clip(np.arange(n) + k, 0, n - 1)  # type: ignore[misc]
            round_ = f"{near}, modulo their number"
            yield round_, lambda n, k=sign * by: (np.arange(n) + k) % max(n, 1)  # type: ignore[misc]
    half = f"the {name} half of their number after, modulo their number"
    yield half, lambda n: (np.arange(n) + n // 2) % max(n, 1)


def _moved(move: Callable[[int], np.ndarray], axis: int) -> Predict:
    def predict(one: JudgedCall) -> Truth:
        shape = one.actual.shape
        at = move(shape[axis])
        return each_part(one.truth, lambda part: np.broadcast_to(part, shape).take(at, axis=axis))

    return predict


def name_place(run: Run, seen: Sequence[JudgedCall], otherwise: str, message: str) -> None:
    """Report where the calls are wrong; the code is ``otherwise`` unless the place tells it."""
    wrong = failed(run, seen)
    if wrong:
        code = code_of(run.located()) or otherwise
        evidence = f"{len(wrong)} of {len(seen)} calls, {wrong[0].case} first"
        remedy = where_to_look(run.located())
        run.add(code, f"{message}{run.where(extent=True)}", evidence, remedy=remedy)


def code_of(place: Place | None) -> str:
    """Return the code of a place with one rule, about one axis; empty otherwise."""
    if place is None or len(place.rules) != 1:
        return ""
    axes = {atom.name[1] for atom in place.rules[0].atoms if not atom.of_call}
    return _PLACES.get(axes.pop(), "") if len(axes) == 1 else ""
