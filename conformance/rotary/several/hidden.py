"""Find the causes that wrong positions hide, and the rule of these positions.

Where positions are wrong, angles do not grow with the declared positions, and rows or heads may
differ: then neither pairs nor frequencies can be compared. In one row and one head, with tokens at
the positions 0, 1, 2, ..., most wrong rules give the declared positions. Measured there, the
function shows its other mistakes, and with these its positions can be decoded in all calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from posenc_ref import Rotary
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.harness.report import ERROR, Finding
from posenc_ref.conformance.harness.run import PLACED, PREDICTS, Run
from posenc_ref.conformance.oracle.found import Found
from posenc_ref.conformance.phases.measure import Measured, measure

from .rest import against, combine, named

#: Finds the causes in a measured structure, and returns the rotation that they give.
Causes = Callable[[Run, Access, Rotary, Measured], Found | None]
#: Codes of findings that may say where a function is wrong, not why.
_OF_PLACES = ("position-axis", "row-offset", "wrong-row", "decode-offset", "uninitialised")
#: Codes of such findings if angles do not grow linearly.
_OF_ANGLES = ("not-a-rotation", "angle-precision", "range-reduction", "frequency-spacing")
#: How many times each position occurs in the calls, from 0 on: by a division, or as declared.
_TIMES = (1, 2)
#: The highest position in these calls, and that of the one-hot inputs.
_HIGHEST, _ONE_HOT = 33, 38


@dataclass
class _Repeated(Access):
    """Calls from position 0 on, of which the token at ``times * p`` stands for position p."""

    times: int = 1

    def rows(self, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Return the results at the tokens that stand for ``positions``."""
        return super().rows(x, self.times * positions)


def vague(run: Run, linear: bool) -> bool:
    """Return whether a finding says where the function is wrong, and not why."""
    codes = _OF_PLACES if linear else (*_OF_PLACES, *_OF_ANGLES)
    errors = [f for f in run.report.findings if f.severity == ERROR]
    return not errors or any(f.code in codes and not _proved(f) for f in errors)


def _proved(finding: Finding) -> bool:
    """Return whether a finding is a rule or a mistake that predicts all calls."""
    if "minus the index" in finding.message:  # one of two mistakes may be the sign
        return False
    return bool(finding.values) or any(t in finding.evidence for t in (PREDICTS, *PLACED))


def diagnose(run: Run, encoding: Rotary, dim: int, causes: Causes) -> bool:
    """Report causes and a rule of positions that predict all calls together, if there are any."""
    for times in _TIMES:
        once = against(run, encoding)
        access = _Repeated(once, mode="prefix", dim=dim, times=times)
        try:
            measured = measure(access, run.coarse, _ONE_HOT)
            once.ledger.highest = _HIGHEST
            found = causes(once, access, encoding, measured)
        except (Refused, Malformed):
            continue
        first = [f for f in once.report.findings if f.severity == ERROR]
        if found is None or not first:
            continue
        second = against(run, found)
        if named(second, found):
            run.report.findings[:] = [f for f in run.report.findings if f.severity != ERROR]
            combine(run, first, second.report.findings)
            return True
    return False
