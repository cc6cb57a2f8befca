"""Find a mistake that is made in some calls, or in some elements, only.

A fast path for single tokens, or a kernel for the first heads, may make a known mistake where the
rest of the function is right. Such a mistake is reported only if every wrong element equals its
prediction, and with the place where it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np

from posenc_ref.conformance.harness.located.locate import locate
from posenc_ref.conformance.harness.located.record import Call, recorded
from posenc_ref.conformance.harness.plural import ranges
from posenc_ref.conformance.harness.run import Run

from .mistake import JudgedCall, Mistake
from .scored import fits, scores

#: The fewest wrong elements that show a mistake.
_FEWEST = 8
#: The place of a mistake that is made wherever it changes a result.
_EVERYWHERE = "for every element of every call"
#: The highest cost of a rule that says where a mistake is made.
_DEAREST = 3.5
#: What such a rule may cost more if it also has a condition on the query heads of a key head, and
#: no mistake has a cheaper one.
_MORE = 2.2
#: The names of axes in words.
_AXES = {
    "b": ("batch row", "batch rows"),
    "h": ("head", "heads"),
    "q": ("query", "queries"),
    "k": ("key", "keys"),
    "s": ("token", "tokens"),
    "d": ("channel", "channels"),
    "r": ("row", "rows"),
    "c": ("column", "columns"),
}
#: What a condition on the positions of calls is about.
LARGEST = "largest position"
#: Sizes of tiles, of which a call may be a multiple.
_TILES = (2, 4, 8, 16, 32, 64, 128)


def in_part(
    run: Run, wrong: list[JudgedCall], right: list[JudgedCall], mistakes: Iterable[Mistake]
) -> tuple[Mistake, str] | None:
    """Return the first mistake that all wrong elements show, and where it is made, in words.

    The words are empty if it is made everywhere.
    """
    elements = sum(int((scores(run, one, one.truth) > run.budget).sum()) for one in wrong)
    if elements < _FEWEST:
        return None
    wrong = sorted(wrong, key=lambda one: one.actual.size)  # most mistakes end at the first call
    dear = None
    for mistake in mistakes:
        if not mistake.code:
            continue
        if all(fits(run, one, mistake.predict(one.facts)) for one in wrong):
            made = [one for one in right if _changes(run, one, mistake)]
            if not made:  # it predicts the right results too
                return mistake, ""
            condition = _of_numbers(wrong, made) or _of_calls(wrong, made)
            condition = condition or _of_positions(wrong, made) or _of_arguments(run, wrong, made)
            place = (
                f"in calls with {condition}" if condition else _of_rules(run, wrong, right, mistake)
            )
            if place:
                return mistake, f"only {place}"
        elif all(_shows(run, one, mistake) for one in wrong):
            place = _of_elements(run, [*wrong, *right], mistake)
            place = place or _of_rules(run, wrong, right, mistake)
            if place:
                return mistake, "" if place == _EVERYWHERE else f"only {place}"
            if dear is None and hasattr(wrong[0].facts, "numbers"):
                place = _of_rules(run, wrong, right, mistake, _DEAREST + _MORE)
                dear = (mistake, f"only {place}") if place else None
    return dear


def _changes(run: Run, one: JudgedCall, mistake: Mistake) -> bool:
    """Return whether the mistake would change the result of a call."""
    predicted = mistake.predict(one.facts)
    return predicted is not None and not fits(run, one, predicted)


def _shows(run: Run, one: JudgedCall, mistake: Mistake) -> bool:
    """Return whether every wrong element of the call equals the mistake's prediction."""
    predicted = mistake.predict(one.facts)
    if predicted is None or predicted.value.shape != one.actual.shape:
        return False
    wrong = scores(run, one, one.truth) > run.budget
    return not (wrong & (scores(run, one, predicted) > run.budget)).any()


def names_of_axes(one: JudgedCall) -> list[tuple[str, str]]:
    """Return the names of the axes of a result, for one index and for several."""
    return [_AXES[letter] for letter in _letters(one)]


def _letters(one: JudgedCall) -> str:
    if hasattr(one.facts, "arguments"):
        return "rc"[: one.actual.ndim] if one.actual.ndim < 3 else "bhsd"[-one.actual.ndim :]
    if hasattr(one.facts, "rows") and hasattr(one.facts, "x"):  # rows of a table added to x
        return "bsd"
    logits = hasattr(one.facts, "k_len") or hasattr(one.facts, "k")
    return ("bhqk" if logits else "bhsd")[-one.actual.ndim :]


