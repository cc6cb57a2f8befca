"""Decode the positions that the tokens of calls were rotated to, and find the rule behind them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Protocol

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.conditions import Variables
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.diagnosis.rule import DECLARED, Rule, find_rule
from posenc_ref.conformance.diagnosis.scored import failed, fits, scores
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.plural import plural
from posenc_ref.conformance.harness.run import Run

from .decode import Decoder

#: How many wrong tokens of a long call are decoded.
_SOME = 64
#: Positions up to this one, or twice the largest declared one, are candidates.
_REACH = 4160
#: Positions from this one on may be out of reach, such as the sum of those of several rows.
_FAR = 2**12
#: From this position on, the tolerance may hide the next one.
_COARSE = 2**15
#: The most tokens of a call that are decoded, and the most wrong calls.
_TOKENS, _CALLS = 400, 12
#: The name of the variable that is 1 for positions (S,) and 2 for positions (B, S).
FORM = "the number of axes of the positions"
#: How many rules are tried: each further call that refutes one leads to the next.
_TRIES = 6
#: A rule that no further call confirms has at least this many different wrong positions.
_FEWEST = 2
#: The most tokens of further calls from which a rule is drawn again.
_DRAWN = 2**14
#: The largest gap in which the exact bound is sought.
_WIDEST = 2**13
#: A bound on the declared position, and the nearest right one, if it is not the next.
_GAP = re.compile(rf"{DECLARED} is at (?:least|most) (\d+) \((\d+) is right\)")
#: The index on another axis than that of the tokens, in a rule that does not use the declared one.
_OTHER_AXIS = re.compile(r"\bthe (?:head|batch row)\b")
#: Makes calls with the tokens from a first position to a last one.
Between = Callable[[int, int], Iterable[JudgedCall]]


class RotatedCall(Protocol):
    """A call whose tokens are rotated, each to a position."""

    encoding: Rotary

    def rotated(self) -> np.ndarray:
        """Return the judged tokens before the rotation, (B, H, S, D)."""

    def variables(self) -> Variables:
        """Return numbers that may be mistaken for the position; all broadcast to (B, H, S)."""

    def rotated_to(self, positions: np.ndarray) -> Truth:
        """Return the result for the judged tokens at other positions (B, H, S)."""


@dataclass(frozen=True)
class _Seen:
    """A call, and the position of every judged token."""

    one: JudgedCall
    used: np.ndarray  #: (B, H, S)
    variables: Variables
    known: np.ndarray | None = None  #: which positions are known; None: all


def name_positions(
    run: Run,
    calls: Sequence[JudgedCall],
    code: str,
    again: Callable[[], Iterable[JudgedCall]] = tuple,
    noun: str = "position",
    between: Between | None = None,
) -> bool:
    """Report the positions that the tokens of wrong calls have, if each has one.

    If one rule gives all positions, the rule is reported. ``again`` makes further calls, which
    could refute it; then another rule is sought. ``between`` makes calls at the positions from a
    right one to a wrong one, which show where a rule begins. Return whether anything was reported.
    """
    wrong = sorted(failed(run, calls), key=lambda one: one.actual.size)
    small = [one for one in wrong if _count(run, one) <= _TOKENS][:_CALLS]
    reach = _reach(calls)
    known = []
    for one in small or wrong[:1]:  # of a long call, the positions of some tokens
        found = _decoded(run, one, reach, some=not small)
        if found is not None:
            known.append(found)
        elif _largest(one) < _FAR:  # a far call may be out of reach: a rule has to predict it
            return False
    if not known:
        return False
    bad = {id(one) for one in wrong}
    known += [_right(run, one) for one in calls if id(one) not in bad]
    code = code if code == "state" else _code_of_lines(run, wrong) or code
    rule, more = _proved(run, calls, known, again, reach, between)
    if not more and _differ(known) < _FEWEST:
        rule = None
    first = known[0]
    declared = _wide(first.variables[DECLARED], first.one)
    at = tuple(int(i) for i in np.argwhere(first.used != declared)[0])
    where = f"{first.one.case}, row {at[0]}, head {at[1]}, token {at[2]}: {noun} {first.used[at]}"
    where += f", declared {declared[at]}"
    if rule is not None:
        words, remedy = (_plain(text, noun) for text in (rule.words, rule.remedy))
        count = plural(more, "further call agrees", "further calls agree")
        text = f"the {noun} used is {words}"
        if rule.text == "0" and noun == "position" and not first.one.facts.encoding.offset:
            text = f"tokens are not rotated, as at position 0{words[1:]}"
            remedy = f"Rotate these tokens too{words[1:]}: use the declared position."
        if not more:
            text = f"every call is consistent with: {text}"
        if rule.where and DECLARED in rule.where and code == "stale-cache":
            code = "wrong-row"
        if _OTHER_AXIS.search(rule.text) and DECLARED not in rule.words:
            code = "position-axis"
        run.add(
            rule.code or code,
            text,
            f"{where}; {count}" if more else where,
            remedy=remedy + _formula(known, noun),
            values={"measured": words},
        )
        return True
    # All frequencies times one number, or the other way round: a mistake of the rotation.
    if not small or _proportional(known) or _backwards(known):
        return False
    total = sum(int((s.used != _wide(s.variables[DECLARED], s.one)).sum()) for s in known)
    count = plural(total, "token has", "tokens have", sum(s.used.size for s in known))
    listed = "; ".join(_listed(s) for s in known[:2] if s.one in wrong)
    remedy = f"Use the declared {noun} of every token.{_formula(known, noun)}"
    text = f"{count} another {noun} than declared: {listed}{run.where()}"
    run.add(code, text, where, remedy=remedy)
    return True


def _proportional(known: Sequence[_Seen]) -> bool:
    """Return whether all positions are one multiple of the declared ones."""
    declared = np.concatenate([_known(s, s.variables[DECLARED]) for s in known])
    used = np.concatenate([_known(s, s.used) for s in known])
    at = np.argmax(used != declared)
    return bool((used * declared[at] == declared * used[at]).all())


def _backwards(known: Sequence[_Seen]) -> bool:
    """Return whether all positions are minus others."""
    declared = np.concatenate([_known(s, s.variables[DECLARED]) for s in known])
    used = np.concatenate([_known(s, s.used) for s in known])
    return bool((declared >= 0).all() and (used <= 0).all() and (used < 0).any())


def _differ(known: Sequence[_Seen]) -> int:
    """Return the number of different pairs of a declared position and a wrong one."""
    return len({
        pair for s in known
        for pair in zip(_wide(s.variables[DECLARED], s.one).flat, s.used.flat, strict=True)
        if pair[0] != pair[1]
    })  # fmt: skip


def _plain(text: str, noun: str) -> str:
    """Return a rule in the words of a report."""
    for axes, form in ((1, "(S,)"), (2, "(B, S)")):
        text = text.replace(f"{FORM} is {axes}", f"positions are {form}")
    return text.replace(DECLARED, f"the declared {noun}")


def _formula(known: Sequence[_Seen], noun: str) -> str:
    """Return the sum of two other variables that gives the declared numbers, as a sentence."""
    v = _flat(known)
    declared = v.pop(DECLARED)
    for (one, a), (two, b) in combinations(v.items(), 2):
        if np.ptp(a) and np.ptp(b) and np.array_equal(a + b, declared):
            return f" The declared {noun} is {one} + {two}."
    return ""


def _flat(seen: Sequence[_Seen]) -> dict[str, np.ndarray]:
    """Return the variables of all tokens of the calls whose positions are known."""
    names = seen[0].variables.keys()
    return {n: np.concatenate([_known(s, s.variables[n]) for s in seen]) for n in names}


def _known(seen: _Seen, values: np.ndarray) -> np.ndarray:
    """Return the values of the tokens whose positions are known, in one row."""
    values = _wide(values, seen.one)
    return np.ravel(values if seen.known is None else values[seen.known])


def _code_of_lines(run: Run, wrong: Sequence[JudgedCall]) -> str:
    """Return the code of the first axis of which only some lines are wrong, in every call."""
    maps = [np.array((scores(run, w, w.truth) > run.budget).any(axis=-1)) for w in wrong]
    for axis, code in enumerate(("row-offset", "position-axis", "wrong-row")):
        flat = [np.moveaxis(m, axis, 0).reshape(m.shape[axis], -1) for m in maps]
        lines = [np.asarray(m.any(axis=1)) for m in flat if len(m) > 1]
        if lines and all(line.any() and not line.all() for line in lines):
            return code
    return ""


def _proved(
    run: Run,
    calls: Sequence[JudgedCall],
    known: list[_Seen],
    again: Callable[[], Iterable[JudgedCall]],
    reach: int,
    between: Between | None = None,
) -> tuple[Rule | None, int]:
    """Return the rule that all calls follow, and how many calls it predicted before it saw them."""
    rule = _rule(known)
    more: list[JudgedCall] = []
    for tries in range(_TRIES):
        if rule is None:
            return None, 0
        more = more or _made(again)
        refuting = next((c for c in (*more, *calls) if not _follows(run, c, rule)), None)
        if refuting is None:
            agreed = [one for one in more if all(one is not s.one for s in known)]
            rule = _closer(run, [*calls, *agreed], rule, known, agreed)
            return _exact(run, [*calls, *agreed], rule, known, between), len(agreed)
        found = _right(run, refuting) if fits(run, refuting, refuting.truth) else None
        found = found or _decoded(run, refuting, max(reach, _reach([refuting])))
        if found is None or tries == _TRIES - 1:
            break
        known.append(found)
        rule = _rule(known)
    return None, 0


def _closer(
    run: Run, calls: Sequence[JudgedCall], rule: Rule, known: list[_Seen], agreed: list[JudgedCall]
) -> Rule:
    """Return the rule with the thresholds that further calls leave, if it has any."""
    if " is at " not in rule.where or sum(one.actual[..., 0].size for one in agreed) > _DRAWN:
        return rule
    seen = list(known)
    for one in agreed:
        v = one.facts.variables()
        seen.append(_Seen(one, rule.of({name: _wide(a, one) for name, a in v.items()}), v))
    again = _rule(seen)
    if again is None or again.text != rule.text:
        return rule
    return again if all(_follows(run, one, again) for one in calls) else rule


def _exact(
    run: Run, calls: Sequence[JudgedCall], rule: Rule, known: list[_Seen], between: Between | None
) -> Rule:
    """Return the rule with the exact bound on the declared position, if a call can show it."""
    gap = _GAP.search(rule.where)
    if gap is None or between is None or abs(int(gap[1]) - int(gap[2])) > _WIDEST:
        return rule
    low, high = sorted(map(int, gap.groups()))
    reach, seen = _reach(calls), list(known)
    for one in _made(lambda: between(low, high)):
        right = fits(run, one, one.truth)
        some = not right and _count(run, one) > _TOKENS
        found = _right(run, one) if right else _decoded(run, one, max(reach, 2 * high), some=some)
        if found is None:
            return rule
        seen.append(found)
    again = _rule(seen)
    if again is None or again.text != rule.text:
        return rule
    return again if all(_follows(run, one, again) for one in calls) else rule


def _reach(calls: Sequence[JudgedCall]) -> int:
    """Return the number of positions to search: those of all calls, twice."""
    return min(max(_REACH, 2 * max(map(_largest, calls)) + 64), 2**17)


def _largest(one: JudgedCall) -> int:
    return int(np.abs(one.facts.variables()[DECLARED]).max(initial=0))


def _count(run: Run, one: JudgedCall) -> int:
    """Return the number of wrong tokens to decode; equal ones of several heads count once."""
    wrong = np.asarray((scores(run, one, one.truth) > run.budget).any(axis=-1))
    return int(wrong.any(axis=1).sum() if (wrong == wrong[:, :1]).all() else wrong.sum())


def _decoded(run: Run, one: JudgedCall, reach: int, *, some: bool = False) -> _Seen | None:
    variables = one.facts.variables()
    if some:
        found = _some_decoded(run, one, reach)
        return None if found is None else _Seen(one, found[0], variables, found[1])
    used = decode(run, one, reach)
    return None if used is None else _Seen(one, used, variables, _shown(run, one, used))


def _some_decoded(run: Run, one: JudgedCall, reach: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the positions (B, H, S), and which are known: those of right and of some wrong tokens.

    Of the wrong tokens, the first and the last are decoded, and others between them.
    """
    off = np.asarray((scores(run, one, one.truth) > run.budget).any(axis=-1))
    where = np.argwhere(off)
    chosen = np.zeros(off.shape, bool)
    at = np.unique(np.linspace(0, len(where) - 1, _SOME).astype(int))
    chosen[tuple(where[at].T)] = True
    left = off & ~chosen
    # The tokens that are left out count as right, so that they are not decoded.
    actual = np.where(left[..., None], one.truth.value, one.actual)
    used = decode(run, replace(one, actual=actual), reach)
    return None if used is None else (used, ~left)


