"""Judge state: repeated calls, calls of equal length at other positions, and kept results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from posenc_ref.accuracy import ROUNDOFF, Truth

from .driver import Driver, Malformed, Refused
from .run import Run

#: Two lengths that no other probe uses, so that a cache keyed by the length has no entry for them.
_LENGTHS = (11, 12)
#: The numbers of bits to which the key of a cache may be cut.
_BITS = (8, 12, 16)
#: The number of calls of one token at successive positions.
_STEPS = 4
#: The position of a call between them, which changes what a function may have kept.
_ELSEWHERE = 7
#: The highest position of calls of one length, and of single tokens.
HIGHEST = 80
#: A length that no other probe uses, for calls in two dtypes.
_DTYPES = 23
#: The beginning of what a repeated call shows; calls of other sizes may do another thing.
_EVERY_TIME = "every time the same call is made, it"
#: Says that what is kept for a number of tokens is used at other positions.
SAME_LENGTH = "a call at other positions returns the result of an earlier call of the same length"
#: Says that results change when a call is made once more.
CHANGES = (
    "a call changes what the function keeps: the same call gives other values when it is made again"
)
#: The number of calls in turn that show what each changes.
_IN_TURN = 4
#: A length above those of all other probes of a function that need not start at 0.
_LONGER = 2053


def replay(
    run: Run,
    call: Callable[[], np.ndarray],
    first: np.ndarray,
    what: str,
    declared: np.ndarray | None = None,
) -> None:
    """Judge that the very first call, repeated last, gives the same result bit for bit.

    ``declared`` is the declared result; without it, that of the first call stands for it.
    """
    same_again(run, call(), first, what, call, declared)


def same_again(
    run: Run,
    again: np.ndarray,
    first: np.ndarray,
    what: str,
    call: Callable[[], np.ndarray] | None = None,
    declared: np.ndarray | None = None,
) -> None:
    """Judge that a repeated call gives the same result, bit for bit.

    ``call`` makes the call once more, to find out what every call changes.
    """
    run.count("state")
    if again.shape != first.shape or not np.array_equal(first, again, equal_nan=True):
        worst = float(np.abs(first - again).max()) if again.shape == first.shape else np.inf
        found = drift(run, call, first if declared is None else declared) if call else None
        changes, seen, remedy = found or ("", "", "")
        run.add(
            "state",
            changes or "the same call gives other values after other calls",
            f"{what}, replayed: {seen or f'largest difference {worst:.3g}'}",
            remedy=remedy,
        )


def drift(
    run: Run, call: Callable[[], np.ndarray], declared: np.ndarray
) -> tuple[str, str, str] | None:
    """Return what every call changes in what is kept: a finding, its evidence and its remedy.

    The change between two of the same calls in turn must be that between the next ones as well.
    """
    try:
        seen = [np.asarray(call(), np.float64) for _ in range(_IN_TURN)]
    except (Refused, Malformed):
        return None
    if any(y.shape != declared.shape or not np.isfinite(y).all() for y in seen):
        return None
    near = 16 * ROUNDOFF[run.dtype] * np.abs(seen).max(initial=0.0)
    steps = np.diff(seen, axis=0)
    if not steps.size or np.abs(steps[0]).max() <= 64 * near:
        return None
    at = np.unravel_index(int(np.argmax(np.abs(steps[0]))), declared.shape)
    by = seen[1][at] / seen[0][at] if seen[0][at] else 0.0
    numbers = ", ".join(f"{y[at]:.9g}" for y in seen)
    evidence = f"four times in turn: {numbers} at index {tuple(map(int, at))}"
    if by and all((np.abs(b - by * a) <= near).all() for a, b in pairwise(seen)):
        text = f"{_EVERY_TIME} multiplies what is kept by {by:.5g}"
        return text, evidence, "Multiply a copy of what is kept: do not write into it."
    if (np.abs(steps - steps[0]) > near).any():
        return None
    what = "the same numbers"
    if np.ptp(steps[0]) <= near:
        what = f"{steps[0][at]:.5g}"
    elif (np.abs(steps[0] - declared) <= near).all():
        what = "its own result"
    text = f"{_EVERY_TIME} adds {what} to what is kept"
    return text, evidence, "Add to a copy of what is kept: do not write into it."


def twice(run: Run, call: Callable[[], np.ndarray], first: np.ndarray, case: str) -> None:
    """Judge that a call made once more, right after the first time, gives the same result.

    A function that changes what it keeps in every call, such as a base that is multiplied again,
    fails from its second call on.
    """
    try:
        again = call()
    except Refused:  # another check says so
        return
    size = np.full_like(first, np.abs(first).max(initial=0))
    if again.shape == first.shape and run.fits(again, Truth(first, size, 0 * first)):
        return
    run.count("state")
    found = drift(run, call, first)
    off = f": {found[1]}" if found else ""
    if not found and again.shape == first.shape:
        off = f": largest difference {np.abs(again - first).max():.3g}"
    run.add(
        "state",
        found[0] if found
        else CHANGES,
        f"{case}, made twice{off}",
        remedy=found[2] if found
        else "Compute what a call needs from its own arguments: do not write results of a call, "
        "such as a scaled base, over the values that the next call starts from.",
    )  # fmt: skip


def same_length(
    run: Run,
    evaluate: Callable[[np.ndarray], np.ndarray],
    right: Callable[[np.ndarray, np.ndarray], bool],
) -> None:
    """Judge that a call does not return the result of an earlier call of the same length.

    Two of the calls also have the same first position, last position and sum of positions. A
    cache keyed by any of these returns a wrong result.
    """
    early, late = np.arange(_LENGTHS[0]) + 20, np.arange(_LENGTHS[0]) + 50
    mixed = np.r_[late[0], late[-2:0:-1], late[-1]]
    other = mixed[:-1] + 3  # the same pattern, in a length not used before
    fresh = np.arange(_LENGTHS[1]) + 50
    try:
        results = [evaluate(at) for at in (early, late, fresh)]
        first, second, alone = map(right, results, (early, late, fresh))
        more = run.driver.pace.grants(2, "calls of one length at unsorted positions")
        mixed_up = more and right(evaluate(other), other) and not right(evaluate(mixed), mixed)
    except (Refused, Malformed) as error:
        run.limit(f"calls of one length at positions {early[0]}..{fresh[-1]}: refused ({error})")
        return
    run.count("state", 3)
    if (first and alone and not second) or (second and mixed_up):
        run.add(
            "state",
            SAME_LENGTH,
            f"positions {late[0]}..{late[-1]} are right in the first call of {fresh.size} tokens, "
            f"wrong in a later call of {late.size}",
        )
    elif first and second and alone and not run.settings.reduced:
        _low_bits(run, evaluate, right, early)
    elif not (first and second and alone):
        # The first call of a length is wrong too: the error is in the values.
        run.failed("values", "calls of one length at other positions", np.inf, "three calls")
        _same_bits(run, evaluate, results)


def _same_bits(
    run: Run, evaluate: Callable[[np.ndarray], np.ndarray], results: list[np.ndarray]
) -> None:
    """Report wrong results that are kept by the number of tokens: they have the same bits.

    ``results`` are those of a call of 11 tokens, of another one, and of 12 tokens at the positions
    of this one. A call of 13 tokens at the first positions has to return the first result again.
    """
    n, tokens = _LENGTHS[0], -2 if results[0].ndim > 2 else 0
    first, second, alone = (np.take(y, range(n), tokens) for y in results)
    if not np.array_equal(first, second) or np.array_equal(second, alone):
        return
    try:
        again = evaluate(np.arange(_LENGTHS[1] + 1) + 20)
    except (Refused, Malformed):
        return
    if np.array_equal(np.take(again, range(n), tokens), first):
        run.add(
            "state",
            SAME_LENGTH,
            f"{n} tokens have the same bits at positions 20..{19 + n} and 50..{49 + n}; "
            f"{_LENGTHS[1]} tokens from position 50 on have others, {_LENGTHS[1] + 1} from "
            "position 20 on the first ones again",
            by=None,
        )


def steps(
    run: Run,
    evaluate: Callable[[np.ndarray], np.ndarray],
    right: Callable[[np.ndarray, np.ndarray], bool],
) -> None:
    """Judge calls of one token at successive positions, as decoding makes them."""
    if run.failures:
        return
    first = 70
    for position in range(first, first + _STEPS):
        at, case = np.array([position]), f"one token at position {position}"
        try:
            y = evaluate(at)
        except (Refused, Malformed) as error:
            if not any(f"({error})" in text for text in run.report.limits):
                run.limit(f"{case}: refused ({error})")
            return
        run.count("state")
        if right(y, at):
            continue
        used = [p for p in range(first, position) if right(y, np.array([p]))]
        evaluate(np.array([_ELSEWHERE]))
        if not used or not right(evaluate(at), at):  # wrong after any call
            _alone(run, y, right, position)
            return
        run.add(
            "state",
            f"a call of one token returns the result of an earlier call at position {used[0]}",
            f"{case}, after calls of one token at positions {first}..{position - 1}; right after "
            f"one at position {_ELSEWHERE}",
            remedy="Compute cos and sin for the position of every step, or gather its row.",
        )
        return


def _alone(
    run: Run, y: np.ndarray, right: Callable[[np.ndarray, np.ndarray], bool], position: int
) -> None:
    """Report the wrong result ``y`` of a call of one token."""
    case = f"one token at position {position}"
    others = (p for p in range(HIGHEST) if right(y, np.array([p])))
    used = next(others, None)
    if used is None or next(others, None) is not None:
        run.failed("values", case, np.inf, "a call of one token")
        return
    run.add(
        "decode-offset",
        f"a call of one token gets position {used} in place of {position}; calls of more tokens "
        "are right",
        f"{case}: the result is that of position {used}",
        remedy="Treat one token as the other calls do, with the same offset.",
        by="values",
    )


def _low_bits(
    run: Run,
    evaluate: Callable[[np.ndarray], np.ndarray],
    right: Callable[[np.ndarray, np.ndarray], bool],
    early: np.ndarray,
) -> None:
    """Judge calls at positions that differ from those of an earlier call by a power of 2.

    A cache whose key is cut to a few bits returns the result of the earlier call.
    """
    for bits in _BITS:
        later = early + 2**bits
        if not run.settings.allows(int(later[-1])):
            return
        try:
            kept = not right(evaluate(later), later) and right(evaluate(later[:-1]), later[:-1])
        except (Refused, Malformed):  # past the end of a table
            return
        run.count("state")
        if kept:
            run.add(
                "state",
                "a call returns the result of an earlier call of the same length whose positions "
                f"have the same low {bits} bits",
                f"positions {later[0]}..{later[-1]} are wrong after {early[0]}..{early[-1]}; "
                f"{later[0]}..{later[-2]} alone are right",
                remedy="Keep cos and sin under all positions of a call, in full.",
            )
            return


def kept_table(run: Run, right: Callable[[np.ndarray], bool]) -> None:
    """Judge that no table of an earlier call is used at other positions.

    A cache that grows is made anew for every call that is longer than all before, others for every
    call of another length. ``right`` returns whether a call at contiguous positions is right. It is
    for functions with a failed case only.
    """
    first, later = np.arange(_LONGER) + 50, np.arange(_LONGER) + 90
    longer = np.arange(_LONGER + 1) + 90
    if not run.settings.allows(int(longer[-1])):
        return
    try:
        kept = right(first) and not right(later)
        grows = not (kept and right(later[:-1]))
        stale = kept and right(longer)
    except (Refused, Malformed):  # another limit of the report says so
        return
    run.count("state", 4 if kept else 3)
    if stale:
        until = "a longer call" if grows else "a call of another length"
        run.add(
            "state",
            "the table of an earlier call is kept: a later call at other positions gets its rows, "
            f"until {until} comes",
            f"{first.size} tokens at positions {first[0]}..{first[-1]} are right, then as many at "
            f"{later[0]}..{later[-1]} wrong, then {longer.size} at {longer[0]}..{longer[-1]} right"
            + ("" if grows else f", and {later.size - 1} right in between"),
        )


def two_dtypes(run: Run, right: Callable[[Driver, int], bool]) -> None:
    """Judge that a call in another dtype leaves no values behind for the calls after it.

    ``right(driver, n)`` calls the function with n tokens, and returns whether the result is right.
    A cache of cos and sin in the dtype of its first call fails. If fresh instances can be made, the
    first call of one is in the other dtype; else the length is new.
    """
    other = "float16" if run.driver.dtype in ("float32", "float64") else "float32"
    before = run.driver
    if other not in before.backend.dtypes:  # array-api-strict has no float16
        return
    n = _LENGTHS[0] if before.backend_name == "jax" else _DTYPES  # JAX compiles for each
    try:
        driver = before.fresh() if before.factory is not None else before
        first = replace(driver, dtype=other, out_dtypes=set())
        right(first, n)
        driver.calls += 1
        later = replace(driver, out_dtypes=set())  # a wrong dtype is a sign of the same mistake
        after, shorter = right(later, n), right(later, n - 1)
        alone = right(before.fresh() if before.factory is not None else before, n + 1)
    except (Refused, Malformed):  # another dtype is not promised
        return
    run.count("state")
    if alone and not (after and shorter):
        run.add(
            "state",
            f"after a call in {other}, a call in {before.dtype} gives values of that precision",
            f"{n} tokens in {other}, then {n} and {n - 1} in {before.dtype}, which are wrong; "
            f"{n + 1} tokens without such a call are right",
        )


def kept_result(run: Run, one: Callable[[], object], two: Callable[[], object]) -> None:
    """Judge that the next call does not overwrite a result which the caller keeps."""
    held = one()
    parts = list(held) if isinstance(held, tuple | list) else [held]
    before = [np.array(run.driver.array(part)) for part in parts]
    try:
        two()
    except Refused as error:
        run.limit(f"whether the next call overwrites a result: not judged, refused ({error})")
        return
    run.count("state")
    after = [run.driver.array(part) for part in parts]
    if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(before, after, strict=True)):
        overwritten(run)


def overwritten(run: Run) -> None:
    """Report that a call overwrites the result of the one before."""
    run.add(
        "state",
        "an earlier result is overwritten by the next call",
        "the result of one call, compared before and after another call",
        remedy="Return a new array in every call, not a buffer that later calls write into.",
    )
