"""Measure each column of a sinusoidal table alone, where columns form no pairs."""

from __future__ import annotations

import numpy as np

from posenc_ref import Sinusoidal
from posenc_ref.accuracy import TINY
from posenc_ref.conformance.diagnosis.match import explains, likely, match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.harness.plural import plural, ranges
from posenc_ref.conformance.harness.probes import GENERIC
from posenc_ref.conformance.harness.reach import TableAccess
from posenc_ref.conformance.harness.run import Run

from .formulas import changed_steps
from .remedies import columns_of, of_step

#: The largest departure of a column of size 1 from a sinusoid.
_SINUSOID = 1e-3


def dead_columns(run: Run, access: TableAccess, encoding: Sinusoidal) -> bool:
    """Report columns that are the same at every position, where the declared ones are not."""
    at = access.within(np.r_[np.arange(64), GENERIC])
    rows, truth = access.rows(at), encoding.truth(at)
    dead = np.ptp(rows, axis=0) == 0
    dead = np.flatnonzero(dead & (run.scores(rows, truth) > run.budget).any(axis=0))
    if dead.size:
        run.add(
            "exponent",
            f"{plural(dead.size, 'column is', 'columns are', rows.shape[1])} the same at every "
            f"position: {ranges(dead.tolist())}",
            f"column {dead[0]} is {rows[0, dead[0]]:.6g} at {at.size} positions, 0..{at.max()}",
            remedy=columns_of(encoding),
            equivalent=("frequency-spacing",),
        )
    return bool(dead.size)


def sinusoids(access: TableAccess) -> bool:
    """Return whether every column is a sinusoid in its first rows."""
    rows = access.rows(access.within(np.arange(64)))
    return bool((_recurring(rows)[1] <= 0.05 * np.abs(rows).max(axis=0)).all())


def _recurring(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``2 cos(w)`` of every column, and its largest departure from a sinusoid."""
    # Any A sin(w p + phase) satisfies f(p+1) + f(p-1) = 2 cos(w) f(p).
    middle, around = rows[1:-1], rows[2:] + rows[:-2]
    fit = np.sum(middle * around, axis=0) / np.maximum(np.sum(middle**2, axis=0), TINY["float64"])
    return fit, np.abs(around - fit * middle).max(axis=0)


def single_columns(run: Run, access: TableAccess, encoding: Sinusoidal) -> None:
    """Report columns that form no pairs; each column is measured alone.

    What a few rows show is reported only if later rows agree.
    """
    if changed_step(run, access, encoding):
        return
    at = access.within(np.arange(64))
    rows = access.rows(at) / encoding.scale
    fit, misfit = _recurring(rows)
    if (misfit > 0.05).mean() > 0.5:
        if _displaced(run, access, encoding) or _many_right(run, access, encoding, at):
            return
        run.add(
            "uninitialised",
            f"{int((misfit > 0.05).sum())} of {misfit.size} columns follow no sinusoid",
            f"column {int(np.argmax(misfit))} at positions 0..63",
        )
        return
    if dead_columns(run, access, encoding):
        return
    odd = np.flatnonzero(~(misfit < _SINUSOID))
    if odd.size:
        run.add(
            "inaccurate",
            f"{odd.size} of {misfit.size} columns are no sinusoids",
            f"column {odd[0]} at positions 0..63",
            remedy=columns_of(encoding),
        )
        return
    if _no_longer(access, fit).any():  # in these rows only, columns are sinusoids
        return
    sine = np.abs(rows[0]) < 0.5
    with np.errstate(invalid="ignore"):
        w = np.where(sine, np.arcsin(rows[1]), np.arccos(rows[1]))
    declared = np.zeros(encoding.dim)
    sines, cosines = encoding.columns()
    frequencies = encoding.frequencies()
    declared[sines], declared[cosines] = frequencies[: sines.size], frequencies[: cosines.size]
    with np.errstate(invalid="ignore", divide="ignore"):
        wrong = np.flatnonzero(~(np.abs(w / declared - 1) < 0.01) & (declared > 1e-3))
    if not wrong.size:
        return
    c = int(wrong[0])
    of_pairs = w[cosines]
    if not (np.abs(w[sines[: cosines.size]] - of_pairs) < 0.01).all():
        text = "sine and cosine columns have different frequencies, so they form no pairs"
    elif (np.diff(np.sort(of_pairs)) < 1e-3 * np.sort(of_pairs)[1:]).any():
        text = "several pairs of columns share one frequency"
    else:
        return
    run.add(
        "exponent",
        text,
        f"column {c} turns by {w[c]:.6g} rad per position, declared {declared[c]:.6g}",
        remedy=of_step(encoding, "the exponent"),
        equivalent=("frequency-spacing",),
    )


def _many_right(run: Run, access: TableAccess, encoding: Sinusoidal, at: np.ndarray) -> bool:
    """Return whether half of the rows are the declared ones: then the others have a cause."""
    truth = encoding.truth(at)
    right = (run.scores(access.rows(at), truth) <= run.budget).all(axis=1)
    return bool(right.mean() > 0.5)


def _no_longer(access: TableAccess, fit: np.ndarray) -> np.ndarray:
    """Return the columns that later rows show to be no sinusoids of their first frequency.

    ``fit`` is ``2 cos(w)`` of each column.
    """
    at = access.within(np.arange(520))
    rows = access.rows(at)
    size = np.maximum(np.abs(rows).max(axis=0), TINY["float64"])
    away = np.abs(rows[2:] + rows[:-2] - fit * rows[1:-1]).max(axis=0)
    return np.asarray(away > 0.05 * size)


def _displaced(run: Run, access: TableAccess, encoding: Sinusoidal) -> bool:
    """Report a table that holds the declared numbers in other places; return whether it does.

    Tables of several lengths could refute it: each holds its own numbers.
    """
    tables = [(access.rows(at), encoding.truth(at)) for at in map(np.arange, (5, 16, 64))]
    for rows, truth in tables:
        value = np.broadcast_to(truth.value, rows.shape)
        order, own = np.argsort(value, axis=None), np.argsort(rows, axis=None)
        placed = np.empty(rows.size)
        placed[order] = rows.ravel()[own]
        if not (run.scores(placed.reshape(rows.shape), truth) <= run.budget).all():
            return False
    run.add(
        "layout",
        "the table holds the declared numbers, in other places",
        "positions 0..4, 0..15 and 0..63: the same numbers, in another order",
        remedy="Put every number into its declared row and column: a view (reshape) where axes "
        "must be exchanged (transpose) mixes them.",
    )
    return True


def changed_step(run: Run, access: TableAccess, encoding: Sinusoidal) -> bool:
    """Report the changed step of the formula that gives all rows; return whether one does."""
    calls = []
    for at in (access.within(np.arange(48)), access.within(GENERIC)):
        case = f"positions {at[0]}..{at[-1]}"
        calls.append(JudgedCall(case, access.rows(at), encoding.truth(at), at))
    for mistake in likely(run, calls, changed_steps(run, calls[0].facts)):
        if explains(run, calls, mistake):
            return match(run, calls, [mistake])
    return False