def _right(run: Run, one: JudgedCall) -> _Seen:
    """Return a right call: its tokens have the declared positions."""
    v = one.facts.variables()
    return _Seen(one, used := _wide(v[DECLARED], one), v, _shown(run, one, used))


def _shown(run: Run, one: JudgedCall, used: np.ndarray) -> np.ndarray | None:
    """Return which tokens show their position, None for all: the next one is clearly wrong."""
    if _largest(one) < _COARSE:
        return None
    declared = _wide(one.facts.variables()[DECLARED], one)
    off = scores(run, one, one.facts.rotated_to(declared + 1)).max(axis=-1, initial=0)
    return np.asarray((used != declared) | (off > 2 * run.budget))


def _made(again: Callable[[], Iterable[JudgedCall]]) -> list[JudgedCall]:
    try:
        return list(again())
    except (Refused, Malformed):
        return []


def _wide(values: np.ndarray, one: JudgedCall) -> np.ndarray:
    return np.broadcast_to(values, one.actual.shape[:3])


def _listed(s: _Seen) -> str:
    """Return the first few wrong positions of one call in words."""
    declared = _wide(s.variables[DECLARED], s.one)
    pairs = list(dict.fromkeys(
        (int(d), int(u)) for d, u in zip(declared.flat, s.used.flat, strict=True) if d != u
    ))  # fmt: skip
    text = ", ".join(f"{u} for {d}" for d, u in pairs[:5])
    return f"{text}{', ...' if len(pairs) > 5 else ''} ({s.one.case})"


