"""Known mistakes of tables that are kept between calls, of sums of x and their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.match import failed, fits
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.rotary.diagnose_state import TableCall

from .sum_mistakes import Added


def in_turn(calls: Sequence[JudgedCall]) -> list[JudgedCall]:
    """Return calls as those of a kept table that grows, in the order in which they were made."""
    found, needed = [], list[int]()
    for one in calls:
        n = one.facts.x.shape[1]
        needed += [n] * (n > max(needed, default=0))
        facts = TableCall(np.arange(n), tuple(needed), one.facts.at)
        found.append(replace(one, facts=facts))
    return found


def last_rows() -> Iterator[Mistake]:
    """Yield calls that get the last rows of a table that is kept from the longest call."""
    for words, single in (("", False), (" of one token", True)):

        def predict(call: TableCall, single: bool = single) -> Truth:
            n = call.positions.size
            by = max(call.needed) - n if n == 1 or not single else 0
            return call.rotated_to(call.positions + by)

        yield Mistake(
            "state",
            f"a call{words} gets the last rows of the table that is kept from the longest call so "
            "far, table[-S:], not the first",
            predict,
            "Add rows 0 to S - 1, table[:S], however long the table is.",
        )


def kept_from_first(run: Run, calls: Sequence[JudgedCall]) -> Iterator[Mistake]:
    """Yield tables that are as long as the first call, and what longer calls get past their end.

    On a fresh instance a longer call must be right; if none can be made, the message says so.
    """
    n = calls[0].facts.x.shape[1]
    longer = [one for one in calls if one.facts.x.shape[1] > n]
    if not longer or len(failed(run, longer)) < len(longer):  # some longer call is right
        return
    if (right := _fresh_is_right(run, longer[0])) is False:
        return
    for words, at in (
        ("nothing is added to them", None),
        ("they get its last row", lambda p: np.minimum(p, n - 1)),
        ("they get its rows again, from the first on", lambda p: p % n),
    ):

        def predict(call: Added, at: Any = at) -> Truth:
            p = np.arange(call.x.shape[1])
            if at is not None:
                return call.at(at(p))
            own = call.truth()
            none, past = call.truth(pe=0.0), (p >= n)[:, None]
            names = ("value", "terms", "angle")
            return Truth(*(np.where(past, getattr(none, k), getattr(own, k)) for k in names))

        text = f"tokens from {n} on have no rows, {words}"
        if right:
            text += f": the table of {n} rows that the first call makes is kept for longer calls"
        else:
            text += f"; the first call has {n} tokens: consistent with a table that it makes, and "
            text += "that is kept for longer calls"
        remedy = "Make the table anew, by the formula, in every call that is longer than it."
        yield Mistake("state", text, predict, remedy)


def _fresh_is_right(run: Run, one: JudgedCall) -> bool | None:
    """Return whether a call is right if it is the first one; None if there is no new instance."""
    if run.driver.factory is None:
        return None
    driver = run.driver.fresh()
    try:
        result = driver.array(driver.call(one.facts.x))
    except (Refused, Malformed):
        return False
    return fits(run, replace(one, actual=result), one.truth)
