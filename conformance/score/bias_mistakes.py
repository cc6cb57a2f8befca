"""Known mistakes in the bias added to logits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from posenc_ref import ALiBi, Bias, T5Bias
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.bias.diagnose_buckets import rule_of
from posenc_ref.conformance.bias.diagnose_missing import CALLS
from posenc_ref.conformance.bias.diagnose_slopes import known_series
from posenc_ref.conformance.bias.mistakes import bias_mistakes
from posenc_ref.conformance.oracle.apply import exactly
from posenc_ref.conformance.oracle.scores import Parts, Scored

from .changed import Change, OfCall


def changes_of_bias(declared: Bias) -> Iterator[Change]:
    """Yield the changes that are known mistakes of the declared bias."""
    for words, of in CALLS:
        remedy = "Add the bias in every call: the rows of the queries' own positions, K - Q + i."
        yield "bias-missing", f"the bias is missing {words}", _without(of), remedy
    if isinstance(declared, T5Bias):
        yield from _t5(declared)
    elif isinstance(declared, ALiBi):
        yield from _alibi(declared)
    else:
        for one in bias_mistakes(declared):
            if one.code:
                parts = _added(lambda call, one=one: one.predict(call.positions))  # type: ignore[misc]
                yield one.code, one.message, parts, one.remedy


def _without(of: Callable[[int, int], bool]) -> OfCall:
    """Return a function that omits the bias in calls for which ``of(q_len, k_len)`` is true."""

    def parts(call: Scored) -> Parts:
        lengths = call.q.shape[2], call.k.shape[2]
        return (call.replace(encoding=None) if of(*lengths) else call).parts()

    return parts


def _added(of: Callable[[Scored], Truth | np.ndarray]) -> OfCall:
    """Return a function of a call that returns the parts of its logits, with bias ``of(call)``."""

    def parts(call: Scored) -> Parts:
        bias = of(call)
        truth = bias if isinstance(bias, Truth) else exactly(bias)
        return call.parts() | {"bias": call.added(truth)}

    return parts


def _t5(declared: T5Bias) -> Iterator[Change]:
    text = "the relative position has the opposite sign: query minus key"
    opposite = _added(lambda call: call.encoding.bias(-call.positions[0], -call.positions[1]))
    yield "bucket-sign", text, opposite, "Use key minus query as the relative position."
    if declared.num_buckets % 2 == 0:
        other = declared.replace(bidirectional=not declared.bidirectional)
        words = [f"{'bi' if e.bidirectional else 'uni'}directional" for e in (other, declared)]
        text = f"buckets are {words[0]}, declared {words[1]}"
        change = _added(lambda call: other.bias(*call.positions))
        yield "bucket-direction", text, change, f"Use {words[1]} buckets."
    table = np.asarray(declared.table, np.float64)
    size = declared.num_buckets // 2 if declared.bidirectional else declared.num_buckets
    for step in sorted({1, 2, 4, 8, max(declared.max_distance // size, 1)}):

        def linear(call: Scored, step: int = step) -> np.ndarray:
            q_at, k_at = call.positions
            r = k_at - q_at[:, None]
            distance = np.abs(r) if declared.bidirectional else np.maximum(-r, 0)
            later = size * (r > 0) if declared.bidirectional else 0
            return np.moveaxis(table[np.minimum(distance // step, size - 1) + later], -1, 0)

        wide = "one distance" if step == 1 else f"{step} distances"
        text = f"buckets are linear: each is {wide} wide, up to the last"
        yield "bucket-spacing", text, _added(linear), rule_of(declared)


def _alibi(declared: ALiBi) -> Iterator[Change]:
    def recipe(slopes: np.ndarray) -> OfCall:
        def bias(call: Scored) -> np.ndarray:
            q_at, k_at = call.grid
            return np.asarray(-slopes[:, None, None] * np.abs(k_at - q_at))

        return _added(bias)

    def plain(call: Scored) -> np.ndarray:
        return np.asarray(declared.bias(*call.positions))

    for message, remedy, slopes in known_series(declared.num_heads, declared.max_bias):
        yield "slopes", message, recipe(slopes), remedy
    remedy = "Give head h the slope h: the first head has the largest slope."
    yield "slopes", "the slopes are in reverse order", recipe(declared.slopes()[::-1]), remedy
    if declared.causal:
        return
    for side, formula, sign in (("after", "m (j - i)", 1.0), ("before", "m (i - j)", -1.0)):
        yield (
            "bias-sign",
            f"the bias is signed, {formula}: keys {side} the query are rewarded",
            _added(lambda call, by=sign: by * plain(call) * np.where(call.visible, 1.0, -1.0)),  # type: ignore[misc]
            "Take the absolute distance: -slope * |i - j|.",
        )
    text = "keys after the query have no bias"
    remedy = "Use -slope * |i - j| for keys after the query too."
    yield "future-keys", text, _added(lambda call: plain(call) * call.visible), remedy
