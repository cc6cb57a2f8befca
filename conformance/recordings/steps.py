"""Judge the steps of a recording together: what one step leaves open, the others may show.

The keys that a step finds in its cache must be those that an earlier step left there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance.harness.ledger import Ledger
from posenc_ref.conformance.harness.report import NOTE
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import exactly
from posenc_ref.conformance.sequences.cache_mistakes import ROTATE_ONCE

from .call import Recorded
from .diagnose import diagnose
from .judge_part import seen_in
from .labels import of_every_step
from .measure import Tokens, tokens
from .merge import alike

_OWN_PLACE = "Write each key once, into the place of its token, and leave all other keys."


@dataclass(frozen=True)
class Entry:
    """A judged tensor of a recording: the label of its layer and step, its run and its call."""

    layer: str
    run: Run
    call: Recorded

    @property
    def key(self) -> tuple[str, str, tuple[int, ...]]:
        """What is equal for the same tensor in all steps."""
        x = self.call.x
        return of_every_step(self.layer), self.call.part.name, (*x.shape[:2], x.shape[3])

    @property
    def cache(self) -> np.ndarray:
        """The keys of the cache up to the newest ones, (B, H, S, D)."""
        return np.concatenate([self.call.part.front, self.call.part.y], axis=2)


def judge(entries: Sequence[Entry]) -> None:
    """Join the steps of every tensor: their causes, the step at position 0, and the cache."""
    groups: dict[object, list[Entry]] = {}
    for entry in entries:
        of = (entry.key, entry.run.dtype, repr(entry.call.encoding))
        groups.setdefault(of, []).append(entry)
    for steps in groups.values():
        _at_position_0(steps)
        _one_cause(steps)
        _from_a_step_on(steps)
    _caches(entries)


def _at_position_0(steps: Sequence[Entry]) -> None:
    """Count a step that the rotation leaves unchanged, if another step shows the rotation."""
    if not any("values" in one.run.report.executed for one in steps):
        return
    for one in steps:
        if one.call.unmoved and "values" not in one.run.report.executed and not _wrong(one):
            one.run.count("values")


def _one_cause(steps: Sequence[Entry]) -> None:
    """Diagnose wrong steps together, if each alone gave another cause."""
    wrong = [one for one in steps if one.run.failures and _wrong(one)]
    causes = {tuple(alike(f) for f in one.run.report.findings) for one in wrong}
    if len(causes) < 2 or wrong[0].call.encoding.depends_on_length:
        return
    first, calls = wrong[0].run, [one.call for one in wrong]
    report = replace(first.report, findings=[], limits=[], executed={}, controls={}, accuracy=None)
    run = replace(first, ledger=Ledger(report))
    run.failures.extend(failure for one in wrong for failure in one.run.failures)
    every = [tokens(call.part, run.coarse) for call in calls]
    of = Tokens(
        np.concatenate([t.x for t in every]),
        np.concatenate([t.y for t in every]),
        np.concatenate([t.positions for t in every], axis=1),
        run.coarse,
    )
    length = max(call.length for call in calls)
    run.explain(diagnose, calls, seen_in(of, wrong[0].call.encoding, length))
    if not report.codes:
        return
    for one in wrong:
        one.run.report.findings[:] = [f for f in one.run.report.findings if f.severity == NOTE]
        for f in report.findings:
            one.run.add(f.code, f.message, f.evidence, severity=f.severity, remedy=f.remedy)


def _from_a_step_on(steps: Sequence[Entry]) -> None:
    """Say from which position on the positions are wrong, if all steps before it are right."""
    wrong = [one for one in steps if one.run.failures]
    right = [one for one in steps if "values" in one.run.report.executed and one not in wrong]
    codes = {code for one in wrong for code in one.run.report.codes}
    if not right or not wrong or codes - {"position-origin", "decode-offset"}:
        return
    first = min(int(one.call.part.positions.min()) for one in wrong)
    if max(int(one.call.part.positions.max()) for one in right) >= first:
        return
    for one in wrong:
        found = one.run.report.findings
        for wrongly in [f for f in found if f.severity != NOTE]:
            found.remove(wrongly)
            text = f"from position {first} on, and not before: {wrongly.message}"
            one.run.add("decode-offset", text, wrongly.evidence)


def _wrong(one: Entry) -> bool:
    return bool(one.run.report.codes)


def _caches(entries: Sequence[Entry]) -> None:
    """Judge the keys in front of the newest ones, where an earlier step recorded them."""
    for entry in entries:
        part = entry.call.part
        count = part.lacking
        if not count:
            continue
        # A step without a cache in front of it left its tokens at the front if it begins at 0.
        earlier = [
            (other, size)
            for other in entries
            if other is not entry
            and other.key == entry.key
            and (other.call.part.lacking or not other.call.part.positions.min(initial=0))
            and 0 < (size := other.call.part.lacking + other.call.x.shape[2]) <= count
        ]
        known = 0
        if earlier:
            before, size = max(earlier, key=lambda pair: pair[1])
            known = size * _judged(entry.run, entry.call, before)
        if known < count:
            newest = part.x.shape[2]
            words = "newest key is" if newest == 1 else f"{newest} newest keys are"
            left = count - known
            entry.run.limit(
                f"only the {words} judged; {left} older {'keys are' if left > 1 else 'key is'} not"
            )


def _judged(run: Run, call: Recorded, before: Entry) -> bool:
    """Judge the keys that ``before`` left in the cache; return whether they are of its tokens."""
    old = before.cache
    now, count, name = call.part.front[:, :, : old.shape[2]], old.shape[2], call.part.name
    label = before.layer or "an earlier step"
    truth = exactly(np.where(np.isfinite(old), old, 0.0))
    finite = np.isfinite(old)
    same = ((run.scores(now, truth) <= run.budget) | ~finite).all(axis=(1, 3))  # (B, S)
    if not same.all() and (_rows(now) == _rows(old)) and len(old) > 1:
        run.limit(f"the rows of the cache are those of {label} in another order")
        return True
    if not same.all():
        found = _cause(run, call, now, old, same)
        if not found:
            run.limit(f"older keys are not those of {label}: taken to be another sequence's")
            return False
        place = tuple(int(i) for i in np.argwhere(~same)[0])
        run.failed("values", f"{name}, keys of {label}", np.inf, f"row {place[0]}, key {place[1]}")
        changed, what, remedy = found
        text = f"keys that an earlier step left in the cache {what}"
        evidence = f"{changed} of {same.size} keys of {label}: key {place[1]} of row {place[0]}"
        run.add("stale-cache", text, evidence, remedy=remedy)
    elif "values" in run.report.executed:
        run.judge("values", f"{name}, keys 0..{count - 1} of {label}", now, truth, finite)
    return True


def _rows(keys: np.ndarray) -> list[bytes]:
    """Return the rows of a batch, sorted."""
    return sorted(row.tobytes() for row in keys)


def _cause(
    run: Run, call: Recorded, now: np.ndarray, old: np.ndarray, same: np.ndarray
) -> tuple[int, str, str] | None:
    """Return how many older keys changed, how, and a remedy; None if they are other tokens'."""
    lost = ~now.any(axis=(1, 3)) & old.any(axis=(1, 3))
    if lost.any():
        return int(lost.sum()), "are 0 now", _OWN_PLACE
    sizes = _sizes(call, now), _sizes(call, old)
    factor = abs(call.encoding.attention_factor(call.length))
    for times in range(3 if factor != 1 else 1):
        first, second = sizes[0], sizes[1] * factor**times
        turned = _close(run, first, second).all(axis=(1, 3)) & old.any(axis=(1, 3))
        if (turned & ~same).any():
            break
    moved = int((turned & ~same).sum())
    if moved:
        return moved, "are rotated again", ROTATE_ONCE
    lengths = [np.sort(t.sum(axis=(1, 3)), axis=1) for t in sizes]
    if _close(run, *lengths).all():
        return int((~same).sum()), "stand in other places now", _OWN_PLACE
    # Another sequence may begin with the same tokens: then all later keys differ.
    begins = np.logical_and.accumulate(same, axis=1)
    if (same != begins).any() or (~same).sum(axis=1).max() <= call.x.shape[2]:
        return int((~same).sum()), "have changed", _OWN_PLACE
    return None


def _sizes(call: Recorded, keys: np.ndarray) -> np.ndarray:
    """Return the size of every pair and of every other channel: a rotation keeps them."""
    first, second = call.encoding.output_pairs()
    rest = np.setdiff1d(np.arange(keys.shape[3]), np.concatenate([first, second]))
    pairs = np.hypot(keys[..., first], keys[..., second])
    return np.concatenate([pairs, np.abs(keys[..., rest])], axis=-1)


def _close(run: Run, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    unit = BUDGET[run.dtype] * ROUNDOFF[run.dtype]
    return np.asarray(np.abs(one - other) <= unit * (np.abs(one) + np.abs(other)))
