"""Find two mistakes that are made at once.

Neither of them predicts a result alone. Two changed steps of one formula, or a changed step of a
changed encoding, are predicted together, in the order of their likelihood and up to a fixed number
of pairs. A pair is reported only if it predicts every result, wrong and right, of all calls and of
further ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.harness.run import Run

from .match import add, explained_by
from .mistake import JudgedCall, Mistake, each_part
from .offset_sizes import Sizes
from .scored import failed, fits, scores
from .steps import Change, Steps, changes

#: Mistakes that are made at once: ``predict`` of the first gives the result of all.
Together = Sequence[Mistake]
#: A code, a message, a remedy, and a change.
Row = tuple[str, str, str, Change]
#: Returns what mistakes predict, from the facts of a call.
Predict = Callable[[Any], Truth | None]
T = TypeVar("T")
#: The most pairs that are tried.
MOST = 3000
#: A result with fewer wrong elements does not tell two pairs apart.
_FEWEST = 12
#: Elements of a call that show which change comes near, the changes that are taken, and how much
#: more than the declared results they must predict.
_MANY, _BEST, _BETTER = 2000, 5, 0.05
#: The largest deviation from a multiple, relative to the largest number of a result.
_NEAR = 1e-3
#: The most heads that a message lists.
_LISTED = 8
#: The beginnings of the words of changes that are rarely made together with another one.
_RARE = (
    "goes through", "is rounded to", "is cut, not rounded", "is the mean of", "has rows",
    "is divided by the square root", "are rounded", "is rounded", "is replaced by its logarithm",
    "is replaced by sign(r)", "is replaced by the square root", "is stored in", "go through",
    "are used with", "is that of x +", "is replaced by 0 where", "is moved by one", "is shared in",
    "is split in halves", "has its halves", "is interleaved: ", "is parted into",
    "is that of the last", "is everywhere that of", "is replaced by its square root", "is at most",
    "is at least", "has its largest",
)  # fmt: skip


def match_together(
    run: Run,
    calls: Sequence[JudgedCall],
    candidates: Iterable[Together],
    further: Callable[[], Iterable[JudgedCall]] | None = None,
) -> bool:
    """Report the first mistakes that together explain all calls; return whether there are some.

    ``further`` makes calls of other sizes, which could refute them.
    """
    wrong = sorted(failed(run, calls), key=lambda one: one.actual.size)
    if not wrong:
        return False
    more: list[JudgedCall] | None = None
    for together in islice(candidates, MOST):
        predict = together[0].predict
        if not all(fits(run, one, predict(one.facts)) for one in wrong):
            continue
        if more is None:
            more = [] if further is None else list(further())
        if not _explains_all(run, [*calls, *more], together[0]):
            continue
        merged = _merged(together)
        for mistake in merged:
            add(run, mistake, wrong, len(more), together=len(merged) > 1)
        return True
    return False


def _merged(together: Together) -> Together:
    """Return the mistakes; those with one code, of which a report has one finding, as one."""
    one, *others = together
    if not others or any(other.code != one.code for other in others):
        return together
    message = "; and ".join(mistake.message for mistake in together)
    remedy = " ".join(dict.fromkeys(m.remedy for m in together if m.remedy))
    return [replace(one, message=message, remedy=remedy)]


def _explains_all(run: Run, calls: Sequence[JudgedCall], mistake: Mistake) -> bool:
    wrong = failed(run, calls)
    right = [one for one in calls if all(one is not w for w in wrong)]
    return len(explained_by(run, wrong, right, mistake)) == len(wrong)


def telling(run: Run, calls: Sequence[JudgedCall]) -> JudgedCall:
    """Return the smallest wrong call with enough elements to tell mistakes apart."""
    wrong = failed(run, calls)
    enough = [one for one in wrong if one.actual.size >= _FEWEST]
    return min(enough or wrong, key=lambda one: one.actual.size)


def in_pairs(each: Sequence[T], others: Sequence[T] | None = None) -> Iterator[tuple[T, T]]:
    """Yield two of ``each``, or one of ``each`` and one of ``others``, the first ones first."""
    second = each if others is None else others
    for total in range(len(each) + len(second)):
        for i in range(min(total + 1, len(each))):
            if 0 <= total - i < len(second) and (others is not None or i < total - i):
                yield each[i], second[total - i]


def likely_changes(plain: Steps) -> list[Row]:
    """Return the changes of a formula that may be made together with another one.

    Two values that are exchanged come first.
    """
    rows = [row for row in changes(plain) if not _rare(row[-1][-1])]
    return sorted(rows, key=lambda row: len(row[-1]) == 2)


def _rare(words: str) -> bool:
    """Return whether a change is rarely made together with another; another rounding is not."""
    return words.startswith(_RARE) and not (words.startswith("is rounded") and ", not " in words)


@dataclass(frozen=True)
class Stepped:
    """A formula in steps, and what it predicts."""

    plain: Callable[[Sizes], Steps]  #: the unchanged steps
    predicted: Callable[..., Predict]  #: given changes, and ``sizes``
    sizes: Callable[[Sequence[JudgedCall]], Sizes]  #: measured on wrong calls


@dataclass(frozen=True)
class First:
    """A mistake beside which a step may be changed, and what both predict."""

    mistake: Mistake
    predicted: Callable[..., Predict]  #: given changes, if any, and ``sizes``
    step: str = ""  #: the name of the step that the mistake changes


def two_steps(
    run: Run, calls: Sequence[JudgedCall], of: Stepped, others: Sequence[First] = ()
) -> Iterator[Together]:
    """Yield every two likely changes of different steps, and of a step beside ``others``.

    The changes beside a mistake that predicts many results come first. Bounds of offsets are
    measured on the results that it leaves unexplained.
    """
    rows = likely_changes(of.plain(Sizes()))
    steps = [First(named_change(row), partial(of.predicted, row[-1]), row[-1][0]) for row in rows]
    known = {row[-1] for row in rows}
    for one in _nearest(run, calls, [*others, *steps]):
        predict = partial(possible, one.predicted())
        rest = [replace(call, truth=predict(call.facts) or call.truth) for call in calls]
        sizes = of.sizes(rest)
        for row in sorted(likely_changes(of.plain(sizes)), key=lambda row: row[-1] not in known):
            if row[-1][0] != one.step:
                yield both(one.mistake, named_change(row), one.predicted(row[-1], sizes=sizes))
    for (one, _), (_, row) in in_pairs(list(zip(steps, rows, strict=True))):
        if row[-1][0] != one.step:
            yield both(one.mistake, named_change(row), one.predicted(row[-1]))
    for one in others:
        for row in rows:
            yield both(one.mistake, named_change(row), one.predicted(row[-1]))


def _nearest(run: Run, calls: Sequence[JudgedCall], firsts: Sequence[First]) -> list[First]:
    """Return the mistakes that predict many results of a call, the best ones first."""
    wrong = failed(run, calls)
    large = [one for one in wrong if one.actual.size >= _MANY]
    one = min(large or wrong, key=lambda call: call.actual.size if large else -call.actual.size)

    def share(truth: Truth | None) -> float:
        if truth is None or truth.value.shape != one.actual.shape:
            return 0.0
        return float((scores(run, one, truth) <= run.budget).mean())

    least = share(one.truth) + _BETTER
    shares = [(share(possible(first.predicted(), one.facts)), first) for first in firsts]
    best = sorted(shares, key=lambda pair: -pair[0])[:_BEST]
    return [first for part, first in best if part >= least]


def named_change(row: Row) -> Mistake:
    """Return a changed step as a mistake that predicts nothing by itself."""
    code, message, remedy, _ = row
    return Mistake(code, message, lambda facts: None, remedy)


def both(one: Mistake, two: Mistake, predict: Predict) -> Together:
    """Return two mistakes with one prediction, which is None where they do not go together."""
    joint = partial(possible, predict)
    return replace(one, predict=joint, fit=None), replace(two, predict=joint, fit=None)


def possible(of: Callable[[Any], T], facts: Any) -> T | None:
    """Return ``of(facts)``, or None if it is impossible."""
    try:
        return of(facts)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None


def with_factor(
    run: Run, one: JudgedCall, singles: Iterable[Mistake], named: Callable[[float], Iterator[Any]]
) -> Iterator[Together]:
    """Yield mistakes together with a factor on the result, if it is measured in one call.

    The first of ``singles`` has no code: of the declared result, a factor is a single mistake.
    ``named`` returns the code, the message, the values and the remedy of a factor.
    """
    mask = np.broadcast_to(True if one.mask is None else one.mask, one.actual.shape)
    actual = one.actual[mask]
    if not np.isfinite(actual).all():
        return
    size = float(np.abs(actual).max(initial=0.0))
    for mistake in singles:
        truth = mistake.predict(one.facts)
        if truth is None or truth.value.shape != mask.shape:
            continue
        value = truth.value[mask]
        bottom = float((value * value).sum())
        if not np.isfinite(bottom) or not bottom:
            continue
        factor = float((value * actual).sum()) / bottom
        if np.abs(factor * value - actual).max() > _NEAR * size:
            continue

        def predict(facts: Any, of: Any = mistake.predict, c: float = factor) -> Truth | None:
            own = of(facts)
            if own is None:
                return None
            return Truth(c * own.value, abs(c) * own.terms, abs(c) * own.angle, own.amplitude)

        for code, text, values, remedy in named(factor):
            found = Mistake(code, text, predict, remedy, values=values)
            yield both(mistake, found, predict) if mistake.code else (found,)


def with_order(one: JudgedCall, singles: Iterable[Mistake], axis: int) -> Iterator[Together]:
    """Yield mistakes together with another order of the heads, which are on ``axis``.

    The order is measured in one call. The first of ``singles`` is the declared result.
    """
    n = one.actual.shape[axis]
    mask = np.broadcast_to(True if one.mask is None else one.mask, one.actual.shape)
    actual = np.moveaxis(np.where(mask, one.actual, 0.0), axis, 0).reshape(n, -1)
    size = float(np.abs(actual).max(initial=0.0))
    if n < 2 or not np.isfinite(size):
        return
    for mistake in singles:
        truth = mistake.predict(one.facts)
        if truth is None or truth.value.shape != mask.shape:
            continue
        value = np.moveaxis(np.where(mask, truth.value, 0.0), axis, 0).reshape(n, -1)
        with np.errstate(invalid="ignore"):
            away = np.abs(actual[:, None] - value[None]).max(axis=-1)
        order = away.argmin(axis=1)
        if not (away.min(axis=1) <= _NEAR * size).all() or (order == np.arange(n)).all():
            continue

        def predict(facts: Any, of: Any = mistake.predict, at: Any = order) -> Truth | None:
            own = of(facts)
            if own is None or own.value.shape[axis] != n:
                return None
            return each_part(own, lambda part: part.take(at, axis=axis))

        found = Mistake("head-order", _ordered(order), predict, _OWN_HEAD)
        yield both(mistake, found, predict) if mistake.code else (found,)


_OWN_HEAD = "Give head h the numbers of head h."


def _ordered(order: np.ndarray) -> str:
    n = order.size
    if (order == np.arange(n)[::-1]).all():
        return "the heads are in reverse order"
    moved = np.flatnonzero(order != np.arange(n))
    more = ", ..." * (moved.size > _LISTED)
    heads, others = (", ".join(map(str, each[:_LISTED])) for each in (moved, order[moved]))
    return f"heads {heads}{more} have the values of heads {others}{more}"


def after_one(firsts: Iterable[Mistake], others: Sequence[Mistake]) -> Iterator[Together]:
    """Yield each of ``others`` in calls in which one of ``firsts`` is made too."""
    for one in firsts:
        if one.before is None:
            continue
        for two in others:
            if two is not one:
                yield both(one, two, partial(_after, one.before, two.predict))


def _after(before: Callable[[Any], Any], predict: Predict, facts: Any) -> Truth | None:
    return predict(before(facts))
