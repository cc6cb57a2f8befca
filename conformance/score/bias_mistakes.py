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
        yield from (_in_logits(mistake) for mistake in bias_mistakes(declared) if mistake.code)


def _in_logits(mistake: Mistake) -> Mistake:
    """Return the mistake in logits that corresponds to a mistake in the bias."""
    of: Callable[[Any], Any] = mistake.predict
    return _truth(mistake.code, mistake.message, lambda call: of(call.positions))


def _without(of: Callable[[int, int], bool]) -> Callable[[Scored], Parts]:
    """Return the function that omits the bias in calls for which ``of(q_len, k_len)`` is true."""

    def parts(call: Scored) -> Parts:
        lengths = call.q.shape[2], call.k.shape[2]
        return (call.replace(encoding=None) if of(*lengths) else call).parts()

    return parts


def _truth(code: str, message: str, of: Callable[[Scored], Truth], remedy: str = "") -> Mistake:
    """Return the mistake of another bias, with its reference."""
    return changed(
        code, message, lambda call: call.parts() | {"bias": call.added(of(call))}, remedy
    )


def _with(code: str, message: str, of: Callable[[Scored], np.ndarray], remedy: str = "") -> Mistake:
    """Return the mistake of another bias, given its exact values."""
    return _truth(code, message, lambda call: exactly(of(call)), remedy)


def _t5(declared: T5Bias) -> Iterator[Mistake]:
    yield _with(
        "bucket-sign",
        "the relative position has the opposite sign: query minus key",
        lambda call: call.encoding.bias(-call.positions[0], -call.positions[1]),
    )
    if declared.num_buckets % 2 == 0:
        other = declared.replace(bidirectional=not declared.bidirectional)
        words = [f"{'bi' if e.bidirectional else 'uni'}directional" for e in (other, declared)]
        text = f"buckets are {words[0]}, declared {words[1]}"
        yield _with("bucket-direction", text, lambda call: other.bias(*call.positions))
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
        yield _with("bucket-spacing", text, linear)


def _alibi(declared: ALiBi) -> Iterator[Mistake]:
    def recipe(slopes: np.ndarray) -> Callable[[Scored], np.ndarray]:
        def bias(call: Scored) -> np.ndarray:
            q_at, k_at = call.positions
            return np.asarray(-slopes[:, None, None] * np.abs(k_at - q_at[:, None]))

        return bias

    def plain(call: Scored) -> np.ndarray:
        return np.asarray(declared.bias(*call.positions))

    for message, remedy, slopes in known_series(declared.num_heads, declared.max_bias):
        yield _with("slopes", message, recipe(slopes), remedy)
    text = "the slopes run from the last head to the first"
    yield _with("slopes", text, recipe(declared.slopes()[::-1]))
    if declared.causal:
        return
    for side, formula, sign in (("after", "m (j - i)", 1.0), ("before", "m (i - j)", -1.0)):
        yield _with(
            "bias-sign",
            f"the bias is signed, {formula}: keys {side} the query are rewarded",
            lambda call, sign=sign: sign * plain(call) * np.where(call.visible, 1.0, -1.0),  # type: ignore[misc]
            "Take the absolute distance: -slope * |i - j|.",
        )
    text = "keys after the query have no bias"
    yield _with("future-keys", text, lambda call: plain(call) * call.visible)
