"""Known mistakes in the bias added to logits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posenc_ref import ALiBi, Bias, T5Bias
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.bias.diagnose_missing import CALLS
from posenc_ref.conformance.bias.diagnose_slopes import known_series
from posenc_ref.conformance.bias.mistakes import bias_mistakes
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.oracle.apply import exactly
from posenc_ref.conformance.oracle.scores import Parts, Scored

from .changed import changed


def mistakes_of_bias(declared: Bias) -> Iterator[Mistake]:
    """Yield the known mistakes in the declared bias."""
    for words, of in CALLS:
        yield changed("bias-missing", f"the bias is missing {words}", _without(of))
    if isinstance(declared, T5Bias):
        yield from _t5(declared)
    elif isinstance(declared, ALiBi):
        yield from _alibi(declared)
    else:
        for one in bias_mistakes(declared):
            if one.code:
                of: Callable[[Any], Any] = one.predict
                yield _added(one.code, one.message, lambda call, of=of: of(call.positions))


def _without(of: Callable[[int, int], bool]) -> Callable[[Scored], Parts]:
    """Return a function that omits the bias in calls for which ``of(q_len, k_len)`` is true."""

    def parts(call: Scored) -> Parts:
        lengths = call.q.shape[2], call.k.shape[2]
        return (call.replace(encoding=None) if of(*lengths) else call).parts()

    return parts


def _added(
    code: str, message: str, of: Callable[[Scored], Truth | np.ndarray], remedy: str = ""
) -> Mistake:
    """Return the mistake of adding the bias ``of(call)``: a reference, or exact values."""

    def parts(call: Scored) -> Parts:
        bias = of(call)
        truth = bias if isinstance(bias, Truth) else exactly(bias)
        return call.parts() | {"bias": call.added(truth)}

    return changed(code, message, parts, remedy)


def _t5(declared: T5Bias) -> Iterator[Mistake]:
    yield _added(
        "bucket-sign",
        "the relative position has the opposite sign: query minus key",
        lambda call: call.encoding.bias(-call.positions[0], -call.positions[1]),
    )
    if declared.num_buckets % 2 == 0:
        other = declared.replace(bidirectional=not declared.bidirectional)
        words = [f"{'bi' if e.bidirectional else 'uni'}directional" for e in (other, declared)]
        text = f"buckets are {words[0]}, declared {words[1]}"
        yield _added("bucket-direction", text, lambda call: other.bias(*call.positions))
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
        yield _added("bucket-spacing", text, linear)


def _alibi(declared: ALiBi) -> Iterator[Mistake]:
    def recipe(slopes: np.ndarray) -> Callable[[Scored], np.ndarray]:
        def bias(call: Scored) -> np.ndarray:
            q_at, k_at = call.positions
            return np.asarray(-slopes[:, None, None] * np.abs(k_at - q_at[:, None]))

        return bias

    def plain(call: Scored) -> np.ndarray:
        return np.asarray(declared.bias(*call.positions))

    for message, remedy, slopes in known_series(declared.num_heads, declared.max_bias):
        yield _added("slopes", message, recipe(slopes), remedy)
    text = "the slopes are in reverse order"
    yield _added("slopes", text, recipe(declared.slopes()[::-1]))
    if declared.causal:
        return
    for side, formula, sign in (("after", "m (j - i)", 1.0), ("before", "m (i - j)", -1.0)):
        yield _added(
            "bias-sign",
            f"the bias is signed, {formula}: keys {side} the query are rewarded",
            lambda call, sign=sign: sign * plain(call) * np.where(call.visible, 1.0, -1.0),  # type: ignore[misc]
            "Take the absolute distance: -slope * |i - j|.",
        )
    text = "keys after the query have no bias"
    yield _added("future-keys", text, lambda call: plain(call) * call.visible)
