"""The conditions of which a rule is made, drawn from the elements that are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .features import FACTORS, Name

#: The most values that a condition lists.
LISTED = 3
#: Fewer values are sorted to find the distinct ones.
_SORTED = 64
#: The fewest sizes, of wrong calls and of right ones, that show a divisor.
_SIZES = 3
#: What a condition on a feature costs, beside the cost of its operator: rules of small cost win.
_FEATURE = {
    "size": 1.0, "index": 0.9, "from end": 1.1, "position": 1.0, "distance": 1.0, "far": 1.2,
    "call": 1.6, "first position": 1.5, "fresh": 1.0, "memory": 0.9,
    "own rows": 0.8, "apart": 0.8, "consecutive": 1.2, "fractional": 0.8, "int32": 0.8,
    "remainder": 1.2,
}  # fmt: skip
_OPERATOR = {"is": 0.5, "not": 0.4, "from": 0.6, "to": 0.7, "mod": 1.0, "not mod": 1.2, "in": 1.3}
#: Features whose only condition is that they hold, or that they do not.
_FLAGS = ("fresh", "own rows", "apart", "consecutive", "fractional", "int32", "remainder")


@dataclass(frozen=True)
class Atom:
    """A condition on one feature.

    ``op`` is "is", "not", "from" (at least), "to" (at most), "mod" or "in". ``values`` are its
    numbers: (divisor, remainder) for "mod".
    """

    name: Name
    op: str
    values: tuple[int, ...]

    @property
    def kind(self) -> str:
        """Return the kind of feature."""
        return "remainder" if self.name[0].startswith("remainder") else self.name[0]

    @property
    def of_call(self) -> bool:
        """Return whether the condition is the same for all elements of a call."""
        return self.kind in (
            "size", "call", "first position", "fresh", "memory", "own rows", "apart",
            "consecutive", "fractional", "int32",
        )  # fmt: skip

    @property
    def partial(self) -> bool:
        """Return whether the condition is about more than positions."""
        return self.kind in (
            "index", "from end", "remainder", "size", "call", "fresh", "memory", "own rows",
            "apart",
        )  # fmt: skip

    @property
    def cost(self) -> float:
        """Return how unlikely the condition is as a cause."""
        cost = _FEATURE[self.kind] + _OPERATOR[self.op]
        value = self.values[-1]
        if self.kind == "call" and self.op not in ("from", "to"):
            cost += 2.5
        if self.op == "in":
            return cost + 0.5 * len(self.values)
        if self.op == "is" and value not in (0, 1) and self.kind not in (*_FLAGS, "memory"):
            cost += 0.5 if self.kind == "index" else 0.9
        if self.op == "mod" and self.values[0] == 3:
            cost += 0.2
        if self.op in ("from", "to") and not _round(value, self.op):
            cost += 0.2
        return cost

    def holds(self, value: np.ndarray) -> np.ndarray:
        """Return whether the condition is true for values of its feature."""
        first = self.values[0]
        if self.op in ("mod", "not mod"):
            met = np.mod(value, first) == self.values[1]
            return np.asarray(met if self.op == "mod" else ~met)
        if self.op in ("from", "to"):
            return np.asarray(value >= first if self.op == "from" else value <= first)
        listed = value == first
        for other in self.values[1:]:
            listed = listed | (value == other)
        return np.asarray(~listed if self.op == "not" else listed)


def _round(value: int, op: str) -> bool:
    """Return whether a bound is a power of two, or next to one."""
    bound = value if op == "from" else value + 1
    return bound > 0 and bound & (bound - 1) in (0, 1)


def distinct(values: np.ndarray) -> np.ndarray:
    """Return the sorted distinct values; of many small integers, without sorting them."""
    if values.size < _SORTED:
        return np.unique(values)
    low, high = int(np.floor(values.min())), int(values.max())
    if high - low > 4 * values.size:
        return np.unique(values)
    whole = values.astype(np.int64)
    if values.dtype.kind == "f" and not np.array_equal(whole, values):
        return np.unique(values)
    seen = np.zeros(high - low + 1, bool)
    seen[whole - low] = True
    return (np.flatnonzero(seen) + low).astype(np.float64)


def atoms(name: Name, wrong: np.ndarray, right: np.ndarray) -> Iterator[Atom]:
    """Yield the tightest conditions of each kind that hold for every wrong element.

    ``wrong`` and ``right`` are the values of one feature. A condition that holds for every right
    element as well is left out.
    """
    seen, other = distinct(wrong), distinct(right)
    if other.size == 0 or (seen.size == other.size == 1 and seen[0] == other[0]):
        return
    low, high = int(np.floor(seen[0])), int(np.ceil(seen[-1]))
    kind = "remainder" if name[0].startswith("remainder") else name[0]
    if kind in _FLAGS:
        if seen.size == 1:
            yield Atom(name, "is", (low,))
        return
    if kind == "memory":
        yield Atom(name, "in" if seen.size > 1 else "is", tuple(int(v) for v in seen))
        if seen.size > 1 and 0 in other and 0 not in seen:
            yield Atom(name, "not", (0,))
        return
    if kind == "call":
        # The number of a call is a cause only for the first ones, and for all after some: what is
        # wrong with a single later call, or with all but the last ones, is in their inputs.
        if low == high == 1:
            yield Atom(name, "is", (1,))
        elif seen.size > 1 and other[0] < low:
            yield Atom(name, "from", (low,))
        if seen.size > 1 and low == 1 and high <= LISTED and other[-1] > high:
            yield Atom(name, "to", (high,))
        return
    if seen.size == 1 and low == high:
        yield Atom(name, "is", (low,))
    elif seen.size <= LISTED and (seen == np.floor(seen)).all():
        yield Atom(name, "in", tuple(int(v) for v in seen))
    if other[0] < low:
        yield Atom(name, "from", (low,))
    if other[-1] > high:
        yield Atom(name, "to", (high,))
    lost = np.setdiff1d(other, seen, assume_unique=True)
    inner = lost[(lost > low) & (lost < high)]
    for value in inner if inner.size <= LISTED else inner[:0]:
        yield Atom(name, "not", (int(value),))
    if other[0] < low and lost.size and lost[0] == 0 and (lost.size == 1 or lost[1] > low):
        yield Atom(name, "not", (0,))
    for divisor in FACTORS if seen.size > 1 else ():
        left = np.unique(np.mod(seen, divisor))
        if kind in ("size", "first position") and min(seen.size, lost.size) < _SIZES:
            break  # few sizes share a divisor by chance
        if left.size == 1 and (np.mod(other, divisor) != left[0]).any():
            yield Atom(name, "mod", (divisor, int(left[0])))
        elif left.size == divisor - 1 and divisor in (3, 4, 8):  # "not a multiple"
            gone = np.setdiff1d(np.arange(divisor), left)
            if np.mod(other, divisor).size and (np.mod(other, divisor) == gone[0]).any():
                yield Atom((name[0], name[1]), "not mod", (divisor, int(gone[0])))
