"""Properties of biases, tested on the function's output without a reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from .cases import BiasCase, Property, Ruler

Cases = Sequence[BiasCase]


def translation(cases: Cases, ruler: Ruler) -> str:
    """Return a message if b(i + s, j + s) differs from b(i, j), within or between calls."""
    longest = max(case.k_len for case in cases)
    shape = (len(cases[0].actual), 2 * longest)
    value, terms = np.zeros(shape), np.zeros(shape)
    first = np.full(2 * longest, "", dtype=object)  # where each offset was first judged
    for case in cases:
        at = case.offsets
        place = np.full(2 * longest, -1)
        judged = np.flatnonzero(case.judged)[::-1]
        place[at.ravel()[judged]] = judged  # the last assignment, the first row, remains
        for offset in np.flatnonzero((place >= 0) & (first == "")):
            row, key = divmod(int(place[offset]), case.k_len)
            first[offset] = f"row {row} of {case.name}"
            value[:, offset], terms[:, offset] = case.moved[:, row, key], case.terms[:, row, key]
        bad = ruler.differ(case.moved, value[:, at], terms[:, at] + case.terms) & case.judged
        if bad.any():
            head, row, key = (int(n) for n in np.unravel_index(np.argmax(bad), bad.shape))
            offset = at[row, key]
            return (
                f"key - query = {offset}, head {head}: {case.moved[head, row, key]:.9g} in row "
                f"{row} of {case.name}, {value[head, offset]:.9g} in {first[offset]}"
            )
    return ""


def linear(cases: Cases, ruler: Ruler) -> str:
    """Return a message if the bias is not linear in the distance on each side of the query."""
    for case, head, side in _heads(cases):
        row, size = case.actual[head], case.terms[head]
        kept = (side[:, 1:] == side[:, :-1]) & (side[:, 1:] != 0)
        with np.errstate(invalid="ignore"):
            middle = (row[:, 2:] + row[:, :-2]) / 2
        total = size[:, 2:] + size[:, 1:-1] + size[:, :-2]
        bad = ruler.differ(row[:, 1:-1], middle, total) & kept
        if bad.any():
            i, n = _first(bad)
            return (
                f"{case.name}, row {i}, head {head}, keys {n}..{n + 2}: "
                f"{', '.join(f'{v:.9g}' for v in row[i, n : n + 3])} are not on a line"
            )
    return ""


def farther_is_less(cases: Cases, ruler: Ruler) -> str:
    """Return a message if the bias of a head does not fall with the distance."""
    for case, head, side in _heads(cases):
        row, size = case.actual[head], case.terms[head]
        with np.errstate(invalid="ignore"):
            step = np.diff(row, axis=1) * side
        rising = ~(step <= 0) & ruler.differ(step, 0.0, size[:, 1:] + size[:, :-1])
        if (rising & (side != 0)).any():
            i, n = _first(rising & (side != 0))
            return (
                f"{case.name}, row {i}, head {head}: {row[i, n]:.9g} at key - query = "
                f"{case.offsets[i, n]}, {row[i, n + 1]:.9g} at {case.offsets[i, n + 1]}"
            )
        for ahead in (-1, 1):
            there = side == ahead
            some = np.flatnonzero(there.any(axis=1))
            if not some.size:
                continue
            last = there.shape[1] - np.argmax(there[:, ::-1], axis=1)
            far = last if ahead > 0 else np.argmax(there, axis=1)
            level = ~(row[some, far[some]] < row[some, case.rows[some]])
            if level.any():
                i = int(some[np.argmax(level)])
                return (
                    f"{case.name}, row {i}, head {head}: {row[i, case.rows[i]]:.9g} at the own "
                    f"key, {row[i, far[i]]:.9g} at key - query = {case.offsets[i, far[i]]}"
                )
    return ""


def heads_differ(cases: Cases, ruler: Ruler) -> str:
    """Return a message if two heads have the same bias in the longest row."""
    case = max(cases, key=lambda c: c.k_len)
    drop = case.moved[:, -1][:, case.judged[-1]]
    drop = drop[:, 0] - drop[:, case.rows[-1]]
    return distinct_values(drop, f"over {case.name}")


def symmetric(cases: Cases, ruler: Ruler) -> str:
    """Return a message if the bias differs at equal distances before and after the query."""
    for case in cases:
        i, j = np.nonzero((case.offsets > 0) & (case.offsets <= case.rows[:, None]))
        mirror = 2 * case.rows[i] - j
        for head, (here, size) in enumerate(zip(case.moved, case.terms, strict=True)):
            bad = ruler.differ(here[i, j], here[i, mirror], size[i, j] + size[i, mirror])
            if bad.any():
                n = int(np.argmax(bad))
                return (
                    f"{case.name}, row {i[n]}, head {head}: {here[i[n], mirror[n]]:.9g} at key - "
                    f"query = {mirror[n] - case.rows[i[n]]}, {here[i[n], j[n]]:.9g} at "
                    f"{j[n] - case.rows[i[n]]}"
                )
    return ""


def zero_at_own(cases: Cases, ruler: Ruler) -> str:
    """Return a message if the bias at a query's own key is not zero."""
    for case in cases:
        bad = ~(case.own[..., 0] == 0)
        if bad.any():
            head, i = _first(bad)
            return f"{case.name}, row {i}, head {head}: {case.own[head, i, 0]:.9g} at its own key"
    return ""


