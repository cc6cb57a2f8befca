"""Mistakes measured head by head: another head's bias, a factor or a constant of each head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.harness.plural import plural, ranges
from posenc_ref.conformance.harness.run import Run

#: Returns the declared bias of a call.
Declared = Callable[[Any], Truth | None]
#: The most heads whose numbers a message lists.
_LISTED = 4
#: Relative difference of a measured factor from a known one.
_NEAR = 1e-5


def of_heads(
    declared: Declared,
    up_to_constant: bool,
    rest: Callable[[Any], np.ndarray] = lambda facts: np.zeros(()),
) -> list[Mistake]:
    """Return mistakes whose numbers are measured for every head of a wrong call.

    They predict the bias (H, Q, K); ``rest`` returns what is added to it in a call, such as q.k.
    """
    kinds = [_order, _factors] if up_to_constant else [_order, _factors, _constants]

    def fit_of(of: Any) -> Callable[[Run, Sequence[JudgedCall]], list[Mistake]]:
        return lambda run, wrong: of(declared, *_largest(declared, rest, wrong))

    return [Mistake("", "", lambda facts: None, fit=fit_of(of)) for of in kinds]


def _largest(
    declared: Declared, rest: Callable[[Any], np.ndarray], wrong: Sequence[JudgedCall]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the actual and the declared biases (H, N) of the largest wrong call."""
    one = max(wrong, key=lambda call: call.actual.size)
    truth = declared(one.facts)
    assert truth is not None
    actual = one.actual - rest(one.facts)
    mask = np.broadcast_to(True if one.mask is None else one.mask, actual.shape)
    mask = mask[(0,) * (mask.ndim - 2)]
    if actual.ndim > 3:  # the same in every batch row
        actual = actual.mean(axis=0)
    return actual[:, mask], np.broadcast_to(truth.value, actual.shape)[:, mask]


def _changed(
    declared: Declared, change: Callable[[np.ndarray], np.ndarray], facts: Any
) -> Truth | None:
    """Return the declared bias with ``change`` applied to the values and their units."""
    truth = declared(facts)
    if truth is None:
        return None
    value = change(truth.value)
    return Truth(value, np.maximum(truth.terms.max(axis=0), np.abs(value)), truth.angle)


def _order(declared: Declared, actual: np.ndarray, expected: np.ndarray) -> list[Mistake]:
    """Return the mistake that each head has the bias of some head."""
    heads = len(actual)
    if heads < 2 or not np.isfinite(actual).all():
        return []
    size = np.abs(expected).max() or 1.0
    near = np.array([np.abs(expected - row).max(axis=1) for row in actual]) / size
    own = np.arange(heads)
    order = np.where(near[own, own] <= near.min(axis=1) + _NEAR, own, near.argmin(axis=1))
    moved = np.flatnonzero(order != own)
    if not moved.size:
        return []
    shown = ", ".join(f"head {h} that of head {order[h]}" for h in moved[:_LISTED])
    more = f" and {moved.size - _LISTED} more" * (moved.size > _LISTED)
    text = plural(moved.size, "head has", "heads have", heads)
    text += f" the bias of another head: {shown}{more}"
    predict = partial(_changed, declared, lambda v: v[order])
    values = {"declared": own.tolist(), "measured": order.tolist()}
    remedy = "Give head h the bias of head h."
    return [Mistake("head-order", text, predict, remedy, values=values)]


def _factors(declared: Declared, actual: np.ndarray, expected: np.ndarray) -> list[Mistake]:
    """Return the mistake that the bias of each head is multiplied by a factor of its own."""
    size = (expected * expected).sum(axis=1)
    if not size.all() or not np.isfinite(actual).all():
        return []
    factor = (actual * expected).sum(axis=1) / size
    off = np.flatnonzero(np.abs(factor - 1) > _NEAR)
    if not off.size:
        return []
    factor = np.where(np.abs(factor) <= _NEAR, 0.0, factor)
    if not factor[off].any():
        return [_without(declared, factor, off)]
    said = _known(factor)
    if not said:
        listed = ", ".join(f"{factor[h]:.6g} (head {h})" for h in off[:_LISTED])
        said = f"its own: {listed}{', ...' * (off.size > _LISTED)}"
    text = f"the bias of each head is multiplied by {said}"
    if off.size < factor.size:
        text = f"the bias of {off.size} of {factor.size} heads is multiplied by a factor of {said}"
    predict = partial(_changed, declared, lambda v: factor[:, None, None] * v)
    values = {"declared": 1.0, "measured": factor.tolist()}
    remedy = "Divide the bias of each head by its factor."
    return [Mistake("bias-scale", text, predict, remedy, values=values)]


def _without(declared: Declared, factor: np.ndarray, off: np.ndarray) -> Mistake:
    """Return the mistake that some heads have no bias."""
    heads = f"head{'s' * (off.size > 1)} {ranges(off.tolist())}"
    text = f"{heads} {'have' if off.size > 1 else 'has'} no bias"
    predict = partial(_changed, declared, lambda v: factor[:, None, None] * v)
    values = {"declared": 1.0, "measured": factor.tolist()}
    return Mistake("bias-missing", text, predict, f"Add the bias of {heads} too.", values=values)


def _known(factor: np.ndarray) -> str:
    """Return the rule of the factors in words; empty if it is none of those known."""
    n = factor.size
    h = np.arange(n) + 1.0
    for words, value in (
        (f"{factor[0]:.6g}", factor[0] + 0 * h),
        ("h (h = 1 for head 0)", h),
        ("1 / h (h = 1 for head 0)", 1 / h),
        (f"h / {n} (h = 1 for head 0)", h / n),
        (f"{n} / h (h = 1 for head 0)", n / h),
        ("2 ** -h (h = 1 for head 0)", 2.0**-h),
        (f"2 ** (-8h / {n}), the slopes of ALiBi (h = 1 for head 0)", 2.0 ** (-8 * h / n)),
    ):
        if (np.abs(factor / value - 1) <= _NEAR).all():
            return words
    return ""


def _constants(declared: Declared, actual: np.ndarray, expected: np.ndarray) -> list[Mistake]:
    """Return the mistake that a constant, of all heads or of each, is added to the bias."""
    if not np.isfinite(actual).all():
        return []
    added = np.median(actual - expected, axis=1)
    near = _NEAR * (np.abs(expected).max() or 1.0)
    off = np.flatnonzero(np.abs(added) > near)
    if not off.size:
        return []
    if np.ptp(added) <= near:
        said = f"{float(np.median(added)):.6g} is added to every value"
    else:
        listed = ", ".join(f"{added[h]:.6g} (head {h})" for h in off[:_LISTED])
        said = f"a constant of its own is added to the bias of each head: {listed}"
        said += ", ..." * (off.size > _LISTED)
    predict = partial(_changed, declared, lambda v: v + added[:, None, None])
    values = {"declared": 0.0, "measured": added.tolist()}
    return [Mistake("score-term", said, predict, "Add no constant to the bias.", values=values)]
