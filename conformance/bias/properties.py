"""Properties of biases, tested on the function's output without a reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from .cases import BiasCase, Property, Ruler

Cases = Sequence[BiasCase]


def translation(cases: Cases, ruler: Ruler) -> Iterator[str]:
    """Report where b(i + s, j + s) differs from b(i, j), within or between calls."""
    longest = max(case.k_len for case in cases)
    shape = (len(cases[0].actual), 2 * longest)
    value, terms = np.zeros(shape), np.zeros(shape)
    first = np.full((2, 2 * longest), -1)  # the case and the element that judged each offset first
    for n, case in enumerate(cases):
        at = case.offsets
        place = np.full(2 * longest, -1)
        judged = np.flatnonzero(case.judged)[::-1]
        place[at.ravel()[judged]] = judged  # the last assignment, the first row, remains
        new = np.flatnonzero((place >= 0) & (first[0] < 0))
        row, key = np.divmod(place[new], case.k_len)
        first[0, new], first[1, new] = n, place[new]
        value[:, new], terms[:, new] = case.moved[:, row, key], case.terms[:, row, key]
        bad = ruler.differ(case.moved, value[:, at], terms[:, at] + case.terms) & case.judged
        for head, row, key in np.argwhere(bad):
            offset = at[row, key]
            earlier, element = cases[first[0, offset]], first[1, offset]
            yield (
                f"key - query = {offset}, head {head}: {case.moved[head, row, key]:.9g} in row "
                f"{row} of {case.name}, {value[head, offset]:.9g} in row "
                f"{element // earlier.k_len} of {earlier.name}"
            )


def linear(cases: Cases, ruler: Ruler) -> Iterator[str]:
    """Report where the bias is not linear in the distance, on each side of the query."""
    for case, head, row, size, side in _heads(cases):
        kept = (side[:, 1:] == side[:, :-1]) & (side[:, 1:] != 0)
        with np.errstate(invalid="ignore"):
            middle = (row[:, 2:] + row[:, :-2]) / 2
        total = size[:, 2:] + size[:, 1:-1] + size[:, :-2]
        for i, n in np.argwhere(ruler.differ(row[:, 1:-1], middle, total) & kept):
            yield (
                f"{case.name}, row {i}, head {head}, keys {n}..{n + 2}: "
                f"{', '.join(f'{v:.9g}' for v in row[i, n : n + 3])} are not on a line"
            )


def farther_is_less(cases: Cases, ruler: Ruler) -> Iterator[str]:
    """Report where the bias of a head does not fall with the distance."""
    for case, head, row, size, side in _heads(cases):
        with np.errstate(invalid="ignore"):
            step = np.diff(row, axis=1) * side
        differs = ruler.differ(step, 0.0, size[:, 1:] + size[:, :-1])
        for i, n in np.argwhere(~(step <= 0) & differs & (side != 0)):
            yield (
                f"{case.name}, row {i}, head {head}: {row[i, n]:.9g} at key - query = "
                f"{case.offsets[i, n]}, {row[i, n + 1]:.9g} at {case.offsets[i, n + 1]}"
            )
        for ahead in (-1, 1):
            there = side == ahead
            i = np.flatnonzero(there.any(axis=1))
            if not i.size:
                continue
            last = there.shape[1] - there[i, ::-1].argmax(axis=1)
            far, own = last if ahead > 0 else there[i].argmax(axis=1), case.rows[i]
            for n in np.flatnonzero(~(row[i, far] < row[i, own])):
                offset = case.offsets[i[n], far[n]]
                yield (
                    f"{case.name}, row {i[n]}, head {head}: {row[i[n], own[n]]:.9g} at the query's "
                    f"own key, {row[i[n], far[n]]:.9g} at key - query = {offset}"
                )


def heads_differ(cases: Cases, ruler: Ruler) -> Iterator[str]:
    """Report two heads with the same bias in the longest row."""
    case = max(cases, key=lambda c: c.k_len)
    drop = case.moved[:, -1][:, case.judged[-1]]
    return equal_values(drop[:, 0] - drop[:, case.rows[-1]], f"over {case.name}")


def symmetric(cases: Cases, ruler: Ruler) -> Iterator[str]:
    """Report where the bias differs at equal distances before and after the query."""
    for case in cases:
        i, j = np.nonzero((case.offsets > 0) & (case.offsets <= case.rows[:, None]))
        mirror = 2 * case.rows[i] - j
        for head, (here, size) in enumerate(zip(case.moved, case.terms, strict=True)):
            bad = ruler.differ(here[i, j], here[i, mirror], size[i, j] + size[i, mirror])
            for n in np.flatnonzero(bad):
                yield (
                    f"{case.name}, row {i[n]}, head {head}: {here[i[n], mirror[n]]:.9g} at key - "
                    f"query = {mirror[n] - case.rows[i[n]]}, {here[i[n], j[n]]:.9g} at "
                    f"{j[n] - case.rows[i[n]]}"
                )


def zero_at_own(cases: Cases, ruler: Ruler) -> Iterator[str]:
    """Report where the bias at a query's own key is not zero."""
    for case in cases:
        for head, i in np.argwhere(~(case.own[..., 0] == 0)):
            own = case.own[head, i, 0]
            yield f"{case.name}, row {i}, head {head}: {own:.9g} at the query's own key"