def one_run(cases: Cases, ruler: Ruler) -> str:
    """Return a message if a bucket's value returns at a larger distance (T5)."""
    for case, i, keys in _sides(cases):
        if i not in (0, case.q_len - 1):
            continue
        near_first = keys[np.argsort(np.abs(keys - case.rows[i]))]
        seen: dict[bytes, int] = {}
        last = b""
        for key in near_first:
            here = case.actual[:, i, key].tobytes()
            if here != last and here in seen:
                return (
                    f"{case.name}, row {i}: key - query = {key - case.rows[i]} has the values of "
                    f"{seen[here] - case.rows[i]} again, others are between"
                )
            seen.setdefault(here, int(key))
            last = here
    return ""


def level_beyond(distance: int) -> Callable[[Cases, Ruler], str]:
    """Return the test that all keys beyond ``distance`` on one side share a bias (T5)."""

    def violation(cases: Cases, ruler: Ruler) -> str:
        for case, i, keys in _sides(cases):
            far = keys[np.abs(keys - case.rows[i]) >= distance]
            row = case.actual[:, i][:, far]
            bad = (row != row[:, :1]).any(axis=0)
            if bad.any():
                n = int(np.argmax(bad))
                return (
                    f"{case.name}, row {i}: key - query = {far[n] - case.rows[i]} and "
                    f"{far[0] - case.rows[i]} differ, both beyond {distance}"
                )
        return ""

    return violation


def distinct_values(values: np.ndarray, where: str) -> str:
    """Describe the first two heads with equal values, or return an empty string."""
    order = np.argsort(values)
    for a, b in pairwise(order):
        if values[a] == values[b] or not np.isfinite(values[[a, b]]).all():
            return f"heads {min(a, b)} and {max(a, b)} {where} share {values[a]:.9g}"
    return ""


def _first(bad: np.ndarray) -> tuple[int, int]:
    """Return the row and column of the first True element."""
    i, j = np.unravel_index(int(np.argmax(bad)), bad.shape)
    return int(i), int(j)


def _heads(cases: Cases) -> Iterator[tuple[BiasCase, int, np.ndarray]]:
    """Yield each case, the number of each head, and the direction of each step between keys.

    The direction is 1 away from the query, -1 towards it, and 0 if a key is not judged.
    """
    for case in cases:
        side = np.where(case.offsets[:, 1:] > 0, 1, -1)
        side *= case.judged[:, 1:] & case.judged[:, :-1]
        for head in range(len(case.actual)):
            yield case, head, side


def _sides(cases: Cases) -> list[tuple[BiasCase, int, np.ndarray]]:
    """Return the judged keys of every row, up to the query and from the query on."""
    found = []
    for case in cases:
        for i, row in enumerate(case.rows):
            keys = np.flatnonzero(case.judged[i])
            found += [(case, i, keys[keys <= row]), (case, i, keys[keys >= row])]
    return found


def _move(cases: Cases, ruler: Ruler, offset: int, amount: float = 1.0) -> list[BiasCase]:
    """Return the cases with one element at key - query = ``offset`` increased."""
    found = list(cases)
    # The step must exceed the rounding beside large row constants.
    size = max(
        float(np.abs(c.actual, where=np.isfinite(c.actual), out=np.zeros_like(c.actual)).max())
        for c in cases
    )
    for n in reversed(range(len(found))):
        case = found[n]
        row = 0 if offset > 0 else case.q_len - 1
        key = int(case.rows[row]) + offset
        if case.k_len < 3 or not 0 <= key < case.k_len or not case.judged[row, key]:
            continue
        actual = np.array(case.actual)
        actual[-1, row, key] += amount * ruler.beyond(size)
        found[n] = case.with_values(actual)
        return found
    return found


def _same_heads(cases: Cases, ruler: Ruler) -> list[BiasCase]:
    return [c.with_values(np.repeat(c.actual[:1], len(c.actual), axis=0)) for c in cases]


def _longest(cases: Cases) -> tuple[BiasCase, np.ndarray]:
    case = max(cases, key=lambda c: c.k_len)
    return case, np.array(case.actual)


def _far_is_more(cases: Cases, ruler: Ruler) -> list[BiasCase]:
    case, actual = _longest(cases)
    size = np.nanmax(np.where(np.isfinite(actual[-1, -1]), np.abs(actual[-1, -1]), 0.0))
    actual[-1, -1, 0] = actual[-1, -1, case.rows[-1]] + ruler.beyond(float(size))
    return [case.with_values(actual)]


def _own_again(cases: Cases, ruler: Ruler) -> list[BiasCase]:
    case, actual = _longest(cases)
    actual[:, -1, 0] = actual[:, -1, case.rows[-1]]
    actual[-1, -1, 1] += 1.0
    return [case.with_values(actual)]


def _far_moved(cases: Cases, ruler: Ruler) -> list[BiasCase]:
    case, actual = _longest(cases)
    actual[-1, -1, 0] += 1.0
    return [case.with_values(actual)]


TRANSLATION = Property("b(i + s, j + s) = b(i, j)", translation, lambda c, r: _move(c, r, -1))
LINEAR = Property("zero second difference", linear, lambda c, r: _move(c, r, -1))
FARTHER = Property("farther keys get less", farther_is_less, _far_is_more)
HEADS = Property("heads differ", heads_differ, _same_heads)
SYMMETRIC = Property("b(i, j) = b(j, i)", symmetric, lambda c, r: _move(c, r, 1))
OWN = Property("b(i, i) = 0", zero_at_own, lambda c, r: _move(c, r, 0))
ONE_RUN = Property("one run of distances per bucket", one_run, _own_again)


def saturated(distance: int) -> Property:
    """Return the property that all keys beyond ``distance`` have the same bias."""
    return Property("level beyond the last bucket", level_beyond(distance), _far_moved)
