"""Measure by which distance every key is rotated, where no known rule for far keys fits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.diagnosis.scored import scores
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.scores import Scored
from posenc_ref.rotary_score import RotaryScore

from .rotary_mistakes import Moved

#: The most keys of a call whose distances are measured, and the pairs measured at once.
_KEYS, _AT_ONCE = 2**12, 2**8


def measured(declared: RotaryScore) -> Mistake:
    """Return a mistake whose distances are measured: whole numbers that predict all wrong calls."""

    def fit(run: Run, wrong: Sequence[JudgedCall]) -> list[Mistake]:
        if any(one.facts.k.shape[2] > _KEYS or not _finite(one) for one in wrong):
            return []
        found = {id(one.facts): (one, _distances(run, declared, one)) for one in wrong}
        text = _said(*found[id(wrong[0].facts)])

        def predict(call: Scored) -> Truth | None:
            if id(call) not in found:
                return None
            one, distance = found[id(call)]
            moved = Moved(declared, lambda i, j: (distance, np.zeros_like(j)))
            (t,) = call.replace(encoding=moved).parts().values()
            return Truth(t.value, t.terms, np.maximum(t.angle, one.truth.angle))

        return [Mistake("far-keys", text, predict)] if text else []

    return Mistake("", "", lambda call: None, fit=fit)


def _finite(one: JudgedCall) -> bool:
    return bool(np.isfinite(one.actual[np.broadcast_to(_seen(one), one.actual.shape)]).all())


def _seen(one: JudgedCall) -> np.ndarray:
    visible: np.ndarray = one.facts.visible
    return visible


def _declared(one: JudgedCall) -> np.ndarray:
    """Return the declared distances, query minus key, of the pairs of a call."""
    return -np.asarray(one.facts.encoding.offsets(*one.facts.positions))


def _distances(run: Run, declared: RotaryScore, one: JudgedCall) -> np.ndarray:
    """Return the whole number for each pair of a call that fits its logits best.

    The distance of a pair whose logits are right is the declared one.
    """
    call: Scored = one.facts
    distance = _declared(one).astype(np.float64)
    off = (scores(run, one, one.truth) > run.budget).any(axis=(0, 1)) & _seen(one)
    at = np.argwhere(off)
    n = call.k.shape[2]
    tried = np.arange(-n, 2 * n)
    cos, sin = (np.asarray(t).T for t in declared.rope.cos_sin(-tried))
    first, second = declared.rope.pairs()
    factor = call.scale * declared.rope.attention_factor() * declared._temperature(*call.grid)
    passed = declared._passed(call.q, call.k) * call.scale * declared._temperature(*call.grid)
    rest = (one.actual - passed) / factor
    for start in range(0, len(at), _AT_ONCE):
        i, j = at[start : start + _AT_ONCE].T
        q, k = call.q[:, :, i], call.k[:, :, j]
        same = q[..., first] * k[..., first] + q[..., second] * k[..., second]
        crossed = q[..., second] * k[..., first] - q[..., first] * k[..., second]
        logits = same @ cos + declared.rope.sign * crossed @ sin
        misfit = np.abs(logits - rest[:, :, i, j][..., None]).max(axis=(0, 1))
        distance[i, j] = tried[np.argmin(misfit, axis=-1)]
    return distance


def _said(one: JudgedCall, distance: np.ndarray) -> str:
    """Return the measured distances in words: some of the wrong ones, and a rule for all.

    The result is empty if no distance is wrong.
    """
    expected = _declared(one)
    wrong = np.argwhere((distance != expected) & _seen(one))
    if not len(wrong):
        return ""
    i0 = one.facts.positions[0][0]
    some = [wrong[n] for n in sorted({0, len(wrong) // 2, len(wrong) - 1})]
    shown = ", ".join(
        f"query {i + i0} and key {j} by {distance[i, j]:g} (declared {expected[i, j]:g})"
        for i, j in some
    )
    return f"keys are rotated by other distances than declared: {shown}{_rule(one, distance)}"


def _rule(one: JudgedCall, distance: np.ndarray) -> str:
    """Return the rule of the measured distances, if it is simple, else nothing."""
    more = np.unique((distance - _declared(one))[_seen(one)])
    if more.size == 1:
        return f"; every distance is {abs(more[0]):g} too {'large' if more[0] > 0 else 'small'}"
    q_at, k_at = one.facts.grid
    r, seen = q_at - k_at, _seen(one)
    by_offset = {int(at): float(d) for at, d in zip(r[seen], distance[seen], strict=True)}
    if len(np.unique(r[seen])) == r[seen].size or any(
        by_offset[int(at)] != d for at, d in zip(r[seen], distance[seen], strict=True)
    ):
        return ""
    top = max(by_offset.values())
    if all(d == min(at, top) for at, d in by_offset.items()):
        return f"; the distance is min(i - j, {top:g})"
    return "; the distance depends on i - j alone"
