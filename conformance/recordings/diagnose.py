"""Name what is wrong in recorded tensors: positions, pairs, and what the angles show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np

from posenc_ref import Rotary
from posenc_ref.conformance.diagnosis.match import match, report_in_part
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.declaration import nonzero_frequencies
from posenc_ref.conformance.rotary.structure import structure

from . import axes
from .call import Recorded, position_mistakes
from .diagnose_angles import diagnose_angles
from .measure import Seen
from .sequence_mistakes import cache_mistakes, sequence_mistakes

#: The message about tensors that no pairs of channels explain.
NO_ROTATION = (
    "the tensor after is no rotation of the tensor before, for any known pairing of channels"
)
RECORD_BOTH = (
    "Record q and k directly before and directly after the rotation, with no norm, bias, scale or "
    "reshape between the two."
)


def diagnose(run: Run, calls: list[Recorded], seen: Seen) -> None:
    """Add findings that explain the failed cases of a layer."""
    judged = [call.judged() for call in calls]
    moved = seen.tokens.moved.any()

    def known() -> Iterator[Mistake]:
        yield from chain(
            position_mistakes(calls), sequence_mistakes(calls), cache_mistakes(run, calls)
        )

    if moved and match(run, judged, known(), parts=False) and run.report.codes:
        return
    if not moved and all(call.x.shape[2] == 1 for call in calls):
        run.add(
            "decode-offset",
            "the only token of every row has its value at position 0: the recorded position is not "
            "used, or nothing is rotated",
            f"{calls[0].part.name} is equal before and after the rotation",
        )
        return
    none = moved and not seen.measured.pairs and len(seen.measured.odd) > 1
    if not none:
        _explain_angles(run, calls, seen)
    if moved and not run.report.codes and not report_in_part(run, judged, known()) and none:
        _no_rotation(run, seen)


def _explain_angles(run: Run, calls: list[Recorded], seen: Seen) -> None:
    """Add findings about the pairs and their angles."""
    encoding: Rotary = run.encoding
    if structure(run, encoding, seen.measured) is not encoding:
        return
    if len(seen.measured.pairs) != nonzero_frequencies(encoding).size:
        return
    if encoding.num_axes > 1:
        if axes.diagnose(run, encoding, seen.angles, seen.tokens):
            return
    elif run.report.codes == ["layout"] and _positions_of_other_layout(run, calls, seen):
        return
    diagnose_angles(run, calls, seen, max(call.length for call in calls))


def _no_rotation(run: Run, seen: Seen) -> None:
    """Report tensors that no pairs of channels explain."""
    x, y = (np.linalg.norm(t, axis=-1) for t in (seen.tokens.x, seen.tokens.y))
    ratio = y[x > 0] / x[x > 0]
    run.add(
        "not-a-rotation",
        NO_ROTATION,
        f"the norm of a head changes by a factor of {ratio.min():.4g} to {ratio.max():.4g}",
        remedy=RECORD_BOTH,
    )


def _positions_of_other_layout(run: Run, calls: list[Recorded], seen: Seen) -> bool:
    """Report wrong positions of tensors that also have the other layout; return whether so."""
    layout = seen.measured.layout()
    fields = {"layout": layout} | ({} if seen.measured.in_out() else {"output_layout": None})
    try:
        other = run.encoding.replace(**fields)
    except (TypeError, ValueError):
        return False
    before = len(run.report.codes)
    judged = [replace(call, encoding=other).judged() for call in calls]
    wrong = [one for one in judged if not run.fits(one.actual, one.truth)]
    if wrong:
        match(run, judged, position_mistakes(calls))
    return len(run.report.codes) > before or not wrong