def _of_calls(wrong: list[JudgedCall], right: list[JudgedCall]) -> str:
    """Return a condition on the sizes of calls that holds for the wrong ones only, in words."""
    letters = _letters(wrong[0])
    for words, holds, axis, bound in _conditions(letters, [one.actual.shape for one in wrong]):
        spared = [one.actual.shape[axis] for one in right]
        if axis >= 0 and " = " in words and wrong[0].actual.shape[axis] > max(spared):
            continue  # larger ones were not tried
        if all(holds(one.actual.shape) for one in wrong) and not any(
            holds(one.actual.shape) for one in right
        ):
            return words + _nearest(spared, bound)
    return ""


def _of_positions(wrong: list[JudgedCall], right: list[JudgedCall]) -> str:
    """Return the largest position from which calls are wrong, in words, if no right one has it.

    On several axes, larger positions come with more tokens: then they tell nothing.
    """
    largest: list[list[int]] = []
    for some in (wrong, right):
        at = [getattr(one.facts, "positions", None) for one in some]
        largest.append(
            [int(p.max()) for p in at if isinstance(p, np.ndarray) and p.size and p.ndim < 3]
        )
        if len(largest[-1]) < len(some):
            return ""
    low, high = min(largest[0]), max(largest[1])
    return f"a {LARGEST} of at least {low} ({high} is right)" if low > high else ""


def _nearest(spared: list[int], bound: int | None) -> str:
    """Return the nearest size without the mistake, if sizes between it and the bound are untried.

    All sizes that are spared lie on one side of a bound.
    """
    if bound is None or not spared:
        return ""
    near = min(spared, key=lambda n: abs(n - bound))
    return f" ({near} was not)" if abs(near - bound) > 1 else ""


def _of_numbers(wrong: list[JudgedCall], right: list[JudgedCall]) -> str:
    """Return a condition on numbers that shapes do not show, such as query heads per key head."""
    if not hasattr(wrong[0].facts, "numbers"):
        return ""
    for name in wrong[0].facts.numbers():
        made, spared = ([one.facts.numbers()[name] for one in calls] for calls in (wrong, right))
        if min(made) > max(spared):
            return f"{name} >= {min(made)}{_nearest(spared, min(made))}"
        if max(made) < min(spared):
            return f"{name} {'=' if max(made) == 1 else '<='} {max(made)}"
    return ""


def _of_arguments(run: Run, wrong: list[JudgedCall], right: list[JudgedCall]) -> str:
    """Return a condition on the numbers passed to a plain function, in words."""
    if not hasattr(wrong[0].facts, "arguments"):
        return ""
    names = run.surface.arguments
    each = [
        [{n: a for n, a in zip(names, one.facts.arguments, strict=False) if isinstance(a, int)}
         for one in calls]
        for calls in (wrong, right)
    ]  # fmt: skip
    for name in each[0][0]:
        made, spared = ([numbers[name] for numbers in numbers_of] for numbers_of in each)
        if min(made) > max(spared, default=min(made)):
            return f"{name} >= {min(made)}{_nearest(spared, min(made))}"
        if max(made) < min(spared, default=max(made)):
            return f"{name} <= {max(made)}{_nearest(spared, max(made))}"
    for one, two in permutations(each[0][0], 2):
        made_last, spared_last = (
            [numbers[one] == numbers[two] - 1 for numbers in numbers_of] for numbers_of in each
        )
        if all(made_last) and not any(spared_last):
            return f"{one} = {two} - 1"
    return ""


