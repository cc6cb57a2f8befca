"""Compare tables: cos and sin, frequencies, and rows that are added to embeddings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import Rotary, Table
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.same_logits import FEWEST
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.probes import GENERIC, REPORTED, WINDOWS, error_window
from posenc_ref.conformance.harness.reach import Reach, TableAccess
from posenc_ref.conformance.identify.table import asked, at_shortest, open_table, pairs_of
from posenc_ref.conformance.oracle.apply import angle_size, exactly
from posenc_ref.conformance.oracle.calls import logits

from .comparison import CONTEXTS
from .side import RANDOM, Side, Two, judged, sampled, search

#: Returns the rows of a function's table at positions (S,).
Rows = Callable[[Side, np.ndarray], np.ndarray]
#: Returns rows with their tolerance.
Unit = Callable[[np.ndarray, np.ndarray], Truth]
#: Returns queries or keys at the positions of rows (S, d), from random numbers (S, 2 d).
Place = Callable[[np.ndarray, Truth], Truth]


class _Anywhere(Reach):
    """A function whose angles at every position follow from its frequencies."""

    def touch(self, position: int) -> None:
        """Accept every position."""


def compare_cos_sin(two: Two, like: Any) -> None:
    """Compare ``fn(positions) -> (cos, sin)``; repeated columns are compared once."""
    layouts: list[list[str]] = [[], []]
    for side, found in zip((two.a, two.b), layouts, strict=True):
        side.access = open_table(side.run, pairs_of(side.run, found))
    a, b = (found[0] if found else "" for found in layouts)
    if not (a and b and a != b):
        _compare(two, _rows, _angles(like), _rotated)
        return

    def whole(side: Side, at: np.ndarray) -> np.ndarray:
        rows = _rows(side, at)
        by_pair = (a if side is two.a else b) == "interleaved"
        return np.repeat(rows, 2, axis=-1) if by_pair else np.tile(rows, 2)

    unit = _angles(like)  # of one copy; both have the same size
    _compare(two, whole, lambda rows, at: _copied(unit(rows[..., ::2], at), rows), None)
    two.run.add(
        "layout",
        f"the two copies of each column are in the layout {a}, declared {b}",
        "columns that are equal at every position",
    )


def compare_table(two: Two, like: Any) -> None:
    """Compare ``fn(positions) -> (S, dim)``."""

    def unit(rows: np.ndarray, at: np.ndarray) -> Truth:
        return replace(like.truth(at), value=rows) if isinstance(like, Table) else exactly(rows)

    for side in (two.a, two.b):
        side.access = open_table(side.run, _reader(side))
    _compare(two, _rows, unit, _added)


def compare_frequencies(two: Two, like: Any) -> None:
    """Compare ``fn()`` or ``fn(seq_len)``, and the angles that the frequencies give."""
    asks = {"a": asked(two.a.run), "b": asked(two.b.run)}
    fixed = set()
    for key, side in (("a", two.a), ("b", two.b)):
        side.access = _Anywhere(side.run, mode="any")
        try:
            asks[key](1)
        except (Refused, Malformed):
            fixed.add(key)

    def of(side: Side, length: int) -> np.ndarray:
        key = "b" if side is two.b else "a"
        w, m = at_shortest(asks[key]) if key in fixed or not length else asks[key](length)
        return np.append(w, m)

    def rows(side: Side, at: np.ndarray) -> np.ndarray:
        found = of(side, int(at.max()) + 1)
        angle = at[:, None] * found[:-1]
        return np.asarray(found[-1] * np.stack([np.cos(angle), np.sin(angle)], axis=1))

    for n in (0,) if len(fixed) == 2 else (0, *REPORTED):
        case = f"a sequence of {n} tokens" if n else "the shortest sequence"
        two.judge(lambda side, n=n: of(side, n), case, exactly, required=not n)  # type: ignore[misc]
    if not two.run.report.codes:
        _finish(two, rows, _angles(like), _rotated)


def _reader(side: Side) -> Callable[[Any, int], np.ndarray]:
    def read(result: Any, rows: int) -> np.ndarray:
        table = side.run.driver.array(result)
        if table.ndim != 2 or table.shape[0] != rows:
            raise Malformed(f"expected shape ({rows}, dim), got {table.shape}")
        return table

    return read


def _rows(side: Side, at: np.ndarray) -> np.ndarray:
    assert isinstance(side.access, TableAccess)
    return side.access.rows(at)


def _angles(like: Any) -> Unit:
    """Return the unit of cos and sin (S, 2, pairs); without a rotation, that of plain numbers."""

    def unit(rows: np.ndarray, at: np.ndarray) -> Truth:
        if not isinstance(like, Rotary):
            return exactly(rows)
        angle, m = angle_size(like, at)
        return Truth(
            rows, np.full_like(rows, abs(m)), np.zeros_like(rows) + abs(m) * angle[:, None]
        )

    return unit


def _copied(truth: Truth, rows: np.ndarray) -> Truth:
    """Return ``rows`` with the largest tolerance of any pair."""
    terms, angle = (t.max(axis=-1, keepdims=True) + 0 * rows for t in (truth.terms, truth.angle))
    return Truth(rows, terms, angle)


def _compare(two: Two, rows: Rows, unit: Unit, place: Place | None) -> None:
    two.align()
    groups = {"positions 0..4": np.arange(5), "positions 0..2049": np.arange(2050)}
    groups |= {"generic positions": GENERIC}
    groups |= {f"window at {start}": np.arange(start, start + 9) for start in WINDOWS}
    groups |= {f"end of a context of {n}": error_window(n) for n in REPORTED}
    for case, wanted in groups.items():
        _group(two, case, two.within(wanted), rows, unit)
        if two.run.report.codes:
            return
    _finish(two, rows, unit, place)


def _group(two: Two, case: str, at: np.ndarray, rows: Rows, unit: Unit) -> None:
    if at.size:
        required = case == "positions 0..4"
        two.judge(lambda side: rows(side, at), case, lambda y: unit(y, at), required=required)
        two.run.reached(int(at.max()))


def _rotated(x: np.ndarray, row: Truth) -> Truth:
    """Return x, one pair in columns k and n + k, rotated by rows (cos, sin) of n pairs."""
    n = row.value.shape[-1]
    z = (x[:, :n] + 1j * x[:, n:]) * (row.value[:, 0] + 1j * row.value[:, 1])
    size = np.abs(x[:, :n]) + np.abs(x[:, n:])
    terms, angle = (np.tile(size * t[:, 0], 2) for t in (row.terms, row.angle))
    return Truth(np.concatenate([z.real, z.imag], axis=-1), terms, angle)


def _added(x: np.ndarray, row: Truth) -> Truth:
    """Return x with the rows added to it."""
    x = x[:, : row.value.shape[-1]]
    return Truth(x + row.value, np.abs(x) + np.abs(row.value), row.angle)


def _finish(two: Two, rows: Rows, unit: Unit, place: Place | None) -> None:
    """Find the first visible difference, and compare logits."""

    def error(at: np.ndarray) -> np.ndarray:
        off = np.abs(rows(two.a, at) - rows(two.b, at)).reshape(at.size, -1).max(axis=1)
        return np.where(np.isnan(off), np.inf, off)

    search(two, error)
    if place is None:
        return
    agree, compared = True, 0
    for n in sampled(two):
        last = error_window(n)
        keys = np.unique(np.concatenate([judged(two, n), np.arange(min(n, 2050)), last]))
        placed = []
        for side in (two.a, two.b):
            parts = [(at, rows(side, at)) for at in (last, keys)]
            width = parts[0][1].shape[-1]
            random = np.random.default_rng(two.run.settings.seed + n)
            x = [random.standard_normal((at.size, 2 * width)) for at, _ in parts]
            placed.append([place(g, unit(r, at)) for g, (at, r) in zip(x, parts, strict=True)])
        got, expected = (logits(q, k) for q, k in placed)
        agree = agree and two.run.fits(got.value, two.widened(expected))
        compared += 1
        if n in CONTEXTS:
            off = float(np.abs(got.value - expected.value).max())
            two.difference.errors[n] = off / placed[0][0].value.shape[-1] ** 0.5
    two.difference.inputs = RANDOM
    two.difference.logits = agree if compared >= FEWEST else None
