"""The conditions of a rule: under which of them the numbers that a function used are wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np

#: Named variables of tokens: integers that broadcast to one shape.
Variables = Mapping[str, np.ndarray]
#: Begins the names of variables that are not combined with others.
ALONE = "the position of token "
#: Begin the names of these variables, and of others that are not combined.
APART = (ALONE, "the row of a ", "the column of a ")
#: Begins the names of variables that only conditions use.
SHAPE = (
    "the number of axes ", "the index in the flattened ", "the size of the flattened ",
    "the number of gaps ",
)  # fmt: skip
#: The index and the size of the tokens of all rows and heads, as a kernel may count them.
FLAT = ("the index in the flattened (B, H, S)", "the size of the flattened (B, H, S)")
#: The names of sizes.
SIZES = (
    "the length of the call", "the number of heads", "the number of batch rows",
    "the length of the row", "the number of rows",
)  # fmt: skip
#: The names of an index and of the length that it runs to.
TILED = (
    ("the index in the call", "the length of the call"),
    ("the index in the chunk", "the length of the chunk"),
    ("the head", "the number of heads"),
    ("the batch row", "the number of batch rows"),
    ("the row", "the height"),
    ("the column", "the width"),
    FLAT,
)
#: Divisors of variables: sizes of tiles, pages and vectors.
DIVISORS = (2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
#: Three conditions are combined from the first of the single ones only.
_MOST_OF_THREE = 40


@dataclass(frozen=True)
class Condition:
    """A condition on the variables of tokens."""

    text: str
    of: Callable[[Variables], np.ndarray]
    bound: tuple[str, int, int] | None = None  #: variable, bound, and 1 for a lower one or -1


@dataclass(frozen=True)
class Conditions:
    """Conditions that hold for all wrong numbers, and where each holds for the right ones."""

    single: tuple[Condition, ...]
    holds: np.ndarray  #: (conditions, patterns), where right numbers differ
    pattern: np.ndarray  #: which pattern a number has
    right: Variables  #: the variables of the right numbers

    @classmethod
    def of(cls, variables: Variables, wrong: np.ndarray) -> Conditions:
        """Draw the conditions from the wrong numbers."""
        variables = combined(variables)
        every = [(c, np.asarray(c.of(variables))) for c in _atoms(variables, wrong)]
        every = [(c, holds) for c, holds in every if holds[wrong].all()]
        if not every:
            return cls((), np.empty((0, 1)), np.zeros(wrong.size, np.int64), {})
        each = np.array([holds & ~wrong for _, holds in every])
        patterns, of = np.unique(np.packbits(each, axis=0), axis=1, return_inverse=True)
        found = np.unpackbits(patterns, axis=0, count=len(every)).astype(np.float32)
        right = {name: v[~wrong] for name, v in variables.items()}
        return cls(tuple(c for c, _ in every), found, of.reshape(-1), right)

    def sparing(self, changed: np.ndarray, parts: int) -> Condition | None:
        """Return the first condition that holds for no right number that a rule would change.

        Single ones come first, then pairs, then triples if ``parts`` is 3.
        """
        bad = self.holds[:, np.flatnonzero(np.bincount(self.pattern[changed]))]
        free = np.flatnonzero(~bad.any(axis=1))
        if free.size:
            return self._joined(free[:1])
        pairs = np.argwhere(np.triu(bad @ bad.T == 0, 1))
        if pairs.size:
            return self._joined(pairs[0])
        few = bad[:_MOST_OF_THREE]
        for i, j in combinations(range(len(few)), 2) if parts > 2 else ():
            third = np.flatnonzero(few[j + 1 :] @ (few[i] * few[j]) == 0)
            if third.size:
                return self._joined((i, j, j + 1 + third[0]))
        return None

    def _joined(self, at: Iterable[int]) -> Condition:
        several = tuple(self.single[i] for i in at)
        text = " and ".join(f"{c.text}{self._nearest(c, several)}" for c in several)
        return Condition(text, partial(_all, several))

    def _nearest(self, one: Condition, several: tuple[Condition, ...]) -> str:
        """Return the nearest right value beyond a threshold, if values between were not tried.

        Where there are several conditions, the others hold for it.
        """
        if one.bound is None:
            return ""
        name, bound, sign = one.bound
        values = self.right[name]
        others = [other.of(self.right) for other in several if other is not one]
        values = values[np.logical_and.reduce([sign * values < sign * bound, *others])]
        near = sign * int((sign * values).max()) if values.size else bound
        return f" ({near} is right)" if abs(near - bound) > 1 else ""


def combined(variables: Variables) -> Variables:
    """Return the variables that are combined with others."""
    return {name: v for name, v in variables.items() if not name.startswith(APART)}


def _all(conditions: tuple[Condition, ...], v: Variables) -> np.ndarray:
    return np.asarray(np.logical_and.reduce([c.of(v) for c in conditions]))


def _remainders(variables: Variables) -> Iterator[Condition]:
    """Yield whether a token is past the last whole tile of its call."""
    for index, length in TILED:
        if index in variables and length in variables:
            for n in DIVISORS[:8]:
                text = f"{index} is past the last multiple of {n}"
                yield Condition(text, lambda v, i=index, m=length, n=n: v[i] >= v[m] // n * n)  # type: ignore[misc]


def _halves(variables: Variables) -> Iterator[Condition]:
    """Yield whether an index is in the first half or in the second one, rounded either way."""
    for index, length in TILED[:4]:
        if index in variables and length in variables:
            for more, rounded in ((0, "rounded down"), (1, "rounded up")):
                half = f"{index} is {{}} half of {length}, {rounded}"
                low = lambda v, i=index, m=length, n=more: v[i] >= (v[m] + n) // 2  # noqa: E731
                yield Condition(half.format("at least"), low)
                high = lambda v, i=index, m=length, n=more: v[i] < (v[m] + n) // 2  # noqa: E731
                yield Condition(half.format("below"), high)


def _equal(variables: Variables) -> Iterator[Condition]:
    """Yield whether two sizes of a call are equal."""
    for one, two in combinations([name for name in SIZES if name in variables], 2):
        text = f"{one} equals {two}"
        yield Condition(text, lambda v, a=one, b=two: v[a] == v[b])  # type: ignore[misc]


def _alone(variables: Variables, wrong: np.ndarray) -> Iterator[Condition]:
    """Yield whether a call has one token, which is also the end of any tile."""
    for name in dict.fromkeys(length for _, length in TILED if length in variables):
        if (variables[name][wrong] == 1).all() and np.ptp(variables[name]):
            yield Condition(f"{name} is 1", lambda v, k=name: v[k] == 1)  # type: ignore[misc]


def _atoms(variables: Variables, wrong: np.ndarray) -> Iterator[Condition]:
    yield from _alone(variables, wrong)
    yield from _remainders(variables)
    yield from _halves(variables)
    yield from _equal(variables)
    for name, v in variables.items():
        if np.ptp(v) == 0:
            continue
        low, high = int(v[wrong].min()), int(v[wrong].max())
        if low == high:
            yield Condition(f"{name} is {low}", lambda x, k=name, c=low: x[k] == c)  # type: ignore[misc]
        if low > v.min():
            text = f"{name} is at least {low}"
            yield Condition(text, lambda x, k=name, c=low: x[k] >= c, (name, low, 1))  # type: ignore[misc]
        if high < v.max():
            text = f"{name} is at most {high}"
            yield Condition(text, lambda x, k=name, c=high: x[k] <= c, (name, high, -1))  # type: ignore[misc]
        for n in DIVISORS[:8]:
            rest = np.unique(v[wrong] % n)
            if rest.size == 1 and v.max() >= n:
                text = f"{name} modulo {n} is {rest[0]}"
                yield Condition(text, lambda x, k=name, n=n, r=rest[0]: x[k] % n == r)  # type: ignore[misc]
        odd = v % 2 == 1
        if odd[wrong].all() and not odd.all():
            yield Condition(f"{name} is odd", lambda x, k=name: x[k] % 2 == 1)  # type: ignore[misc]


def cut_sums(
    used: np.ndarray, variables: Variables, declared: str
) -> Iterator[tuple[str, Callable[[Variables], np.ndarray]]]:
    """Yield words and functions of declared numbers plus a variable, clamped or modulo a number."""
    if declared not in variables or not used.size:
        return
    top = int(used.max())
    names = [n for n in variables if not n.startswith((*APART, *SHAPE))]
    for name in names:

        def at_most(v: Variables, name: str = name) -> np.ndarray:
            return np.asarray(np.minimum(v[declared] + v[name], top))

        words = f"2 times {declared}" if name == declared else f"{declared} + {name}"
        away = variables[declared] + variables[name] - used
        if not away.any() or away.min() < 0:
            continue
        yield f"{words}, clamped to at most {top}", at_most
        size = int(np.gcd.reduce(away))

        def modulo(v: Variables, name: str = name, size: int = size) -> np.ndarray:
            return (v[declared] + v[name]) % size

        if size > top:
            yield f"({words}) modulo {size}", modulo


def remainder(v: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Return the numbers modulo others; modulo 0, they are themselves."""
    return np.asarray(np.where(by > 0, v % np.maximum(by, 1), v))


def clamped(v: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Return the numbers, clamped to at most another one; an index is never below 0."""
    return np.asarray(np.minimum(v, np.maximum(most, 0)))


def parts_by(name: str, n: int) -> tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...]:
    """Return the words and the functions of a number's parts, if it is divided by n."""
    return (
        (f"{name} modulo {n}", lambda x: x % n),
        (f"{name} // {n}", lambda x: x // n),
        (f"({name} // {n}) * {n}", lambda x: x // n * n),
    )
