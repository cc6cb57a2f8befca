"""Name the order of the columns of a table whose columns are permuted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np

from posenc_ref import FourierFeatures
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.match import fits
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake, each_part
from posenc_ref.conformance.diagnosis.together import Together, both, possible
from posenc_ref.conformance.harness.run import Run

from .remedies import columns_of

_KEYS = ("coordinate", "frequency", "function")


def report_order(run: Run, order: list[int], *, alone: bool = True) -> None:
    """Report permuted columns: column j of the result is the declared column ``order[j]``.

    The caller has compared every call with the permuted columns; not ``alone``: of other rows.
    """
    remedy = columns_of(run.encoding)
    if len(order) <= _LISTED and alone:
        back = np.argsort(order).tolist()
        remedy += f" Tried: result[:, {back}] agrees in every call."
    message = _ordered(run.encoding, order)
    run.add("layout", message, f"the declared columns {order[:_LISTED]}", remedy=remedy)


def _ordered(encoding: Any, order: list[int]) -> str:
    """Return how columns are permuted, in words."""
    words = _sorted_by(encoding, order)
    if words:
        return f"the columns are {words}"
    moved = [j for j, own in enumerate(order) if j != own]
    if len(moved) == _EXCHANGED:
        return f"columns {moved[0]} and {moved[1]} are exchanged"
    first = ", ".join(map(str, order[:_FIRST])) + ", ..." * (len(order) > _FIRST)
    return f"the columns are permuted: in order, they are the declared columns {first}"


def beside_order(
    run: Run, calls: Sequence[JudgedCall], singles: Iterable[Mistake]
) -> Iterator[Together]:
    """Yield each mistake whose columns, in another order, are those of the longest result.

    An order that a single mistake gives has its name.
    """
    singles = list(singles)
    long = max(calls, key=lambda one: one.actual.shape[0])
    named: dict[tuple[int, ...], Mistake] = {}
    for one in singles:
        named.setdefault(tuple(order_of(run, calls, one) or ()), one)
    for one in singles:
        truth = possible(one.predict, long.facts)
        if truth is None or truth.value.shape != long.actual.shape:
            continue
        order = columns_used(run, [replace(long, truth=truth)])
        if order is None or order == sorted(order):
            continue

        def predict(facts: Any, of: Any = one.predict, order: Any = order) -> Truth | None:
            truth = of(facts)
            return None if truth is None else _taken(truth, order)

        words = _ordered(run.encoding, order)
        moved = Mistake("layout", words, predict, columns_of(run.encoding))
        yield both(one, named.get(tuple(order), moved), predict)


def order_of(run: Run, calls: Sequence[JudgedCall], one: Mistake) -> list[int] | None:
    """Return the order in which a mistake gives the declared columns, if it only permutes them."""
    long = max(calls, key=lambda call: call.actual.shape[0])
    truth = possible(one.predict, long.facts)
    if truth is None or truth.value.shape != long.actual.shape:
        return None
    return columns_used(run, [replace(long, actual=truth.value)])


#: The most columns that a report lists, and that its message does.
_LISTED, _FIRST = 16, 6
#: The number of columns that stand in other places if two are exchanged.
_EXCHANGED = 2


def _sorted_by(encoding: Any, order: list[int]) -> str:
    """Return the keys by which the columns are sorted, in words; empty if there are none."""
    if not isinstance(encoding, FourierFeatures):
        return ""
    matrix = np.asarray(encoding.matrix)
    if ((matrix != 0).sum(axis=1) != 1).any():
        return ""
    coordinate = np.argmax(matrix != 0, axis=1)
    size = np.abs(matrix).max(axis=1)
    frequency = np.unique(np.round(size, 9), return_inverse=True)[1]
    keys = np.full((3, encoding.dim), -1)
    for function, columns in enumerate(encoding.columns()):
        keys[:, columns] = coordinate, frequency, np.full(columns.size, function)
    declared = [j for j in range(encoding.dim) if keys[0, j] >= 0]
    extra = [j for j in range(encoding.dim) if keys[0, j] < 0]
    for some in permutations(range(3)):
        for sign in (1, -1):
            by = [sign * keys[k, declared] if k == 2 else keys[k, declared] for k in some[::-1]]
            found = [declared[i] for i in np.lexsort(by)]
            if order == extra + found:
                first, *others = (_KEYS[k] for k in some)
                each = " and ".join(others)
                return f"sorted by {first}, then by {each}: {_HINT[first]}"
    return ""


_HINT = {
    "coordinate": "all columns of one coordinate come before those of the next",
    "frequency": "all columns of one frequency come before those of the next",
    "function": "all columns of one function, sine or cosine, come before those of the other",
}


def columns_used(run: Run, calls: Sequence[JudgedCall]) -> list[int] | None:
    """Return the declared index of each column, if the result only permutes columns, or None."""
    long = max(calls, key=lambda one: one.actual.shape[0])
    truth, order = _whole(long.truth), list[int]()
    for j in range(long.actual.shape[1]):
        column = np.broadcast_to(long.actual[:, [j]], truth.value.shape)
        score = run.scores(column, truth).max(axis=0)
        score[order] = np.inf  # columns may be alike
        order.append(int(np.argmin(score)))
        if not score[order[-1]] <= run.budget:
            return None
    return order if all(fits(run, one, _taken(one.truth, order)) for one in calls) else None


def _whole(truth: Truth) -> Truth:
    return each_part(truth, lambda part: np.broadcast_to(part, truth.value.shape))


def _taken(truth: Truth, order: list[int]) -> Truth:
    """Return the columns of a table in another order."""
    return each_part(_whole(truth), lambda part: part[:, order])
