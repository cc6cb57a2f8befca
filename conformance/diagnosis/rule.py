"""Find the shortest rule that gives the numbers a function used, such as positions.

The numbers are decoded from the results. Known variables of every token, such as its index in the
call, are combined by a small grammar: a variable, a quotient or a remainder of it, a sum or a
difference of two variables, a constant, a bound, and a condition under which the rule holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np

#: Named variables of tokens: integers that broadcast to one shape.
Variables = Mapping[str, np.ndarray]
#: The name of the variable that is declared.
DECLARED = "the declared position"
#: The names of sizes.
SIZES = ("the length of the call", "the number of heads", "the number of batch rows")
#: The names of an index and of the length that it runs to.
TILED = (
    ("the index in the call", "the length of the call"),
    ("the index in the chunk", "the length of the chunk"),
    ("the head", "the number of heads"),
    ("the batch row", "the number of batch rows"),
    ("the row", "the height"),
    ("the column", "the width"),
)
#: Divisors of variables: sizes of tiles, pages and vectors.
DIVISORS = (2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
#: Widths of integers that numbers may be stored in.
_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
#: The largest constant that a rule adds.
_LARGEST = 2**20
#: Three conditions are combined from the first of the single ones only.
_MOST_OF_THREE = 16
#: The code of rules about the range of positions.
_RANGE = "position-range"
#: A rule must predict at least this many different wrong numbers for each constant it contains.
_FEWEST = 2


@dataclass(frozen=True)
class Rule:
    """A rule in words, and the function of the variables that computes its numbers."""

    text: str
    of: Callable[[Variables], np.ndarray]
    constants: int = 0  #: how many constants were measured
    code: str = ""  #: a code of its own, if the rule has one
    where: str = ""  #: the condition under which the numbers differ from the declared ones

    @property
    def words(self) -> str:
        """Return the rule with its condition."""
        return f"{self.text}{f', where {self.where}' if self.where else ''}"


@dataclass(frozen=True)
class _Condition:
    text: str
    of: Callable[[Variables], np.ndarray]
    parts: int = 1


def find_rule(used: np.ndarray, variables: Variables, declared: str = DECLARED) -> Rule | None:
    """Return the shortest rule that gives ``used`` for every token, or None.

    Parameters
    ----------
    used : array (n,), int
        The numbers that the function used.
    variables : mapping of str to array (n,), int
        The variables, by the words that name them; simple ones first.
    declared : str
        The name of the variable that is declared. A rule with a condition gives this variable
        where the condition does not hold.
    """
    right = variables[declared]
    wrong = used != right
    if not wrong.any():
        return None
    conditions = list(_conditions(variables, wrong))
    for of, several in ((_short, False), (_long, True)):
        for rule in of(used, variables, wrong):
            if np.array_equal(rule.of(variables), used) and _supported(rule, used, wrong):
                return rule
        found = _conditional(used, variables, declared, wrong, of, conditions, several)
        if found is not None:
            return found
    return None


def _conditional(
    used: np.ndarray,
    variables: Variables,
    declared: str,
    wrong: np.ndarray,
    rules: Callable[[np.ndarray, Variables, np.ndarray], Iterator[Rule]],
    conditions: list[_Condition],
    several: bool,
) -> Rule | None:
    """Return a rule with a condition, which may have several parts."""
    right = variables[declared]
    here = {name: v[wrong] for name, v in variables.items()}
    for rule in rules(used[wrong], here, np.ones(int(wrong.sum()), bool)):
        values = rule.of(variables)
        if not np.array_equal(values[wrong], used[wrong]) or not _supported(rule, used, wrong):
            continue
        for condition in conditions:
            if (several or condition.parts <= 2) and np.array_equal(
                np.where(condition.of(variables), values, right), used
            ):
                return _where(rule, condition, declared)
    return None


def _where(rule: Rule, condition: _Condition, declared: str) -> Rule:
    def of(v: Variables) -> np.ndarray:
        return np.where(condition.of(v), rule.of(v), v[declared])

    return Rule(rule.text, of, rule.constants + 1, where=condition.text)


def _supported(rule: Rule, used: np.ndarray, wrong: np.ndarray) -> bool:
    """Return whether the wrong numbers are many enough for the constants of the rule."""
    return bool(wrong.sum() >= _FEWEST * rule.constants)


def _short(used: np.ndarray, variables: Variables, wrong: np.ndarray) -> Iterator[Rule]:
    """Yield simple rules that may give ``used``; their constants are measured."""
    if used.size and np.ptp(used) == 0 and wrong.sum() > 1:
        constant = int(used[0])
        yield Rule(str(constant), lambda v: np.full_like(v[next(iter(v))], constant), 1)
    for name in variables:
        yield Rule(name, lambda v, n=name: v[n])  # type: ignore[misc]
    for name, v in variables.items():
        yield from _of_one(name, v, used, wrong)
    for (one, a), (two, b) in combinations(variables.items(), 2):
        yield from _sums(used, one, a, two, b, lambda v, n=two: v[n])  # type: ignore[misc]


def _long(used: np.ndarray, variables: Variables, wrong: np.ndarray) -> Iterator[Rule]:
    """Yield rules with a product, a quotient or a remainder."""
    for (one, a), (two, b) in combinations(variables.items(), 2):
        if np.array_equal(a * b, used):
            yield Rule(f"{one} times {two}", lambda v, i=one, j=two: v[i] * v[j])  # type: ignore[misc]
    yield from _divided(used, variables)


def _of_one(name: str, v: np.ndarray, used: np.ndarray, wrong: np.ndarray) -> Iterator[Rule]:
    """Yield rules of one variable: a multiple, a bound, a remainder, a narrow integer."""
    for by in (2, -1, 3):
        text = f"{by} times {name}" if by > 0 else f"minus {name}"
        yield Rule(text, lambda x, n=name, by=by: by * x[n])  # type: ignore[misc]
    away = v[wrong] - used[wrong]
    if away.size and (away == away[0]).all() and 0 < abs(int(away[0])) <= _LARGEST:
        yield _plus(Rule(name, lambda x, n=name: x[n]), -int(away[0]))  # type: ignore[misc]
    total = v[wrong] + used[wrong]
    if total.size > 1 and (total == total[0]).all() and np.ptp(v[wrong]):
        yield Rule(f"{total[0]} - {name}", lambda x, n=name, c=total[0]: c - x[n], 1)  # type: ignore[misc]
    top, low = int(used.max()), int(used.min())
    text = f"{name}, clamped to at most {top}"
    yield Rule(text, lambda x, n=name: np.minimum(x[n], top), 1, _RANGE)  # type: ignore[misc]
    text = f"{name}, clamped to at least {low}"
    yield Rule(text, lambda x, n=name: np.maximum(x[n], low), 1)  # type: ignore[misc]
    size = int(np.gcd.reduce(away)) if away.size else 0
    for n in dict.fromkeys((size, *(d for d in DIVISORS if size and size % d == 0))):
        if n > 1:
            yield Rule(f"{name} modulo {n}", lambda x, k=name, n=n: x[k] % n, 1, _RANGE)  # type: ignore[misc]
    for kind in _INTEGERS:
        narrow = np.iinfo(kind)
        if v.size and (v.max() > narrow.max or v.min() < narrow.min):
            text = f"{name} stored in {kind}, which wraps round"
            rule = Rule(text, lambda x, k=name, t=kind: x[k].astype(t).astype(np.int64), 0, _RANGE)  # type: ignore[misc]
            rest = np.unique(used - v.astype(kind).astype(np.int64))
            yield _plus(rule, int(rest[0])) if rest.size == 1 and abs(rest[0]) <= 2 else rule
    for n in DIVISORS:
        yield Rule(f"{name} // {n}", lambda x, k=name, n=n: x[k] // n)  # type: ignore[misc]
        text = f"{name} rounded down to a multiple of {n}"
        yield Rule(text, lambda x, k=name, n=n: x[k] // n * n)  # type: ignore[misc]


def _divided(used: np.ndarray, variables: Variables) -> Iterator[Rule]:
    """Yield sums of a variable with a quotient or a remainder of a variable."""
    for name, v in variables.items():
        if np.ptp(v) == 0:
            continue
        for n in DIVISORS:
            if n > v.max():
                break
            for words, of in _parts(name, n):
                for other, w in variables.items():
                    yield from _sums(used, other, w, words, of(v), partial(_part, of, name))


def _parts(name: str, n: int) -> tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...]:
    return (
        (f"{name} modulo {n}", lambda x: x % n),
        (f"{name} // {n}", lambda x: x // n),
        (f"({name} // {n}) * {n}", lambda x: x // n * n),
    )


def _part(of: Callable[[np.ndarray], np.ndarray], name: str, v: Variables) -> np.ndarray:
    return of(v[name])


def _sums(
    used: np.ndarray,
    one: str,
    a: np.ndarray,
    two: str,
    b: np.ndarray,
    second: Callable[[Variables], np.ndarray],
) -> Iterator[Rule]:
    """Yield the sum and the difference of two terms, plus a constant, if they give ``used``."""
    for sign, text in ((1, f"{one} + {two}"), (-1, f"{one} - {two}")):
        rest = used - a - sign * b
        if rest.size and (rest >= 0).all() and (rest > 0).any():
            low = Rule(text, lambda v, s=sign: v[one] + s * second(v))  # type: ignore[misc]
            yield Rule(f"{text}, at least 0", lambda v, r=low: np.maximum(r.of(v), 0))  # type: ignore[misc]
        if not rest.size or (rest != rest[0]).any() or abs(int(rest[0])) > 2:
            continue
        rule = Rule(text, lambda v, s=sign: v[one] + s * second(v))  # type: ignore[misc]
        yield _plus(rule, int(rest[0]))


def _plus(rule: Rule, constant: int) -> Rule:
    if not constant:
        return rule
    sign = "+" if constant > 0 else "-"
    text = f"{rule.text} {sign} {abs(constant)}"
    return Rule(text, lambda v: rule.of(v) + constant, rule.constants + 1, rule.code)


def _conditions(variables: Variables, wrong: np.ndarray) -> Iterator[_Condition]:
    """Yield conditions that hold for all wrong numbers: single ones, then pairs, then triples."""
    single = [c for c in _atoms(variables, wrong) if c.of(variables)[wrong].all()]
    yield from single
    for count, most in ((2, len(single)), (3, _MOST_OF_THREE)):
        for several in combinations(single[:most], count):
            text = " and ".join(c.text for c in several)
            yield _Condition(text, lambda v, all_of=several: _all(all_of, v), count)  # type: ignore[misc]


def _all(conditions: tuple[_Condition, ...], v: Variables) -> np.ndarray:
    return np.asarray(np.logical_and.reduce([c.of(v) for c in conditions]))


def _remainders(variables: Variables) -> Iterator[_Condition]:
    """Yield whether a token is past the last whole tile of its call."""
    for index, length in TILED:
        if index in variables and length in variables:
            for n in DIVISORS[:8]:
                text = f"{index} is past the last multiple of {n}"
                yield _Condition(text, lambda v, i=index, m=length, n=n: v[i] >= v[m] // n * n)  # type: ignore[misc]


def _equal(variables: Variables) -> Iterator[_Condition]:
    """Yield whether two sizes of a call are equal."""
    for one, two in combinations([name for name in SIZES if name in variables], 2):
        text = f"{one} equals {two}"
        yield _Condition(text, lambda v, a=one, b=two: v[a] == v[b])  # type: ignore[misc]


def _atoms(variables: Variables, wrong: np.ndarray) -> Iterator[_Condition]:
    yield from _remainders(variables)
    yield from _equal(variables)
    for name, v in variables.items():
        if np.ptp(v) == 0:
            continue
        low, high = int(v[wrong].min()), int(v[wrong].max())
        if low == high:
            yield _Condition(f"{name} is {low}", lambda x, k=name, c=low: x[k] == c)  # type: ignore[misc]
        if low > v.min():
            text = f"{name} is at least {low}"
            yield _Condition(text, lambda x, k=name, c=low: x[k] >= c)  # type: ignore[misc]
        if high < v.max():
            text = f"{name} is at most {high}"
            yield _Condition(text, lambda x, k=name, c=high: x[k] <= c)  # type: ignore[misc]
        for n in DIVISORS[:8]:
            rest = np.unique(v[wrong] % n)
            if rest.size == 1 and v.max() >= n:
                text = f"{name} modulo {n} is {rest[0]}"
                yield _Condition(text, lambda x, k=name, n=n, r=rest[0]: x[k] % n == r)  # type: ignore[misc]
        odd = v % 2 == 1
        if odd[wrong].all() and not odd.all():
            yield _Condition(f"{name} is odd", lambda x, k=name: x[k] % 2 == 1)  # type: ignore[misc]
