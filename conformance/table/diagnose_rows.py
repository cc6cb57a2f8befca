"""Diagnose sinusoidal rows: exponents rounded by floor division, or a reversed table."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posenc_ref import Sinusoidal
from posenc_ref.accuracy import ROUNDOFF, Truth
from posenc_ref.conformance.diagnosis.match import fits
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.harness.reach import TableAccess
from posenc_ref.conformance.harness.run import Run

from .mistakes import FLOORED

#: The largest number of rows of a reversed table that is searched for.
LONGEST = 16385
#: Whole numbers to which floor division may round log(base)/n.
_WHOLE = range(1, 10)
#: Two arrays: the frequencies of the sine columns and of the cosine columns.
Waves = tuple[np.ndarray, ...]


def whole_rows(run: Run, access: TableAccess, encoding: Sinusoidal) -> bool:
    """Report a known mistake that predicts rows 0..16; return whether one was reported."""
    at = access.within(np.arange(17))
    rows = access.rows(at)
    for message, w in _floored(encoding):
        if _fits(run, rows, _rows(encoding, w, at)):
            run.add(
                "exponent",
                message,
                "rows 0..16 equal the rows computed by this mistake, within the tolerance",
                remedy="Divide with /, not //, and put the quotient into parentheses.",
                equivalent=("frequency-spacing",),
            )
            return True
    length = reversed_length(encoding, rows[0], at.size)
    if length is None or not _fits(run, rows, encoding.truth(length - 1 - at)):
        return False
    run.add(
        "wrong-row",
        f"a table of {length} rows is reversed before it is cut: position p gets row "
        f"{length - 1} - p",
        f"position 0 gets row {length - 1}, position 1 row {length - 2}",
        remedy="First cut the table to the length of the sequence, then reverse it.",
        values={"measured": length},
    )
    return True


def reversed_length(encoding: Sinusoidal, first: np.ndarray, least: int) -> int | None:
    """Return the number of rows of a reversed table that starts with the row ``first``.

    Numbers from ``least`` to LONGEST are tried; the result is None if ``least`` is larger.
    Only eight sines and eight cosines are compared, which is enough to tell rows apart; the
    caller compares all columns.
    """
    last = np.arange(least - 1, LONGEST)
    if not last.size:
        return None
    frequencies, misfit = encoding.frequencies(), np.zeros(last.size)
    for columns, function in zip(encoding.columns(), (np.sin, np.cos), strict=True):
        pairs = np.unique(np.arange(8) * columns.size // 8)[: columns.size]
        angle = (last + encoding.offset)[:, None] * frequencies[pairs]
        away = np.abs(encoding.scale * function(angle) - first[columns[pairs]])
        misfit = np.maximum(misfit, away.max(axis=1, initial=0.0))
    return int(last[np.argmin(misfit)]) + 1


def accumulated(run: Run, access: TableAccess, encoding: Sinusoidal) -> bool:
    """Report rows that are computed one from another; return whether they are.

    Each row is the one before, turned by the frequencies, to a few roundings; but the rows depart
    from the declared ones by much more, and neither by another frequency nor at once: the lengths
    of the pairs drift, or their angles do so unevenly.
    """
    at = access.within(np.arange(_STEPS))
    rows = access.rows(at)
    if at.size < _FEW or not np.isfinite(rows).all() or not encoding.scale:
        return False
    sines, cosines = encoding.columns()
    z = (rows[:, cosines] + 1j * rows[:, sines[: cosines.size]]) / encoding.scale
    truth = encoding.truth(at).value
    exact = (truth[:, cosines] + 1j * truth[:, sines[: cosines.size]]) / encoding.scale
    w = np.asarray(encoding.frequencies()[: cosines.size], np.float64)
    u = ROUNDOFF[run.coarse]
    step = np.abs(z[1:] - z[:-1] * np.exp(1j * w))
    exactly = ~(step > _ROUNDINGS * u).any(axis=0)
    if not exactly.any() or (step > _LOOSE * u).any():
        return False
    ratio = z / exact
    if (np.abs(ratio[0] - 1) > _ROUNDINGS * u).any():
        return False
    length, angle = np.abs(ratio) - 1, np.unwrap(np.angle(ratio), axis=0)
    slope = (at[:, None] * angle).sum(0) / max(float((at * at).sum()), 1.0)
    uneven = np.maximum(np.abs(length), np.abs(angle - at[:, None] * slope)) * exactly
    if uneven.max() < _DRIFT * u:
        return False
    k = int(np.argmax(uneven.max(axis=0)))
    off = float(np.abs(ratio[-1, k] - 1))
    run.add(
        "range-reduction",
        "rows are computed one from another, so that rounding errors add up: each row is the one "
        f"before turned by the frequencies, to {step[:, k].max() / u:.2g} roundings",
        f"pair {k}: at position {at[-1]} off by {off:.2g}, {off / u:.0f} roundings",
        remedy="Compute every row from its own angle, position * frequency, not from the row "
        "before; or add up in float64.",
        equivalent=("inaccurate",),
    )
    return True


#: The number of rows that are compared with the one before, and the fewest that suffice.
_STEPS, _FEW = 2048, 256
#: The roundings of one step of a pair, and of the pair whose steps are the least exact.
_ROUNDINGS, _LOOSE = 4.0, 2048.0
#: The least drift, in roundings.
_DRIFT = 64.0


def _floored(encoding: Sinusoidal) -> Iterator[tuple[str, Waves]]:
    k = np.arange(encoding.columns()[0].size)
    for m in _WHOLE:
        power = f"{m} k" if m > 1 else "k"
        yield f"the frequency of pair k is exp(-{power}): {FLOORED}", (np.exp(-float(m) * k),) * 2
    text = "all frequencies are 1: a floor division (//) rounds every exponent to 0"
    yield text, (np.ones(k.size),) * 2
    if encoding.dim > 2:
        i = 2 * k  # the column of the sine; its cosine, in the next one, may have another exponent
        yield (
            "there are only two frequencies, 1 and 1/base: a floor division (//) rounds the "
            "exponents to 0 and 1",
            tuple(encoding.base ** -(2.0 * at // encoding.dim) for at in (i, i + 1)),
        )


def _rows(encoding: Sinusoidal, waves: Waves, at: np.ndarray) -> Truth:
    """Return the table with frequencies ``waves``; float64 angles suffice for small positions."""
    used = (encoding.position_scale * (at + encoding.offset))[:, None]
    value, size = np.zeros((2, at.size, encoding.dim))
    for columns, function, w in zip(encoding.columns(), (np.sin, np.cos), waves, strict=True):
        angle = used * w
        value[:, columns] = encoding.scale * function(angle[:, : columns.size])
        size[:, columns] = abs(encoding.scale) * np.abs(angle[:, : columns.size])
    return Truth(value, np.full(value.shape, abs(encoding.scale)), size)


def _fits(run: Run, rows: np.ndarray, truth: Truth) -> bool:
    return fits(run, JudgedCall("", rows, truth, None), truth)
