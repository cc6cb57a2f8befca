"""Properties of biases, computed from the function's own output alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from .cases import BiasCase, Property, Ruler

Cases = Sequence[BiasCase]


def translation(cases: Cases, ruler: Ruler) -> str:
    """``b(i + s, j + s) == b(i, j)``, across rows and across lengths."""
    longest = max(case.k_len for case in cases)
    shape = (cases[0].actual.shape[0], 2 * longest)
    value, terms = np.zeros(shape), np.zeros(shape)
    first: list[str] = [""] * (2 * longest)
    for case in cases:
        for i, row in enumerate(case.rows):
            keys = np.flatnonzero(case.judged[i])
            at = keys - row + longest
            known = np.array([bool(first[n]) for n in at], dtype=bool)
            old, new = at[known], keys[known]
            here = case.moved[:, i]
            bad = ruler.differ(
                here[:, new], value[:, old], terms[:, old] + case.terms[:, i][:, new]
            )
            if bad.any():
                head, n = (int(x) for x in np.argwhere(bad)[0])
                return (
                    f"key - query = {old[n] - longest}, head {head}: {here[head, new[n]]:.9g} in "
                    f"row {i} of {case.name}, {value[head, old[n]]:.9g} in {first[old[n]]}"
                )
            value[:, at[~known]] = here[:, keys[~known]]
            terms[:, at[~known]] = case.terms[:, i][:, keys[~known]]
            for n in at[~known]:
                first[n] = f"row {i} of {case.name}"
    return ""


def linear(cases: Cases, ruler: Ruler) -> str:
    """The second difference over distance is zero on either side of the query."""
    for case, i, keys in _sides(cases):
        row, size = case.actual[:, i][:, keys], case.terms[:, i][:, keys]
        if keys.size < 3:
            continue
        with np.errstate(invalid="ignore"):
            middle = (row[:, 2:] + row[:, :-2]) / 2
        bad = ruler.differ(row[:, 1:-1], middle, size[:, 2:] + size[:, 1:-1] + size[:, :-2])
        if bad.any():
            head, n = (int(x) for x in np.argwhere(bad)[0])
            return (
                f"{case.name}, row {i}, head {head}, keys {keys[n]}..{keys[n] + 2}: "
                f"{', '.join(f'{v:.9g}' for v in row[head, n : n + 3])} are not on a line"
            )
    return ""


def farther_is_less(cases: Cases, ruler: Ruler) -> str:
    """The bias falls with the distance, for every head."""
    for case, i, keys in _sides(cases):
        near_first = keys[np.argsort(np.abs(keys - case.rows[i]))]
        if near_first.size < 2:
            continue
        row, size = case.actual[:, i][:, near_first], case.terms[:, i][:, near_first]
        with np.errstate(invalid="ignore"):
            step = np.diff(row, axis=1)
        rising = ~(step <= 0) & ruler.differ(step, 0.0, size[:, 1:] + size[:, :-1])
        level = ~(row[:, -1] < row[:, 0])
        if rising.any() or level.any():
            head = int(np.argmax(rising.any(axis=1) | level))
            return (
                f"{case.name}, row {i}, head {head}: {row[head, 0]:.9g} at distance "
                f"{abs(near_first[0] - case.rows[i])}, {row[head, -1]:.9g} at distance "
                f"{abs(near_first[-1] - case.rows[i])}"
            )
    return ""


def heads_differ(cases: Cases, ruler: Ruler) -> str:
    """No two heads have the same bias over the longest row."""
    case = max(cases, key=lambda c: c.k_len)
    drop = case.moved[:, -1][:, case.judged[-1]]
    drop = drop[:, 0] - drop[:, case.rows[-1]]
    return distinct_values(drop, f"over {case.name}")


def symmetric(cases: Cases, ruler: Ruler) -> str:
    """The bias is the same at the distance before and after the query."""
    for case in cases:
        for i, row in enumerate(case.rows):
            reach = int(min(row, case.k_len - 1 - row))
            before, after = row - np.arange(1, reach + 1), row + np.arange(1, reach + 1)
            here, size = case.moved[:, i], case.terms[:, i]
            bad = ruler.differ(here[:, after], here[:, before], size[:, after] + size[:, before])
            if bad.any():
                head, n = (int(x) for x in np.argwhere(bad)[0])
                return (
                    f"{case.name}, row {i}, head {head}: {here[head, before[n]]:.9g} at key - "
                    f"query = {-n - 1}, {here[head, after[n]]:.9g} at {n + 1}"
                )
    return ""


def zero_at_own(cases: Cases, ruler: Ruler) -> str:
    """The bias of a token towards itself is zero."""
    for case in cases:
        bad = ~(case.own[..., 0] == 0)
        if bad.any():
            head, i = (int(x) for x in np.argwhere(bad)[0])
            return f"{case.name}, row {i}, head {head}: {case.own[head, i, 0]:.9g} at its own key"
    return ""


def one_run(cases: Cases, ruler: Ruler) -> str:
    """Away from the query, a bucket's values never come back once they were left (T5)."""
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
    """All keys farther than ``distance`` on one side have the same bias (T5)."""

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
    """The first two heads that share a value, or an empty string."""
    order = np.argsort(values)
    for a, b in pairwise(order):
        if values[a] == values[b] or not np.isfinite(values[[a, b]]).all():
            return f"heads {min(a, b)} and {max(a, b)} {where} share {values[a]:.9g}"
    return ""


