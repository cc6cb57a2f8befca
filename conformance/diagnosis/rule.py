"""Find the shortest rule that gives the numbers a function used, such as positions.

The numbers are decoded from the results. Known variables of every token, such as its index in the
call, are combined by a small grammar: a variable, a quotient or a remainder of it, a sum or a
difference of two variables, a constant, a bound, and a condition under which the rule holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np

from .conditions import (
    APART,
    DIVISORS,
    SHAPE,
    Condition,
    Conditions,
    Variables,
    clamped,
    combined,
    cut_sums,
    parts_by,
    remainder,
)

#: The name of the variable that is declared.
DECLARED = "the declared position"
#: Widths of integers that numbers may be stored in.
_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
#: The largest constant that a rule adds.
_LARGEST = 2**20
#: The code of rules about the range of positions.
_RANGE = "position-range"
#: What may be done about numbers that are too large.
_SUPPORT = "support every value, or raise an error past the largest one"
#: A rule must predict at least this many different wrong numbers for each constant it contains.
_FEWEST = 2
#: A sum is compared with about so many numbers before it is tried as a rule.
_SOME = 50


@dataclass(frozen=True)
class Rule:
    """A rule in words, and the function of the variables that computes its numbers."""

    text: str
    of: Callable[[Variables], np.ndarray]
    constants: int = 0  #: how many constants were measured
    code: str = ""  #: a code of its own, if the rule has one
    where: str = ""  #: the condition under which the numbers differ from the declared ones
    mend: str = ""  #: what to change, if it is more than to use the declared number

    @property
    def words(self) -> str:
        """Return the rule with its condition."""
        return f"{self.text}{f', where {self.where}' if self.where else ''}"

    @property
    def remedy(self) -> str:
        """Return what to change, and where."""
        where = f" where {self.where}" if self.where else ""
        if self.mend:
            what, _, more = self.mend.partition(":")
            return f"{what}{where}:{more if more and not where else f' use {DECLARED} there'}."
        return f"Use {DECLARED}{f', also{where}' if where else ''}, in place of {self.text}."


def find_rule(used: np.ndarray, variables: Variables, declared: str = DECLARED) -> Rule | None:
    """Return the shortest rule that gives ``used`` for every token, or None.

    ``used`` (n,) are the numbers that the function used. ``variables`` are named by words, simple
    ones first. A rule with a condition gives ``declared`` where the condition does not hold.
    """
    right = variables[declared]
    wrong = used != right
    if not wrong.any():
        return None
    conditions = Conditions.of(variables, wrong)
    for of, parts in ((_short, 2), (_long, 2), (_short, 3), (_long, 3)):
        for rule in of(used, variables, wrong):
            if parts > 2:
                break  # without a condition, it was tried before
            if np.array_equal(rule.of(variables), used) and _supported(rule, used, wrong):
                return rule
        found = _conditional(used, variables, declared, wrong, of, conditions, parts)
        if found is not None:
            return found
    for text, cut in cut_sums(used, variables, declared):
        rule = Rule(text, cut, 1, _RANGE)
        if np.array_equal(rule.of(variables), used) and _supported(rule, used, wrong):
            return rule
    return None


def _conditional(
    used: np.ndarray,
    variables: Variables,
    declared: str,
    wrong: np.ndarray,
    rules: Callable[[np.ndarray, Variables, np.ndarray], Iterator[Rule]],
    conditions: Conditions,
    parts: int,
) -> Rule | None:
    """Return a rule with a condition of at most ``parts`` parts."""
    right = variables[declared]
    here = {name: v[wrong] for name, v in variables.items()}
    for rule in rules(used[wrong], here, np.ones(int(wrong.sum()), bool)):
        values = rule.of(variables)
        if not np.array_equal(values[wrong], used[wrong]) or not _supported(rule, used, wrong):
            continue
        if (condition := conditions.sparing(values != right, parts)) is not None:
            return _where(rule, condition, declared)
    return None


def _where(rule: Rule, condition: Condition, declared: str) -> Rule:
    def of(v: Variables) -> np.ndarray:
        return np.where(condition.of(v), rule.of(v), v[declared])

    return Rule(rule.text, of, rule.constants + 1, where=condition.text, mend=rule.mend)


def _supported(rule: Rule, used: np.ndarray, wrong: np.ndarray) -> bool:
    """Return whether the wrong numbers are many enough for the constants of the rule."""
    return bool(wrong.sum() >= _FEWEST * rule.constants)


def _short(used: np.ndarray, variables: Variables, wrong: np.ndarray) -> Iterator[Rule]:
    """Yield simple rules that may give ``used``; their constants are measured."""
    variables = {name: v for name, v in variables.items() if not name.startswith(SHAPE)}
    constant = int(used[0]) if used.size and np.ptp(used) == 0 and wrong.sum() > 1 else None
    if constant is not None and constant > 1:  # a variable that is this number is a better rule
        for name, v in variables.items():
            if (v == constant).all():
                yield Rule(name, lambda v, n=name: v[n])  # type: ignore[misc]
    if constant is not None:
        yield Rule(str(constant), lambda v: np.full_like(v[next(iter(v))], constant), 1)
    for name in (n for n in variables if not n.startswith(APART)):
        yield Rule(name, lambda v, n=name: v[n])  # type: ignore[misc]
    if DECLARED in variables:  # a constant is said before another token's position
        yield from _moved(DECLARED, variables[DECLARED], used, wrong)
    for name in (n for n in variables if n.startswith(APART)):
        yield Rule(name, lambda v, n=name: v[n])  # type: ignore[misc]
    variables = combined(variables)
    for name, v in variables.items():
        yield from _of_one(name, v, used, wrong)
    yield from _at_most(used, variables)
    for (one, a), (two, b) in combinations(variables.items(), 2):
        yield from _sums(used, one, a, two, b, lambda v, n=two: v[n])  # type: ignore[misc]


def _long(used: np.ndarray, variables: Variables, wrong: np.ndarray) -> Iterator[Rule]:
    """Yield rules with a product, a quotient or a remainder."""
    variables = combined(variables)
    variables = {name: v for name, v in variables.items() if not name.startswith(SHAPE)}
    yield from _modulo(used, variables)
    for (one, a), (two, b) in combinations(variables.items(), 2):
        if np.array_equal(a * b, used) and a.any() and b.any():
            yield Rule(f"{one} times {two}", lambda v, i=one, j=two: v[i] * v[j])  # type: ignore[misc]
    yield from _times(used, variables)
    yield from _divided(used, variables)


def _moved(name: str, v: np.ndarray, used: np.ndarray, wrong: np.ndarray) -> Iterator[Rule]:
    """Yield the rule that a constant is added to the variable, if there is one."""
    away = v[wrong] - used[wrong]
    if away.size and (away == away[0]).all() and 0 < abs(int(away[0])) <= _LARGEST:
        yield _plus(Rule(name, lambda x, n=name: x[n]), -int(away[0]))  # type: ignore[misc]


def _of_one(name: str, v: np.ndarray, used: np.ndarray, wrong: np.ndarray) -> Iterator[Rule]:
    """Yield rules of one variable: a multiple, a bound, a remainder, a narrow integer."""
    for by in (2, -1, 3):
        text = f"{by} times {name}" if by > 0 else f"minus {name}"
        mend = "" if name != DECLARED else f"Do not multiply {name} by {by}"
        yield Rule(text, lambda x, n=name, by=by: by * x[n], mend=mend)  # type: ignore[misc]
    yield from _moved(name, v, used, wrong)
    away = v[wrong] - used[wrong]
    total = v[wrong] + used[wrong]
    if total.size > 1 and (total == total[0]).all() and np.ptp(v[wrong]):
        yield Rule(f"{total[0]} - {name}", lambda x, n=name, c=total[0]: c - x[n], 1)  # type: ignore[misc]
    top, low = int(used.max()), int(used.min())
    text = f"{name}, clamped to at most {top}"
    mend = _mend(name, f"Do not clamp {name} to {top}: {_SUPPORT}")
    yield Rule(text, lambda x, n=name: np.minimum(x[n], top), 1, _RANGE, mend=mend)  # type: ignore[misc]
    text = f"{name}, clamped to at least {low}"
    mend = _mend(name, f"Do not clamp {name} to {low}: {_SUPPORT}")
    yield Rule(text, lambda x, n=name: np.maximum(x[n], low), 1, mend=mend)  # type: ignore[misc]
    yield from _moved_and_cut(name, v, used)
    size = int(np.gcd.reduce(away)) if away.size else 0
    for n in dict.fromkeys((size, *(d for d in DIVISORS if size and size % d == 0))):
        if n > 1:
            text = f"{name} modulo {n}"
            mend = _mend(name, f"Do not reduce {name} modulo {n}: {_SUPPORT}")
            yield Rule(text, lambda x, k=name, n=n: x[k] % n, 1, _RANGE, mend=mend)  # type: ignore[misc]
    for kind in _INTEGERS:
        narrow = np.iinfo(kind)
        if v.size and (v.max() > narrow.max or v.min() < narrow.min):
            text = f"{name} stored in {kind}, which wraps round"
            of = lambda x, k=name, t=kind: x[k].astype(t).astype(np.int64)  # noqa: E731
            mend = _mend(name, f"Hold {name} in int64: {kind} wraps round")
            rule = Rule(text, of, 0, _RANGE, mend=mend)
            rest = np.unique(used - v.astype(kind).astype(np.int64))
            yield _plus(rule, int(rest[0])) if rest.size == 1 and abs(rest[0]) <= 2 else rule
            if low >= 0 > narrow.min:
                at_least = lambda x, of=of: np.maximum(of(x), 0)  # noqa: E731
                words = f"{text}; negative numbers become 0"
                yield Rule(words, at_least, 0, _RANGE, mend=rule.mend)
    ones = v[used == 1]
    measured = int(ones.min()) if ones.size else 0  # the divisor of which 1 is the quotient
    for n in dict.fromkeys((*DIVISORS, *(n for n in (measured,) if 1 < n <= _LARGEST))):
        mend = _mend(name, f"Use {name} itself, not its quotient by {n}")
        few = int(n not in DIVISORS)
        yield Rule(f"{name} // {n}", lambda x, k=name, n=n: x[k] // n, few, mend=mend)  # type: ignore[misc]
    for n in DIVISORS:
        text = f"{name} rounded down to a multiple of {n}"
        mend = f"Do not round {name} down to a multiple of {n}: to divide it by {n}, use /, not //"
        mend = _mend(name, mend)
        yield Rule(text, lambda x, k=name, n=n: x[k] // n * n, mend=mend)  # type: ignore[misc]


def _moved_and_cut(name: str, v: np.ndarray, used: np.ndarray) -> Iterator[Rule]:
    """Yield the rules that a constant is added to the declared number, and the sum is cut."""
    if name != DECLARED or not used.size:
        return
    mend = f"Add nothing to {name}, and do not {{}}: {_SUPPORT}"
    for end, words, clamp in ((used.max(), "most", np.minimum), (used.min(), "least", np.maximum)):
        by = np.unique((used - v)[used != end])
        index = by.size == 1 and by[0] == -1 and end <= 0  # 1 less, at least 0
        if by.size == 1 and by[0] and not index and (used == end).sum() > _FEWEST:
            text = f"{name} {'+' if by[0] > 0 else '-'} {abs(by[0])}, clamped to at {words} {end}"
            of = lambda x, by=by, end=end, c=clamp: c(x[name] + by[0], end)  # noqa: E731
            yield Rule(text, of, 2, _RANGE, mend=mend.format("clamp it"))
    more = int(np.median(used - v))
    past = v + more - used
    n = int(np.gcd.reduce(past))
    alone = int(np.gcd.reduce(v - used))  # a modulus without a sum is simpler
    if more and n > 1 and (past != 0).sum() >= _FEWEST and (v % max(alone, 1) != used).any():
        words = f"({name} {'+' if more > 0 else '-'} {abs(more)}) modulo {n}"
        mend = mend.format("reduce it")
        yield Rule(words, lambda x: (x[name] + more) % n, 2, _RANGE, mend=mend)


def _at_most(used: np.ndarray, variables: Variables) -> Iterator[Rule]:
    """Yield the declared number, clamped to another variable, or to 1 less."""
    if DECLARED not in variables or not used.size:
        return
    v = variables[DECLARED]
    for name, bound in variables.items():
        for less in (1, 0):
            if name == DECLARED or not np.array_equal(clamped(v, bound - less), used):
                continue
            words = f"{name} - 1" if less else name
            mend = f"Do not clamp {DECLARED} to {words}: {_SUPPORT}"
            text = f"{DECLARED}, clamped to at most {words}"
            of = lambda x, n=name, less=less: clamped(x[DECLARED], x[n] - less)  # noqa: E731
            yield Rule(text, of, 0, _RANGE, mend=mend)
    here = v != used
    if not here.any() or np.ptp((v - used)[here]) == 0:  # a shift is simpler
        return
    least = int(used[here].min()) + 1  # of a table that has at least so many rows
    for name, bound in variables.items():
        most = np.maximum(bound, least)
        if name == DECLARED or least < 2 or not np.array_equal(clamped(v, most - 1), used):
            continue
        words = f"the larger of {least - 1} and {name} - 1"
        mend = f"Do not clamp {DECLARED} to {words}: {_SUPPORT}"
        text = f"{DECLARED}, clamped to at most {words}"
        of = lambda x, n=name, c=least: clamped(x[DECLARED], np.maximum(x[n], c) - 1)  # noqa: E731
        yield Rule(text, of, 1, _RANGE, mend=mend)


def _modulo(used: np.ndarray, variables: Variables) -> Iterator[Rule]:
    """Yield the declared number modulo another variable; modulo 0, it is itself."""
    if DECLARED not in variables or not used.size:
        return
    v = variables[DECLARED]
    yield from _wrapped(used, v)
    for name, by in variables.items():
        if name == DECLARED or not np.array_equal(remainder(v, by), used):
            continue
        of = lambda x, n=name: remainder(x[DECLARED], x[n])  # noqa: E731
        mend = f"Do not reduce {DECLARED} modulo {name}: {_SUPPORT}"
        yield Rule(f"{DECLARED} modulo {name}", of, 0, _RANGE, mend=mend)
    for name, by in variables.items():
        for least in DIVISORS[3:] if name != DECLARED and np.ptp(by) else ():
            if not np.array_equal(v % np.maximum(by, least), used):
                continue
            to = lambda x, n=name, c=least: x[DECLARED] % np.maximum(x[n], c)  # noqa: E731
            words = f"{DECLARED} modulo the larger of {least} and {name}"
            mend = f"Do not reduce {words}: {_SUPPORT}"
            yield Rule(words, to, 1, _RANGE, mend=mend)


def _wrapped(used: np.ndarray, v: np.ndarray) -> Iterator[Rule]:
    """Yield that the declared number is wrapped round into a range that begins below 0.

    Both ends of the range must occur.
    """
    size, low = int(np.gcd.reduce(v - used)), int(used.min(initial=0))
    ends = low < 0 and used.max(initial=0) == low + size - 1
    if not ends or not np.array_equal((v - low) % size + low, used):
        return
    high = low + size - 1
    yield Rule(
        f"{DECLARED}, wrapped round into {low} .. {high}",
        lambda x: (x[DECLARED] - low) % size + low,
        2,
        _RANGE,
        mend=f"Do not wrap {DECLARED} round past {high}: {_SUPPORT}",
    )


def _mend(name: str, words: str) -> str:
    """Return the words if the rule changes the declared number; another one is not to be used."""
    return words if name == DECLARED else ""


def _times(used: np.ndarray, variables: Variables) -> Iterator[Rule]:
    """Yield the sum of a variable and a measured multiple of another one.

    A start that is added after the division by the factor of a scaling is such a multiple.
    """
    last = sorted(variables.items(), key=lambda item: item[0] == DECLARED)
    for (one, a), (two, b) in permutations(last, 2):
        at = int(np.argmax(b != 0)) if b.size else 0
        if not b.size or b[at] == 0 or np.ptp(b) == 0:
            continue
        n, rest = divmod(int(used[at] - a[at]), int(b[at]))
        if not rest and 2 <= n <= _LARGEST and np.array_equal(a + n * b, used):
            of = lambda v, i=one, j=two, n=n: v[i] + n * v[j]  # noqa: E731
            yield Rule(f"{one} + {n} times {two}", of, 1)


def _divided(used: np.ndarray, variables: Variables) -> Iterator[Rule]:
    """Yield sums of a variable with a quotient or a remainder of a variable."""
    names, every = list(variables), np.array(list(variables.values()))
    some = slice(None, None, max(used.size // _SOME, 1))
    for name, v in variables.items():
        for n in (n for n in DIVISORS if n <= v.max()) if np.ptp(v) else ():
            for words, of in parts_by(name, n):
                w, second = of(v), lambda x, of=of, n=name: of(x[n])
                for i in np.flatnonzero(_may_give(used[some], every[:, some], w[some])):
                    yield from _sums(used, names[i], every[i], words, w, second)


def _may_give(used: np.ndarray, every: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return which rows, plus or minus b, are ``used`` but for a constant or a bound."""
    found = np.zeros(len(every), bool)
    for total in (every + b, every - b):
        rest = used - total
        found |= (rest == rest[:, :1]).all(axis=1) | (np.maximum(total, 0) == used).all(axis=1)
    return found


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
            of = lambda v, r=low: np.maximum(r.of(v), 0)  # noqa: E731
            yield Rule(f"{text}, at least 0", of, mend=_without(one, two, sign))
        if not rest.size or (rest != rest[0]).any() or abs(int(rest[0])) > 2:
            continue
        of = lambda v, s=sign: v[one] + s * second(v)  # noqa: E731
        rule = Rule(text, of, mend="" if rest[0] else _without(one, two, sign))
        yield _plus(rule, int(rest[0]))


def _without(one: str, two: str, sign: int) -> str:
    """Return the words against a sum or a difference of the declared number and another one."""
    if one == DECLARED:
        return f"Do not {'add' if sign > 0 else 'subtract'} {two}: use {DECLARED} itself"
    return f"Do not add {one}: use {DECLARED} itself" if two == DECLARED and sign > 0 else ""


def _plus(rule: Rule, constant: int) -> Rule:
    if not constant:
        return rule
    sign = "+" if constant > 0 else "-"
    text = f"{rule.text} {sign} {abs(constant)}"
    mend = rule.mend
    if rule.text == DECLARED:
        mend = f"{'Subtract' if constant > 0 else 'Add'} {abs(constant)}: use {DECLARED} itself"
    return Rule(text, lambda v: rule.of(v) + constant, rule.constants + 1, rule.code, mend=mend)
