"""Known mistakes of the sum of x and the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from posenc_ref.accuracy import ROUNDOFF, Truth
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.diagnosis.position_mistakes import other_rows
from posenc_ref.conformance.diagnosis.together import Predict, Together, both, telling
from posenc_ref.conformance.harness.plural import rooted
from posenc_ref.conformance.harness.run import Run

from .formulas import changed_steps
from .mistakes import Rows, looked_up
from .remedies import row_of

#: What to do about a factor on x or on the rows.
UNSCALED = (
    "Return x + PE, with the declared rows PE: add them once, and multiply neither x nor the sum."
)


@dataclass(frozen=True)
class Added:
    """The input x (B, S, dim) of one call, and the table whose rows are added to x."""

    encoding: Any
    x: np.ndarray
    rows: Rows

    def truth(self, x: float = 1.0, pe: float = 1.0) -> Truth:
        """Return ``x`` times the input plus ``pe`` times the rows of positions 0 .. S-1."""
        return self.at(np.arange(self.x.shape[1]), x, pe)

    def at(self, positions: Any, x: float = 1.0, pe: float = 1.0) -> Truth:
        """Return the sum at other positions, which broadcast to (B, S)."""
        rows = self.rows(np.broadcast_to(positions, self.x.shape[:2]))
        terms = np.abs(x * self.x) + np.abs(pe * rows.value)
        return Truth(x * self.x + pe * rows.value, terms, abs(pe) * rows.angle)


def sum_mistakes(encoding: Any) -> Iterator[Mistake]:
    """Yield the mistakes in the rows that are added, and factors that people write."""

    def at(positions: Callable[[int, int], Any]) -> Callable[[Added], Truth | None]:
        return looked_up(lambda call: call.at(positions(*call.x.shape[:2])))

    yield Mistake(
        "position-axis",
        "the batch index is used as the position: the table is cut to x.shape[0]",
        at(lambda b, s: np.arange(b)[:, None]),
        "x is (B, S, dim) here: cut the table to x.shape[1].",
    )
    for text, places in (
        ("through all rows of the batch: row b starts at b S",
         lambda b, s: np.arange(b * s).reshape(b, s)),
        ("through all rows of the batch, the rows of one token first: token i of row b is i B + b",
         lambda b, s: np.arange(b * s).reshape(s, b).T),
        ("from the batch index on: token i of row b is b + i",
         lambda b, s: np.arange(b)[:, None] + np.arange(s)),
    ):  # fmt: skip
        remedy = "Count the tokens of each row from 0: the position is the index on axis 1 of x."
        yield Mistake("position-axis", f"tokens are counted {text}", at(places), remedy)
    offset = getattr(encoding, "offset", 0)
    for code, message, change in other_rows(offset):
        yield Mistake(code, message, at(lambda b, s, of=change: of(np.arange(s))), row_of(offset))  # type: ignore[misc]
    root = float(encoding.dim) ** 0.5
    for message, x, pe in (
        ("x is multiplied by sqrt(dim)", root, 1.0),
        ("x is divided by sqrt(dim)", 1 / root, 1.0),
        ("the encoding is multiplied by sqrt(dim)", 1.0, root),
        ("the encoding is divided by sqrt(dim)", 1.0, 1 / root),
        ("the sum is multiplied by sqrt(dim)", root, root),
        ("the encoding is added twice", 1.0, 2.0),
        ("the encoding is subtracted", 1.0, -1.0),
        ("nothing is added", 1.0, 0.0),
        ("x is missing: only the encoding is returned", 0.0, 1.0),
        ("x is added twice", 2.0, 1.0),
    ):
        yield Mistake("amplitude", message, lambda call, x=x, pe=pe: call.truth(x, pe), UNSCALED)  # type: ignore[misc]


def sum_pairs(
    run: Run, calls: Sequence[JudgedCall], singles: Sequence[Mistake]
) -> Iterator[Together]:
    """Yield each of the mistakes in the rows that are added, with factors on x and on the rows."""
    one = telling(run, calls)
    for single in singles:
        truth = single.predict(one.facts)
        if truth is None:
            continue
        for factor in sum_factors(run, one, truth.value - one.facts.x):
            x, pe = factor.values["x"], factor.values["rows"]
            yield both(single, factor, partial(_with_factors, single.predict, x, pe))


def _with_factors(of: Predict, x: float, pe: float, call: Added) -> Truth | None:
    """Return ``x`` times the input plus ``pe`` times the rows that a mistake adds."""
    own = of(call)
    if own is None:
        return None
    value = x * call.x + pe * (own.value - call.x)
    return Truth(value, max(abs(x), abs(pe)) * own.terms, abs(pe) * own.angle)


def sum_factors(run: Run, one: JudgedCall, rows: np.ndarray | None = None) -> Iterator[Mistake]:
    """Yield the factors on x and on the rows that give a call, if there are any but 1.

    ``rows`` are those that are added, by default the declared ones.
    """
    if not np.isfinite(one.actual).all():
        return
    rows = one.facts.truth(x=0.0).value if rows is None else rows
    if not np.isfinite(rows).all():
        return
    terms = np.stack([one.facts.x.ravel(), rows.ravel()], axis=1)
    (x, pe), *_ = np.linalg.lstsq(terms, one.actual.ravel(), rcond=None)
    near = 64 * ROUNDOFF[run.dtype]
    factors = {"x": float(x), "the encoding": float(pe)}
    off = {name: c for name, c in factors.items() if abs(c - 1) > near}
    if not off:
        return
    if len(off) == 2 and abs(x - pe) <= near * abs(x):
        off = {"the sum": x}
    text = ", ".join(f"{name} is multiplied by {rooted(c, near)}" for name, c in off.items())
    values = {"x": float(x), "rows": float(pe)}
    yield Mistake("amplitude", text, lambda call: call.truth(x, pe), UNSCALED, values=values)


def sum_steps(run: Run, first: Added) -> Iterator[Mistake]:
    """Yield the changed steps of the formula of the rows that are added."""
    for mistake in changed_steps(run, np.arange(first.x.shape[1])):
        yield replace(mistake, predict=of_sum(mistake.predict))


def of_sum(of: Predict) -> Predict:
    """Return a prediction of sums from one of the rows that are added."""

    def predict(call: Added) -> Truth | None:
        rows = of(np.arange(call.x.shape[1]))
        return None if rows is None else replace(call, rows=lambda p: rows).truth()

    return predict
