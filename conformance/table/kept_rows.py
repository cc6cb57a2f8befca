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

from .sum_mistakes import Added

#: The rows of tables that are built before the first call.
_KEPT = (1, 2, 4, 8, 16, 32, 64, 100, 128, 256, 512, 1000, 1024, 2048, 4096, 5000)


def regrown(calls: Sequence[JudgedCall]) -> Iterator[Mistake]:
    """Yield the mistake of a kept table whose new rows start at position 0 again.

    The calls are in the order in which they were made: each that is longer than the table so far
    adds rows to it.
    """
    encoding = calls[0].facts.encoding
    lengths = [one.facts.x.shape[1] for one in calls]
    for first in sorted({*_KEPT, *lengths}):
        rows, of_call = np.arange(first), {}
        for one, n in zip(calls, lengths, strict=True):
            rows = np.append(rows, np.arange(max(n - rows.size, 0)))
            of_call[id(one.facts)] = rows[:n]

        def predict(call: Added, of: dict[int, np.ndarray] = of_call) -> Truth | None:
            at = of.get(id(call))
            return None if at is None else call.at(at)

        text = (
            f"the kept table of {first} rows is extended by rows that start at position 0 again: "
            "so does every extension"
        )
        remedy = "Extend the table by the rows from its own length on: positions have .. n - 1."
        if max(lengths) > first and encoding is not None:
            yield Mistake("state", text, predict, remedy)


def kept_from_first(run: Run, calls: Sequence[JudgedCall]) -> Iterator[Mistake]:
    """Yield tables that are as long as the first call, and what longer calls get past their end.

    On a fresh instance a longer call must be right; if none can be made, the message says so.
    """
    n = calls[0].facts.x.shape[1]
    longer = [one for one in failed(run, calls) if one.facts.x.shape[1] > n]
    if not longer or (right := _fresh_is_right(run, longer[0])) is False:
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
