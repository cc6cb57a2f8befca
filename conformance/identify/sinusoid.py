"""Identify a table as sinusoidal or as a list of learned rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from posenc_ref import Learned, Sinusoidal
from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance.harness.driver import Malformed
from posenc_ref.conformance.harness.reach import TableAccess
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.measure import Phases, unaliased
from posenc_ref.conformance.phases.precision import rounded
from posenc_ref.conformance.table.diagnose import quadrature, tables_of

from . import features
from .card import Card, Unidentified
from .fit.measurement import Factor, Measurement
from .fit.sinusoids import BASES, spacings
from .images import several
from .length import NOT_LINEAR
from .measure import amplitude, finite_until, origin, reach, refined, uncertainty
from .table import open_table

#: The most numbers of a learned table.
_MANY = 2**24
#: The row that is asked for to see whether a table ends: longer ones are made of positions.
_FAR = 2**17
#: The most roundings of a frequency that is computed in half precision.
_ROUNDINGS = 4


def identify(run: Run, card: Card) -> None:
    """Fill in the identity card of ``fn(positions) -> (S, dim)``."""
    if run.driver.axes > 1:
        several.identify(run, card)
        return
    width: list[int] = []

    def read(result: Any, rows: int) -> np.ndarray:
        table = run.driver.array(result)
        if table.ndim != 2 or table.shape[0] != rows or not table.shape[1]:
            raise Malformed(f"expected shape ({rows}, dim), got {table.shape}")
        width.append(table.shape[1])
        return table

    access = open_table(run, read)
    dim = width[0]
    columns = quadrature(access, run.coarse)
    if columns is None and dim % 2:
        columns = quadrature(access, run.coarse, extra=True)
    if columns is None:
        if not _fractional(run, card):
            _no_sinusoids(run, card, access, dim)
        return
    sines, cosines = columns
    tables = tables_of(access, columns)
    most = reach(access)
    phases = refined(tables, unaliased(tables, run.coarse), most, run.coarse)
    factor = amplitude(run, access, tables, phases)
    phases, size = _upright(phases, factor)
    w = phases.frequencies
    card.frequencies, card.uncertainty = w, uncertainty(phases, run.coarse)
    card.linear = phases.linear
    card.facts["columns"] = (
        f"{dim}: column {sines[0]} is the sine and column {cosines[0]} the cosine of the fastest "
        f"pair, {sines[-1]} and {cosines[-1]} of the slowest"
    )
    card.facts["frequencies"] = f"{w.size} of them, {w[0]:.7g} .. {w[-1]:.7g} rad/position"
    card.facts["amplitude"] = f"{size:.8g}"
    if not phases.linear:
        card.unknown.append(NOT_LINEAR)
    if not np.isfinite(access.rows(np.array([most]))).all():
        card.facts["finite"] = finite_until(tables, int(access.within(np.arange(17))[-1]), most)
    rows = access.rows(access.within(np.arange(17)))
    spare = np.setdiff1d(np.arange(dim), np.concatenate(columns))
    odd = "raise" if not dim % 2 else "extra-sin" if rows[:, spare].any() else "zero-pad"
    fields = {"odd": odd, "offset": origin(phases, run.coarse), "scale": _scale(size, factor, dim)}
    plain = next(_arranged(dim, fields, sines, cosines), None)
    if plain is None:
        if _fractional(run, card):
            return
        raise Unidentified("the sine and cosine columns are neither interleaved nor concatenated")
    m = Measurement.of(run.coarse, w, phases.sigma, factor)
    for spacing in spacings(m, dim):
        with suppress(ValueError):  # an invalid combination
            found = plain.replace(**spacing)
            if m.agree(found.frequencies()[: w.size]).all():
                card.encoding = found
                card.relations += _relations(found, m)
                return
    card.encoding = next(_from_half_precision(plain, m), None)
    if card.encoding is None:
        raise Unidentified("no base and denominator of Sinusoidal give the frequencies")


def _fractional(run: Run, card: Card) -> bool:
    """Identify features of real coordinates, whose sines at integers look like other ones."""
    trial = Card(card.subject, card.surface, card.backend, card.dtype)
    if not features.identify(run, trial):
        return False
    for name in ("facts", "unknown", "linear", "frequencies", "uncertainty", "encoding"):
        setattr(card, name, getattr(trial, name))
    return True


def _from_half_precision(plain: Sinusoidal, m: Measurement) -> Iterator[Sinusoidal]:
    """Yield published tables whose frequencies were computed in half precision.

    A module that is converted to half precision rounds its frequencies; the check says so.
    """
    for kind in ("bfloat16", "float16"):
        if not m.agree(rounded(m.w, kind)).all():
            continue
        for base, denominator in product(BASES, ("dim", "half-1")):
            with suppress(ValueError):  # an invalid combination
                found = plain.replace(base=base, denominator=denominator)
                w = found.frequencies()[: m.w.size]
                if (np.abs(m.w - w) <= _ROUNDINGS * ROUNDOFF[kind] * w).all():
                    yield found


def _no_sinusoids(run: Run, card: Card, access: TableAccess, dim: int) -> None:
    """Identify a table without sinusoids as learned if positions after a last row fail."""
    last = access.reach(_FAR)
    rows = access.rows(np.arange(min(last, 16) + 1))
    least = "at least " if last == _FAR else ""
    card.facts["table"] = f"{dim} columns, {least}{last + 1} rows"
    if (rows == rows[0]).all():
        what = "equal" if rows.any() else "zero"
        raise Unidentified(f"all rows are {what}: the table does not depend on positions")
    if access.highest is None or last == _FAR or last * dim >= _MANY:  # no last row was found
        text = "columns form no sinusoids, and no position is refused, so the table is not learned"
        if ROUNDOFF[run.coarse] > ROUNDOFF["float32"]:
            text += f"; {run.coarse} may hide the slow sinusoids: identify the function in float32"
        raise Unidentified(text)
    kind = "float64" if run.dtype == "float64" else "float32"  # exact for the dtype of the result
    table = access.rows(np.arange(last + 1)).astype(kind)
    card.encoding = Learned(table)
    card.facts["learned"] = "columns form no sinusoids; the encoding holds all rows of the table"
    still = np.flatnonzero(~table.any(axis=1)).tolist()
    if still:
        card.facts["padding"] = f"row {', '.join(map(str, still[:4]))} is zeros, as for padding"
    card.relations += ("offset=n with n unused rows before the first gives the same results",)


def _upright(phases: Phases, factor: Factor) -> tuple[Phases, float]:
    """Return phases and scale; if all pairs start at half a turn, negate the scale instead."""
    size = factor.short
    turned = np.abs(np.abs(phases.start) - np.pi)
    if (turned > BUDGET["float32"] * max(factor.error, ROUNDOFF["float32"])).any():
        return phases, size
    start = phases.start - np.copysign(np.pi, phases.start)
    return replace(phases, start=start), -size


def _arranged(
    dim: int, fields: dict[str, Any], sines: np.ndarray, cosines: np.ndarray
) -> Iterator[Sinusoidal]:
    n = cosines.size
    for layout, first in product(("interleaved", "concat"), ("sin", "cos")):
        with suppress(ValueError):  # an invalid combination
            found = Sinusoidal(dim, layout=layout, first=first, **fields)
            a, b = found.columns()
            if np.array_equal(a[:n], sines) and np.array_equal(b[:n], cosines):
                yield found


def _scale(size: float, factor: Factor, dim: int) -> float:
    """Return ``size``, or the usual root of ``dim`` that it equals within its error."""
    for known in (dim**-0.5, (2 / dim) ** 0.5, dim**0.5):
        if abs(abs(size) - known) <= factor.error * known:
            return float(np.copysign(known, size))
    return size


def _relations(found: Sinusoidal, m: Measurement) -> tuple[str, ...]:
    if m.w.size == 1:
        return ("any base: the only pair has frequency position_scale with every base",)
    if found.base not in BASES or not isinstance(found.denominator, str):
        return ("any base and denominator n with the same base ** (1/n)",)
    return ()
