"""Identify rotary cos and sin tables and rotary frequencies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.reach import Reach, TableAccess
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.measure import Phases, unaliased

from .card import Card, Unidentified, require_finite, require_same
from .fit.measurement import Factor
from .length import Lengths
from .measure import amplitude, unequal
from .pairs.structure import Structure
from .rotary import explain, numbers

#: What is unknown of a rotation if its cos and sin have one column for each pair.
NO_LAYOUT = "one column per pair does not show which channels form a pair"


def cos_sin(run: Run, card: Card) -> None:
    """Fill in the identity card of ``fn(positions) -> (cos, sin)``."""
    layouts: list[str] = []
    access = open_table(run, pairs_of(run, layouts))
    if not access.rows(access.within(np.arange(5))).any():
        raise Unidentified("cos and sin are 0")

    def both(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = access.rows(positions)
        return rows[:, 0], rows[:, 1]

    tables, phases, uneven = unequal(both, unaliased(both, run.coarse), run.coarse)
    factor = amplitude(run, access, tables, phases)
    lengths = Lengths(run, access, tables, phases, card)
    phases = lengths.refined(access)
    numbers(card, phases, factor, run.coarse)
    if uneven is not None:
        card.facts["amplitude"] = uneven.words
    if phases.sign < 0:
        card.facts["sign"] = "the function returns sin(-angle)"
    if not layouts:
        card.unknown.append(NO_LAYOUT)
    structure = _structure(phases, *layouts[:1])
    turned = replace(phases, frequencies=phases.sign * phases.frequencies)
    lengths.explain(card, *explain(run, card, [structure], turned, factor, 1, uneven))


def pairs_of(run: Run, layouts: list[str]) -> Callable[[Any, int], np.ndarray]:
    """Return a reader of results (cos, sin): (rows, 2, pairs), with one column for each pair.

    If columns are repeated, their layout is added to ``layouts``.
    """

    def read(result: Any, rows: int) -> np.ndarray:
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise Malformed(f"expected (cos, sin), got {type(result).__name__}")
        parts = []
        for table in (run.driver.array(t) for t in result):
            if table.ndim != 2 or table.shape[0] != rows:
                raise Malformed(f"expected shape ({rows}, d), got {table.shape}")
            parts.append(_single(table, layouts))
        if parts[0].shape != parts[1].shape:
            raise Malformed(f"cos has shape {parts[0].shape}, and sin {parts[1].shape}")
        return np.stack(parts, axis=1)

    return read


def open_table(run: Run, read: Callable[[Any, int], np.ndarray]) -> TableAccess:
    """Return access to the rows of a table whose repeated calls agree."""
    access = TableAccess(run, read=read)
    at = np.arange(5)
    first = access.read(run.driver.call(at), at.size)
    require_finite(first)
    require_same(first, access.read(run.driver.call(at), at.size))
    access.learn()
    return access


def _single(table: np.ndarray, layouts: list[str]) -> np.ndarray:
    """Return one column for each pair, and note the layout if columns are repeated."""
    n = table.shape[1] // 2
    copies = {"half": (table[:, :n], table[:, n:]), "interleaved": (table[:, ::2], table[:, 1::2])}
    for layout, (first, second) in copies.items() if len(table) > 1 else ():
        if np.array_equal(first, second):
            layouts.append(layout)
            return first
    # A call of one row has the layout of earlier calls.
    return copies[layouts[0]][0] if layouts else table


def _structure(phases: Phases, layout: str = "half") -> Structure:
    n = phases.frequencies.size
    return Structure({"head_dim": 2 * n, "layout": layout}, np.arange(n), n)


class _Anywhere(Reach):
    """A function that takes every length."""

    def touch(self, position: int) -> None:
        """Accept every position."""


#: ``ask()`` or ``ask(seq_len)`` returns the frequencies and the attention factor of one call.
Ask = Callable[..., tuple[np.ndarray, float]]


def asked(run: Run) -> Ask:
    """Return a function that calls ``fn()`` or ``fn(seq_len)``, each once."""
    called: dict[tuple[int, ...], tuple[np.ndarray, float]] = {}

    def ask(*length: int) -> tuple[np.ndarray, float]:
        if length not in called:
            result, factor = run.driver.call(*length), 1.0
            if isinstance(result, tuple):
                if len(result) != 2:
                    raise Malformed(f"expected frequencies and a factor, got {len(result)} results")
                result, size = result[0], run.driver.array(result[1])
                if size.size != 1 or size.dtype.kind == "c":
                    raise Malformed(f"expected a real factor, got shape {size.shape}")
                factor = float(size.reshape(()))
            w = run.driver.array(result)
            if w.dtype.kind == "c":
                raise Malformed("expected real frequencies, got complex numbers")
            if w.ndim != 1 or not w.size:
                raise Malformed(f"expected (d/2,) frequencies, got shape {w.shape}")
            sizes = [before.size for before, _ in called.values()]
            if sizes and w.size != sizes[0]:
                raise Malformed(
                    f"the number of frequencies changes with the length: {sizes[0]} before, "
                    f"{w.size} for {length[0] if length else 'no'} tokens"
                )
            called[length] = w, factor
        return called[length]

    return ask


def at_shortest(ask: Ask) -> tuple[np.ndarray, float]:
    """Return the result without a length, or for length 1 if a length is required."""
    try:
        return ask()
    except Refused:
        return ask(1)


def frequencies(run: Run, card: Card) -> None:
    """Fill in the identity card of ``fn()`` or ``fn(seq_len)``: frequencies, or also a factor."""
    ask = asked(run)
    w, m = at_shortest(ask)
    require_finite(w)

    def tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        w, m = ask(int(positions.max()) + 1)
        angle = positions[:, None] * w
        return m * np.cos(angle), m * np.sin(angle)

    phases = Phases(w, ROUNDOFF[run.coarse] * np.abs(w), np.zeros(w.size), np.full(w.size, m))
    factor = Factor(m, 8 * ROUNDOFF[run.coarse], ROUNDOFF[run.coarse])
    card.unknown.append(NO_LAYOUT)
    numbers(card, phases, factor, run.coarse)
    measured, index = explain(run, card, [_structure(phases)], phases, factor, 1)
    try:
        ask(1)
    except Refused:
        card.facts["length"] = "the function takes no length"
        return
    lengths = Lengths(run, _Anywhere(run, mode="any"), tables, phases, card)
    lengths.explain(card, measured, index)
