"""Identify rotary cos and sin tables, and rotary frequencies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.reach import Reach, TableAccess
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.measure import Phases, unaliased

from .card import Card
from .fit.measurement import Factor, Measurement
from .length import Lengths
from .measure import amplitude, reach, refined
from .rotary import NO_RULE, closest_fit, encode, numbers
from .structure import Structure

_NO_LAYOUT = "which channels form a pair: a table of one column per pair does not show it"


def cos_sin(run: Run, card: Card) -> None:
    """Fill in the card of ``fn(positions) -> (cos, sin)``."""
    layouts: list[str] = []

    def read(result: Any, rows: int) -> np.ndarray:
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise Malformed(f"expected (cos, sin), got {type(result).__name__}")
        parts = []
        for table in (run.driver.array(t) for t in result):
            if table.ndim != 2 or table.shape[0] != rows:
                raise Malformed(f"expected shape ({rows}, d), got {table.shape}")
            parts.append(_single(table, layouts))
        return np.stack(parts, axis=1)

    access = open_table(run, card, read)
    if access is None:
        return

    def tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = access.rows(positions)
        return rows[:, 0], rows[:, 1]

    phases = unaliased(tables, run.coarse)
    card.linear = phases.linear
    if not phases.linear:
        card.unknown.append("angles or amplitudes do not follow the position evenly")
    factor = amplitude(run, access, tables, phases)
    lengths = Lengths(run, access, tables, phases, card)
    most = lengths.last // 2 if lengths.changed else reach(access)
    phases = refined(tables, phases, most, run.coarse)
    numbers(card, phases, factor, run.coarse)
    if not layouts:
        card.unknown.append(_NO_LAYOUT)
    if card.facts["sign"].startswith("turns the other"):
        card.facts["sign"] = "sin is that of -angle"
    sign = -1 if (phases.frequencies < 0).all() else 1
    measured = Measurement.of(run.coarse, sign * phases.frequencies, phases.sigma, factor)
    _as_rope(card, measured, layouts[0] if layouts else "half")
    lengths.explain(card, measured, np.arange(measured.w.size))


def open_table(run: Run, card: Card, read: Callable[[Any, int], np.ndarray]) -> TableAccess | None:
    """Return access to the rows of a table; None, with the reason on the card, if it is none."""
    access = TableAccess(run, read=read)
    at = np.arange(5)
    first = access.read(run.driver.call(at), at.size)
    if not np.isfinite(first).all():
        card.unknown.append("what comes out is not finite")
        return None
    if not np.array_equal(first, access.read(run.driver.call(at), at.size)):
        card.unknown.append("the same call gives other values at once: it is no table")
        return None
    access.learn()
    return access


def _single(table: np.ndarray, layouts: list[str]) -> np.ndarray:
    """Return one column for each pair, of a table that may have every column twice."""
    n = table.shape[1] // 2
    if table.shape[0] > 1 and table.shape[1] % 2 == 0:
        if np.array_equal(table[:, :n], table[:, n:]):
            layouts.append("half")
            return table[:, :n]
        if np.array_equal(table[:, ::2], table[:, 1::2]):
            layouts.append("interleaved")
            return table[:, ::2]
    if layouts:  # a call of one row shows no arrangement: the one seen before holds
        return table[:, :n] if layouts[0] == "half" else table[:, ::2]
    return table


def _as_rope(card: Card, m: Measurement, layout: str) -> None:
    structure = Structure({"layout": layout}, np.arange(m.w.size), m.w.size)
    fitted = closest_fit(m)
    if not card.linear and not fitted.named:
        card.unknown.append(NO_RULE)
        return
    card.encoding = encode(card, m.rotary_dim, structure, fitted, m, 1)


class _Anywhere(Reach):
    """A function that takes every length."""

    def touch(self, position: int) -> None:
        """Accept every position."""


def frequencies(run: Run, card: Card) -> None:
    """Fill in the card of ``fn()``, or ``fn(seq_len)``: frequencies, or those and the factor."""
    called: dict[int | None, tuple[np.ndarray, float]] = {}

    def ask(length: int | None) -> tuple[np.ndarray, float]:
        if length not in called:
            result = run.driver.call() if length is None else run.driver.call(length)
            factor = 1.0
            if isinstance(result, tuple):
                result, given = result
                factor = float(run.driver.array(given))
            w = run.driver.array(result)
            if w.ndim != 1 or not w.size:
                raise Malformed(f"expected (d/2,) frequencies, got shape {w.shape}")
            called[length] = w, factor
        return called[length]

    by_length = False
    try:
        w, m = ask(None)
    except Refused:
        w, m = ask(1)
        by_length = True
    if not np.isfinite(w).all():
        card.unknown.append("what comes out is not finite")
        return

    def tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        now, factor = ask(int(positions.max()) + 1)
        angle = positions[:, None] * now
        return factor * np.cos(angle), factor * np.sin(angle)

    phases = Phases(w, ROUNDOFF[run.coarse] * np.abs(w), np.zeros(w.size), np.full(w.size, m))
    rounding = ROUNDOFF[run.coarse]
    measured_factor = Factor(m, 8 * rounding, rounding)
    card.unknown.append(_NO_LAYOUT)
    numbers(card, phases, measured_factor, run.coarse)
    measured = Measurement.of(run.coarse, w, phases.sigma, measured_factor)
    _as_rope(card, measured, "half")
    try:
        if not by_length:
            ask(1)
    except Refused:
        card.facts["length"] = "it takes no length"
        return
    lengths = Lengths(run, _Anywhere(run, mode="any"), tables, phases, card)
    lengths.explain(card, measured, np.arange(w.size))
