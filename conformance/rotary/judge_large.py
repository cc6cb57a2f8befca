"""Find positions past 2**24 and 2**31 that a function holds in float32 or int32.

Below 2**20 such a function is right. Larger positions are not judged in general: float32 angles say
nothing there, and a function with a table would need gigabytes. So two single tokens are rotated,
only if calls past all earlier positions cost no time for a table, and a finding needs a result that
equals the one at the rounded or wrapped position.
"""

from __future__ import annotations

from time import process_time

import numpy as np

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.report import ERROR, NOTE
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth
from posenc_ref.limits import POSITION

#: Positions that a table would have to grow for.
_GROWING = (2**21 + 7, 2**22 + 7)
#: The processor seconds of the rows of a table up to position 2**17. A table takes longer the
#: farther a position is, and a call that something else slows down does not.
_SECONDS = 0.02
#: What a report says if no call is made beyond the positions of tables.
SKIPPED = (
    "positions past 2**24 and 2**31 are not judged: a call at a new position takes the time of a "
    "table"
)
#: A position whose table would need 256 MiB even if it held nothing but its own index.
_FURTHER = 2**25 + 7
#: The backends that send int64 positions as they are.
_BACKENDS = ("numpy", "torch")


def seconds(position: int) -> float:
    """Return the least processor time of a call that makes a table up to a position."""
    return _SECONDS * max(position / 2**17, 1.0)


def judge(run: Run, dim: int, quick: bool) -> None:
    """Report positions held in float32 (a note unless the inputs are float64) or int32.

    ``quick`` is whether calls at earlier positions took no time for a table.
    """
    alone = run.driver.axes == 1 and run.report.surface == "apply" and not run.settings.reduced
    if not alone or run.driver.backend_name not in _BACKENDS or run.settings.max_position:
        return
    if run.failures or run.report.codes or run.encoding.depends_on_length:
        return
    if np.abs(run.encoding.frequencies()).max(initial=1.0) * 2.0**32 > POSITION:
        return  # the encoding has no exact values so far out
    try:
        if not quick or any(_slow(run, dim, position) for position in _GROWING):
            run.limit(SKIPPED)
            return
        if _equals(run, dim, 2**24 + 1, 2**24):
            run.add(
                "position-precision",
                "positions past 2**24 are rounded to float32",
                "position 16777217 has the angles of position 16777216",
                by="values",
                severity=ERROR if run.dtype == "float64" else NOTE,
                remedy="Hold positions in int64 or float64, not in float32.",
            )
        if not _slow(run, dim, _FURTHER) and _equals(run, dim, 2**31 + 5, 5 - 2**31):
            run.add(
                "position-range",
                "positions past 2**31 wrap round, as int32 does",
                "position 2147483653 has the angles of position -2147483643",
                severity=NOTE,
                remedy="Hold positions in int64, or raise an error past 2**31 - 1.",
            )
    except (Refused, Malformed):
        return


def _slow(run: Run, dim: int, position: int) -> bool:
    """Return whether a call at a position costs the time of a table."""
    start = process_time()
    run.driver.apply(np.ones((1, 1, 1, dim)), np.array([position]))
    return process_time() - start > seconds(position)


def _equals(run: Run, dim: int, position: int, used: int) -> bool:
    """Return whether a token has the result of another position, and not that of its own."""
    x = run.random((1, 1, 1, dim), 77)
    y = run.driver.apply(x, np.array([position]))

    def fits(at: int) -> bool:
        truth = apply_truth(run.encoding, x, np.array([at]))
        return bool((np.abs(y - truth.value) <= run.budget * slack * (1 + truth.terms)).all())

    slack = ROUNDOFF["float32" if run.dtype == "float64" else run.coarse]
    return fits(used) and not fits(position)
