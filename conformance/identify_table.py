"""What an unknown table is: rotary cos and sin, rotary frequencies, or a sinusoidal table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref import RoPE, Sinusoidal
from posenc_ref.accuracy import ROUNDOFF

from .access import TableAccess
from .card import Card
from .diagnose_table import quadrature
from .fit_schedule import Measurement, fit, nice
from .frequencies import PUBLISHED_BASES, agree
from .measure import Phases, unaliased
from .run import Run
from .subject import Malformed

_NO_LAYOUT = "which channels form a pair: a table of one column per pair does not show it"


def identify(run: Run, card: Card) -> None:
    """Fill in the card of a table function."""
    {"cos_sin": _cos_sin, "frequencies": _frequencies, "table": _table}[card.surface](run, card)


def _frequencies(run: Run, card: Card) -> None:
    result = run.subject.call()
    factor = 1.0
    if isinstance(result, tuple):
        result, given = result
        factor = float(run.subject.array(given))
    w = run.subject.array(result)
    if w.ndim != 1 or not w.size:
        raise Malformed(f"expected (d/2,) frequencies, got shape {w.shape}")
    sigma = ROUNDOFF[run.coarse] * np.abs(w)
    card.frequencies, card.uncertainty = w, sigma
    card.facts["frequencies"] = f"{w.size} of them, {w[0]:.7g} .. {w[-1]:.7g} rad/position"
    card.unknown.append(_NO_LAYOUT)
    _as_rope(card, w, sigma, factor, "half")


def _as_rope(card: Card, w: np.ndarray, sigma: np.ndarray, m: float, layout: str) -> None:
    dim = 2 * w.size
    still = w == 0
    if still.any() and not still.all() and not still[: int((~still).sum())].any():
        turning = int((~still).sum())
        for base in PUBLISHED_BASES:
            proportional = RoPE(
                dim, layout=layout, base=base, scaling=pr.Proportional(turning / w.size)
            )
            if agree(w, proportional.frequencies(), sigma).all():
                card.encoding = proportional
                return
    fitted = fit(Measurement(w, sigma, dim, m, 8 * ROUNDOFF["float32"]))
    card.aliases += fitted.aliases
    card.encoding = RoPE(dim, layout=layout, base=fitted.base, scaling=fitted.scaling)


def _cos_sin(run: Run, card: Card) -> None:
    layouts: list[str] = []

    def read(result: Any, rows: int) -> np.ndarray:
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise Malformed(f"expected (cos, sin), got {type(result).__name__}")
        parts = []
        for table in (run.subject.array(t) for t in result):
            if table.ndim != 2 or table.shape[0] != rows:
                raise Malformed(f"expected shape ({rows}, d), got {table.shape}")
            parts.append(_single(table, layouts))
        return np.stack(parts, axis=1)

    access = TableAccess(run, read=read)
    access.read(run.subject.call(np.arange(5)), 5)
    access.learn()
    phases = unaliased(lambda p: (access.rows(p)[:, 0], access.rows(p)[:, 1]), run.coarse)
    sign = -1 if (phases.frequencies < 0).all() else 1
    _phase_facts(card, phases)
    if not layouts:
        card.unknown.append(_NO_LAYOUT)
    if sign < 0:
        card.facts["sign"] = "sin is that of -angle"
    m = float(np.median(phases.amplitude))
    _as_rope(card, sign * phases.frequencies, phases.sigma, m, layouts[0] if layouts else "half")


def _single(table: np.ndarray, layouts: list[str]) -> np.ndarray:
    """One column for each pair, of a table that may have every column twice."""
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


def _phase_facts(card: Card, phases: Phases) -> None:
    w = phases.frequencies
    card.frequencies, card.uncertainty, card.linear = w, phases.sigma, phases.linear
    card.facts["frequencies"] = f"{w.size} of them, {w[0]:.7g} .. {w[-1]:.7g} rad/position"
    card.facts["amplitude"] = f"{float(np.median(phases.amplitude)):.6g}"
    if not phases.linear:
        card.unknown.append("angles do not grow linearly with the position")


def _table(run: Run, card: Card) -> None:
    width: list[int] = []

    def read(result: Any, rows: int) -> np.ndarray:
        table = run.subject.array(result)
        if table.ndim != 2 or table.shape[0] != rows:
            raise Malformed(f"expected shape ({rows}, dim), got {table.shape}")
        width.append(table.shape[1])
        return table

    access = TableAccess(run, read=read)
    access.read(run.subject.call(np.arange(5)), 5)
    access.learn()
    dim = width[0]
    columns = quadrature(access, run.coarse, dim % 2 == 1)
    if columns is None:
        rows = access.rows(access.within(np.arange(17)))
        same = "every row is the same" if (rows == rows[0]).all() else "columns form no sinusoids"
        card.facts["table"] = f"{dim} columns"
        card.unknown.append(f"{same}: learned, or another function")
        return
    sines, cosines = columns

    def tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = access.rows(positions)
        return rows[:, cosines], rows[:, sines]

    phases = unaliased(tables, run.coarse)
    _phase_facts(card, phases)
    card.facts["columns"] = (
        f"{dim}: column {sines[0]} is the sine and column {cosines[0]} the cosine of the fastest "
        f"pair, {sines[-1]} and {cosines[-1]} of the slowest"
    )
    shapes = list(_shapes(dim, sines, cosines))
    if not shapes:
        card.unknown.append("columns are neither interleaved nor concatenated")
        return
    card.encoding = _sinusoidal(shapes, phases)
    if card.encoding is None:
        card.unknown.append("frequencies follow no base with a denominator that is described here")


def _shapes(dim: int, sines: np.ndarray, cosines: np.ndarray) -> Iterator[dict[str, Any]]:
    """Arrangements that have these columns."""
    for layout in ("interleaved", "concat"):
        for first in ("sin", "cos"):
            for odd in ("extra-sin", "zero-pad") if dim % 2 else ("raise",):
                fields: dict[str, Any] = {"layout": layout, "first": first, "odd": odd}
                try:
                    told = Sinusoidal(dim, **fields).columns()
                except ValueError:
                    continue
                n = cosines.size
                if np.array_equal(told[0][:n], sines) and np.array_equal(told[1][:n], cosines):
                    yield {"dim": dim, **fields}


def _sinusoidal(shapes: list[dict[str, Any]], phases: Phases) -> Sinusoidal | None:
    w, sigma = phases.frequencies, phases.sigma
    n = w.size
    scale = nice(float(np.median(phases.amplitude)), 8 * ROUNDOFF["float32"])
    first = float(w[0])
    offset = nice(float(phases.start[0] / w[0]), 1 / 1024) if w[0] else 0.0
    for shape in shapes:
        for denominator in ("dim", "half-1", float(n + 1)):
            for base in (*PUBLISHED_BASES, 2.0, 100.0):
                for position_scale in dict.fromkeys((1.0, nice(first), first)):
                    try:
                        tried = Sinusoidal(
                            shape["dim"], base=base, layout=shape["layout"], first=shape["first"],
                            odd=shape["odd"], denominator=denominator, scale=scale,
                            position_scale=position_scale, offset=offset,
                        )  # fmt: skip
                    except ValueError:
                        continue
                    if agree(w, tried.frequencies()[:n], sigma).all():
                        return tried
    return None