def one_run(cases: Cases, ruler: Ruler) -> Iterator[str]:
    """Report two distances with the same bias if a distance between them has another one (T5)."""
    for case, i, keys in _sides(cases):
        if i not in (0, case.q_len - 1):
            continue
        seen: dict[bytes, int] = {}
        last = b""
        for key in keys[np.argsort(np.abs(keys - case.rows[i]))]:
            here = case.actual[:, i, key].tobytes()
            if here != last and here in seen:
                yield (
                    f"{case.name}, row {i}: the bias is the same at key - query = "
                    f"{key - case.rows[i]} and {seen[here] - case.rows[i]}, but not between them"
                )
            seen.setdefault(here, int(key))
            last = here


def level_beyond(distance: int, cases: Cases, ruler: Ruler) -> Iterator[str]:
    """Report keys beyond ``distance``, on one side of the query, with different biases (T5)."""
    for case, i, keys in _sides(cases):
        far = keys[np.abs(keys - case.rows[i]) >= distance]
        row = case.actual[:, i][:, far]
        for n in np.flatnonzero((row != row[:, :1]).any(axis=0)):
            yield (
                f"{case.name}, row {i}: the bias differs between key - query = "
                f"{far[n] - case.rows[i]} and {far[0] - case.rows[i]}, both beyond {distance}"
            )


def equal_values(values: np.ndarray, where: str) -> Iterator[str]:
    """Report heads with equal or non-finite values."""
    for a, b in pairwise(np.argsort(values)):
        if values[a] == values[b] or not np.isfinite(values[[a, b]]).all():
            yield f"heads {min(a, b)} and {max(a, b)} {where} share {values[a]:.9g}"


def _heads(cases: Cases) -> Iterator[tuple[BiasCase, int, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield each case and head, its values and terms (Q, K), and the direction of each step.

    A step leads from one key to the next (Q, K - 1). Its direction is 1 away from the query, -1
    towards the query, and 0 if one of the two keys is not judged.
    """
    for case in cases:
        side = np.where(case.offsets[:, 1:] > 0, 1, -1)
        side *= case.judged[:, 1:] & case.judged[:, :-1]
        for head, (row, size) in enumerate(zip(case.actual, case.terms, strict=True)):
            yield case, head, row, size, side


def _sides(cases: Cases) -> Iterator[tuple[BiasCase, int, np.ndarray]]:
    """Yield two sets of judged keys for each query: key <= query, then key >= query."""
    for case in cases:
        for i, row in enumerate(case.rows):
            keys = np.flatnonzero(case.judged[i])
            yield case, i, keys[keys <= row]
            yield case, i, keys[keys >= row]


def _size(values: np.ndarray) -> float:
    """Return the largest finite absolute value."""
    return float(np.abs(np.nan_to_num(values, posinf=0.0, neginf=0.0)).max())


def _increased(cases: Cases, ruler: Ruler, offset: int) -> list[BiasCase]:
    """Return the cases with one element increased, at key - query = ``offset`` of the first one.

    The increase is larger than the rounding error of the largest element of all cases.
    """
    for n, case in reversed(list(enumerate(cases))):
        # With a key after the query, one as far before it must exist too: it is compared.
        row = int(np.argmax(case.rows >= offset)) if offset > 0 else case.q_len - 1
        key = int(case.rows[row]) + offset
        if case.k_len > 2 and 0 <= key < case.k_len and case.judged[row, key]:
            actual = np.array(case.actual)
            actual[-1, row, key] += ruler.beyond(max(_size(c.actual) for c in cases))
            return [replace(case, actual=actual), *cases[:n], *cases[n + 1 :]]
    return list(cases)


def _same_heads(cases: Cases, ruler: Ruler) -> list[BiasCase]:
    return [replace(c, actual=np.repeat(c.actual[:1], len(c.actual), axis=0)) for c in cases]


def _longest(cases: Cases) -> tuple[BiasCase, np.ndarray]:
    case = max(cases, key=lambda c: c.k_len)
    return case, np.array(case.actual)


def _far_is_more(cases: Cases, ruler: Ruler) -> list[BiasCase]:
    case, actual = _longest(cases)
    actual[-1, -1, 0] = actual[-1, -1, case.rows[-1]] + ruler.beyond(_size(actual[-1, -1]))
    return [replace(case, actual=actual)]


def _own_again(cases: Cases, ruler: Ruler) -> list[BiasCase]:
    case, actual = _longest(cases)
    actual[:, -1, 0] = actual[:, -1, case.rows[-1]]
    actual[-1, -1, 1] += 1.0
    return [replace(case, actual=actual)]


def _far_changed(cases: Cases, ruler: Ruler) -> list[BiasCase]:
    case, actual = _longest(cases)
    actual[-1, -1, 0] += 1.0
    return [replace(case, actual=actual)]


TRANSLATION = Property("b(i + s, j + s) = b(i, j)", translation, lambda c, r: _increased(c, r, -1))
LINEAR = Property("zero second difference", linear, lambda c, r: _increased(c, r, -1))
FARTHER = Property("farther keys get less", farther_is_less, _far_is_more)
HEADS = Property("heads differ", heads_differ, _same_heads)
SYMMETRIC = Property("b(i, j) = b(j, i)", symmetric, lambda c, r: _increased(c, r, 1))
OWN = Property("b(i, i) = 0", zero_at_own, lambda c, r: _increased(c, r, 0))
ONE_RUN = Property("one set of consecutive distances per bucket", one_run, _own_again)


def saturated(distance: int) -> Property:
    """Return the property that all keys beyond ``distance`` have the same bias."""
    name = "level bias beyond the last threshold"
    return Property(name, partial(level_beyond, distance), _far_changed)
