"""Diagnose sinusoidal rows: exponents rounded by floor division, or a reversed table."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posenc_ref import Sinusoidal
from posenc_ref.accuracy import Truth
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
                "rows 0..16 are equal to the rows with these frequencies, to rounding",
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

    The search goes from ``least`` to LONGEST rows; None means that there are no such numbers.
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
    """Return the table with other frequencies, at small positions."""
    used = (encoding.position_scale * (at + encoding.offset))[:, None]
    value, size = np.zeros((2, at.size, encoding.dim))
    for columns, function, w in zip(encoding.columns(), (np.sin, np.cos), waves, strict=True):
        angle = used * w
        value[:, columns] = encoding.scale * function(angle[:, : columns.size])
        size[:, columns] = abs(encoding.scale) * np.abs(angle[:, : columns.size])
    return Truth(value, np.full(value.shape, abs(encoding.scale)), size)


def _fits(run: Run, rows: np.ndarray, truth: Truth) -> bool:
    return fits(run, JudgedCall("", rows, truth, None), truth)