def _conditions(
    letters: str, shapes: list[tuple[int, ...]]
) -> Iterator[tuple[str, Callable[[tuple[int, ...]], bool], int, int | None]]:
    """Yield conditions in words, whether a shape meets them, and the axis and bound of each."""
    for axis, letter in reversed(list(enumerate(letters))):
        if letter == "d":
            continue
        sizes, name = [shape[axis] for shape in shapes], letter.upper()
        low, high = min(sizes), max(sizes)
        if low == high:
            yield f"{name} = {low}", lambda s, a=axis, n=low: s[a] == n, axis, None  # type: ignore[misc]
        yield f"{name} >= {low}", lambda s, a=axis, n=low: s[a] >= n, axis, low  # type: ignore[misc]
        yield f"{name} <= {high}", lambda s, a=axis, n=high: s[a] <= n, axis, high  # type: ignore[misc]
        for tile in _TILES:
            text = f"{name} not a multiple of {tile}"
            yield text, lambda s, a=axis, n=tile: s[a] % n != 0, axis, None  # type: ignore[misc]
            text = f"{name} a multiple of {tile}"
            yield text, lambda s, a=axis, n=tile: s[a] % n == 0, axis, None  # type: ignore[misc]
    if letters.endswith("qk"):
        yield "Q < K", lambda s: s[-2] < s[-1], -1, None
        yield "Q = K", lambda s: s[-2] == s[-1], -1, None


def _of_elements(run: Run, calls: list[JudgedCall], mistake: Mistake) -> str:
    """Return the indices of one axis at which the mistake is made, in words."""
    letters = _letters(calls[0])
    for axis, letter in enumerate(letters):
        made: set[int] = set()
        spared: set[int] = set()
        for one in calls:
            predicted = mistake.predict(one.facts)
            if predicted is None or predicted.value.shape != one.actual.shape:
                continue
            wrong = scores(run, one, one.truth) > run.budget
            other = scores(run, one, predicted) > run.budget  # right, where the mistake is not
            rest = tuple(i for i in range(one.actual.ndim) if i != axis)
            made |= set(np.flatnonzero(wrong.any(axis=rest)).tolist())
            spared |= set(np.flatnonzero((other & ~wrong).any(axis=rest)).tolist())
        if made and not made & spared:
            names = _AXES[letter]
            if spared and max(spared) < min(made) and len(made) > 1:
                return f"in {names[1]} from {min(made)} on"
            return f"in {_listed(sorted(made), max(made | spared), names)}"
    return ""


def _of_rules(
    run: Run,
    wrong: list[JudgedCall],
    right: list[JudgedCall],
    mistake: Mistake,
    dearest: float = _DEAREST,
) -> str:
    """Return one rule of rows, heads, tokens and sizes at which the mistake is made, in words.

    Elements that the mistake does not change are no evidence.
    """
    records, spared = [], False
    for one in [*wrong, *right]:
        predicted = mistake.predict(one.facts)
        if predicted is None or predicted.value.shape != one.actual.shape:
            continue
        off = scores(run, one, one.truth) > run.budget
        changed = replace(one, actual=np.asarray(predicted.value))
        live = off | (scores(run, changed, one.truth) > run.budget)
        spared = spared or bool((live & ~off).any())
        call = _grouped(one) if dearest > _DEAREST else None
        record = recorded(one.case, run.surface.axes, off, live, call, None)
        records += [] if record is None else [record]
    pairs = getattr(run.encoding, "pairs", None)
    place = locate(records, pairs=np.array(pairs()) if callable(pairs) else None)
    if place is None or len(place.rules) != 1 or place.partial or place.rules[0].cost > dearest:
        return ""
    words = place.text.removeprefix("wrong: ").removeprefix("every element, ")
    words = words if words.startswith("in calls") else f"for {words}"
    # A rule names tokens and pairs: some of their elements may be right.
    return "" if spared and words == _EVERYWHERE else words


def _grouped(one: JudgedCall) -> Call:
    """Return a call with the numbers of heads of q and k."""
    heads, group = one.facts.x.shape[1], one.facts.numbers()["H / H_kv"]
    key_heads = heads if one.facts.keys else heads // group
    return Call(1, heads=(key_heads * group, key_heads))


def _listed(at: list[int], last: int, names: tuple[str, str]) -> str:
    """Return indices in words: one, all from one on, or ranges."""
    one, several = names
    if len(at) == 1:
        return f"{one} {at[0]}"
    if at == list(range(at[0], last + 1)):
        return f"{several} from {at[0]} on"
    steps = {b - a for a, b in pairwise(at)}
    if len(at) > 4 and len(steps) == 1 and steps != {1}:
        return f"{several} {at[0]}, {at[1]}, {at[2]}, ..., {at[-1]}"
    return f"{several} {ranges(at)}"