def _sides(cases: Cases) -> list[tuple[BiasCase, int, np.ndarray]]:
    """Judged keys of every row, up to the query and from it on."""
    found = []
    for case in cases:
        for i, row in enumerate(case.rows):
            keys = np.flatnonzero(case.judged[i])
            found += [(case, i, keys[keys <= row]), (case, i, keys[keys >= row])]
    return found


def _move(cases: Cases, ruler: Ruler, offset: int, amount: float = 1.0) -> list[BiasCase]:
    """The cases with one element moved up: key - query = ``offset``, last row, last head."""
    found = list(cases)
    # Rows may hold large constants of their own, and are compared with one another.
    size = max(
        float(np.abs(c.actual, where=np.isfinite(c.actual), out=np.zeros_like(c.actual)).max())
        for c in cases
    )
    for n in reversed(range(len(found))):
        case = found[n]
        key = case.k_len - 1 + offset
        row = case.q_len - 1
        if offset > 0:
            row = 0
            key = int(case.rows[0]) + offset
        if case.k_len < 3 or not 0 <= key < case.k_len or not case.judged[row, key]:
            continue
        actual = np.array(case.actual)
        actual[-1, row, key] += amount * ruler.beyond(size)
        found[n] = case.with_values(actual)
        return found
    return found


def _same_heads(cases: Cases, ruler: Ruler) -> list[BiasCase]:
    return [c.with_values(np.repeat(c.actual[:1], len(c.actual), axis=0)) for c in cases]


def _far_is_more(cases: Cases, ruler: Ruler) -> list[BiasCase]:
    case = max(cases, key=lambda c: c.k_len)
    actual = np.array(case.actual)
    size = np.nanmax(np.where(np.isfinite(actual[-1, -1]), np.abs(actual[-1, -1]), 0.0))
    actual[-1, -1, 0] = actual[-1, -1, case.rows[-1]] + ruler.beyond(float(size))
    return [case.with_values(actual)]


def _own_again(cases: Cases, ruler: Ruler) -> list[BiasCase]:
    case = max(cases, key=lambda c: c.k_len)
    actual = np.array(case.actual)
    actual[:, -1, 0] = actual[:, -1, case.rows[-1]]
    actual[-1, -1, 1] += 1.0
    return [case.with_values(actual)]


def _far_moved(cases: Cases, ruler: Ruler) -> list[BiasCase]:
    case = max(cases, key=lambda c: c.k_len)
    actual = np.array(case.actual)
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
    """Keys beyond ``distance`` share their bias."""
    return Property("level beyond the last bucket", level_beyond(distance), _far_moved)
