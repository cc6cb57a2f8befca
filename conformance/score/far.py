"""What begins at late positions only: where it can be seen, and the verdict if that is unjudged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from posenc_ref import Rotary
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.calls import one_table
from posenc_ref.limits import POSITION

#: What has not been judged if no call reaches what begins late.
FAR = "far keys"
#: The most keys in such a call.
LONGEST = 2**15


def late_scale(scale: Any) -> int | None:
    """Return a position at which a query scale acts, twice the first; None if it never does."""
    if scale is None:
        return None
    start = float(scale.factor([0])[0])
    first = _first(lambda p: float(scale.factor([p])[0]) != start)
    return None if first is None else 2 * first - 1 if first > 1 else first


def late_frequencies(encoding: Any) -> int | None:
    """Return a last position at which frequencies are not those of a short sequence, or None."""
    if not isinstance(encoding, Rotary) or not encoding.depends_on_length:
        return None
    first = _first(lambda n: not one_table(encoding, (1, n)))
    return None if first is None else 2 * first - 1


def _first(holds: Callable[[int], bool]) -> int | None:
    """Return the smallest number from 1 that ``holds``, as all larger ones do, or None."""
    high = 1
    while not holds(high):
        high *= 2
        if high > POSITION:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def require(
    run: Run, calls: str, left: Sequence[int], what: str, rules: str, name: str = FAR
) -> None:
    """Leave the verdict open if calls that would show some rules have not been judged."""
    if left:
        if name not in run.report.required:
            run.report.required += (name,)
        run.limit(
            f"calls with {calls}{' and '.join(map(str, left))}{what} are not judged, in which "
            f"{rules}: judge the same code with smaller parameters"
        )


def rules_of(encoding: Any) -> str:
    """Return words for the far keys of a score encoding."""
    return f"the rules of {type(encoding).__name__} for far keys hold"