def _rule(seen: Sequence[_Seen]) -> Rule | None:
    flat = _flat(seen)
    used = np.concatenate([_known(s, s.used) for s in seen])
    # Tokens that agree in everything count once.
    once = np.unique(np.stack([used, *flat.values()]), axis=1)
    return find_rule(once[0], dict(zip(flat, once[1:], strict=True)), DECLARED)


def _follows(run: Run, one: JudgedCall, rule: Rule) -> bool:
    """Return whether the rule predicts the result of a call."""
    v = {name: _wide(values, one) for name, values in one.facts.variables().items()}
    return fits(run, one, one.facts.rotated_to(rule.of(v)))


def decode(run: Run, one: JudgedCall, reach: int) -> np.ndarray | None:
    """Return the position of every token of a call, or None if some token has none.

    Tokens that are right have the declared position. The others are decoded; together they must
    predict the result of the call.
    """
    call: Any = one.facts
    declared = np.array(_wide(call.variables()[DECLARED], one))
    wrong = np.asarray((scores(run, one, one.truth) > run.budget).any(axis=-1))
    where = np.argwhere(wrong)
    whole = bool((wrong == wrong[:, :1]).all())
    if whole:
        where = where[where[:, 1] == 0]
    encoding = call.encoding
    turning = encoding.frequencies() != 0
    if not np.isfinite(one.actual).all() or not turning.any():
        return None
    (a, b), (c, d) = encoding.pairs(), encoding.output_pairs()
    x, m = call.rotated(), encoding.attention_factor()
    raw = x[..., a[turning]] + 1j * x[..., b[turning]]
    row = getattr(encoding, "row", None)  # of a wrong map, one result may be right
    seen = (one.actual[..., c[turning]] + 1j * one.actual[..., d[turning]]) / m
    seen, raw = (seen, raw) if encoding.sign > 0 else (np.conj(seen), np.conj(raw))
    decoder = Decoder.of(encoding.frequencies()[turning], reach=reach)
    used = declared.copy()
    for i, h, s in where:
        found = decoder.rotated(raw[i, h, s], seen[i, h, s], row) - round(encoding.offset)
        used[(i, slice(None), s) if whole else (i, h, s)] = found
    return used if fits(run, one, call.rotated_to(used)) else None
