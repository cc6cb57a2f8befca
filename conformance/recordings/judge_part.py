"""Judge one recorded tensor, which was recorded before and after the rotation."""

from __future__ import annotations

import numpy as np

from posenc_ref import Rotary, XPos
from posenc_ref.conformance.harness.accuracy import NOTHING
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.measure import Measured

from . import axes, limits
from .angles import fit
from .call import Recorded
from .diagnose import RECORD_BOTH, diagnose
from .diagnose_angles import wrong_factor
from .measure import Seen, Tokens, declared_channels, structure, tokens
from .shapes import Part, blocks

#: The most elements of x that are judged at once.
_BLOCK = 2**20
#: Errors of a token that do not depend on its position.
AT_ANY_POSITION = (
    "nonfinite", "not-a-rotation", "layout", "output-layout", "mixed-layout", "rotary-dim",
    "amplitude", "attention-factor",
)  # fmt: skip


def judge_placed(run: Run, call: Recorded) -> Measured | None:
    """Judge one tensor, which may have no position; return its measured structure."""
    known = len(run.report.limits)
    measured = judge_part(run, call)
    if call.part.unplaced:
        _leave_open(run, known)
    return measured


def judge_part(run: Run, call: Recorded) -> Measured | None:
    """Judge one tensor, and diagnose it if it deviates; return its structure if it has any."""
    encoding, part = call.encoding, call.part
    if not _finite(run, part):
        return None
    visible = _values(run, call)
    if not part.telling.any():
        _nothing_to_rotate(run, part)
        return None
    seen = seen_in(tokens(part, run.coarse), encoding, call.length)
    measured, maps = seen.measured, seen.angles
    run.report.measured = measured.describe()
    if not visible and not run.failures:
        run.report.executed.pop("values")
        run.limit(
            "the declared rotation changes no element by more than the tolerance at these "
            "positions: record later positions"
        )
        return measured
    if seen.coarse and maps.valid.any() and not isinstance(encoding, XPos):
        run.count("fitted parameters")
        wrong = wrong_factor(encoding.attention_factor(call.length), seen)
        if wrong and not run.failures:
            run.failed("fitted parameters", "least squares", np.inf, wrong)
    limits.open_questions(run, encoding, seen)
    if run.failures:
        run.explain(diagnose, [call], seen)
    return measured


def seen_in(of: Tokens, encoding: Rotary, length: int) -> Seen:
    """Return what tokens show of their rotation."""
    measured, maps = structure(of, declared_channels(encoding), encoding.frequencies(length))
    maps = axes.follow(maps, of, encoding)
    seen = Seen(of, measured, maps, fit(maps, encoding.offset))
    if seen.certain and (encoding.num_axes == 1 or encoding.axes() is not None):
        measured.phases = seen.fitted.phases
    return seen


def _leave_open(run: Run, known: int) -> None:
    """Keep the errors that any position shows; without one, the tensor is not judged.

    Only the first ``known`` limits remain: the others concern the assumed position.
    """
    report = run.report
    del report.limits[known:]
    report.findings[:] = [f for f in report.findings if f.code in AT_ANY_POSITION]
    text = "no positions were recorded, and the position of a single token is not known"
    if report.codes:
        run.limit(f"{text}: frequencies are not judged")
        return
    run.failures.clear()
    run.ledger.worst, run.ledger.where = 0.0, NOTHING
    report.executed.pop("values", None)
    run.limit(f"{text}: nothing can be judged; record positions")


def _nothing_to_rotate(run: Run, part: Part) -> None:
    """Report a result that is not 0 for inputs that are; without one, nothing was judged."""
    if run.failures:
        run.add(
            "not-a-rotation",
            f"{part.name} is 0 before the rotation and not 0 after it",
            run.failures[0].place,
            remedy=RECORD_BOTH,
        )
        return
    run.report.executed.pop("values")
    run.limit("every input is 0 or not finite: nothing can be judged")


def _finite(run: Run, part: Part) -> bool:
    """Report results that are not finite although the inputs are; return whether there are none."""
    bad = ~np.isfinite(part.y) & part.finite[:, None, :, None]
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        run.add(
            "nonfinite",
            f"{part.y[at]} in {part.name} after the rotation, for a finite {part.name} before it",
            f"index {at} of (B, H, S, D), {int(bad.sum())} elements",
        )
        return False
    if part.finite.any() and not part.finite.all():
        run.limit(
            f"{int((~part.finite).sum())} of {part.finite.size} tokens of {part.name} are not "
            "finite before the rotation: they are not judged"
        )
    return True


def _values(run: Run, call: Recorded) -> int:
    """Judge all elements of one tensor; return how many the declared rotation visibly changes."""
    part, visible = call.part, 0
    for some in blocks(part, _BLOCK):
        truth = call.truth(some)
        mask = np.broadcast_to(part.finite[:, some][:, None, :, None], truth.value.shape)
        last = min(some.stop, part.x.shape[2]) - 1
        case = f"{part.name}, tokens {some.start}..{last}"
        case += f" counted from {some.start}" if some.start else ""
        at = part.positions[..., some]
        run.judge("values", case, part.y[:, :, some], truth, mask, at)
        x = np.where(mask, part.x[:, :, some], 0.0)
        visible += int((run.scores(x, truth) > run.budget).sum())
    judged = np.abs(part.positions[..., part.telling])
    run.reached(int(judged.max(initial=0)))
    return visible
