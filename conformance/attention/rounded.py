"""Known mistakes of attention that hold numbers in half precision on the way to the output."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from posenc_ref import Attention, Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import with_value
from posenc_ref.conformance.diagnosis.rounding import SIGNIFICANT_BITS, significant
from posenc_ref.conformance.oracle.attention import Attended, sum_of_terms
from posenc_ref.conformance.oracle.scores import Scored

#: A code, a message, a change, and what to do about it.
Row = tuple[str, str, Callable[[Attended], Attended], str]
NARROW = "table-precision"


def shares(logits: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return the softmax along an axis; a hidden key has weight 0, also where all are hidden."""
    top = np.max(logits, axis=axis, keepdims=True, initial=-1e300)
    e = np.exp(logits - top)
    total = e.sum(axis=axis, keepdims=True)
    return np.asarray(e / np.where(total > 0, total, 1.0))


def rounded(of: Attention) -> Iterator[Row]:
    """Yield numbers that are held in half precision on the way to the output."""
    of_weights = (_rounded_weights, _rounded_both)
    rows: list[tuple[str, Callable[..., Attended]]] = [
        ("the logits", _rounded_logits), ("the weights", _rounded_weights),
        ("the values", _rounded_values), ("weights and values", _rounded_both),
        ("queries, keys and values", _rounded_inputs),
    ]  # fmt: skip
    if isinstance(of.encoding, Rotary):
        for what, both in (("the keys", False), ("queries and keys", True)):
            rows.append((f"{what}, after their rotation,", partial(_rotated, queries=both)))
    for kind, bits in SIGNIFICANT_BITS.items():
        round_ = _to_float16 if kind == "float16" else partial(significant, bits=bits)
        for what, change in rows:
            if of.sinks and change in of_weights:
                continue
            right = (
                f"Keep {what} in float32 until they are multiplied: do not round them to {kind}."
            )
            yield NARROW, f"{what} are rounded to {kind}", partial(change, by=round_), right


def _rotated(call: Attended, by: Callable[[np.ndarray], np.ndarray], *, queries: bool) -> Attended:
    def logits(one: Scored) -> Truth:
        (q, k), truth = one.sides(), sum_of_terms(one)
        plain = q.value @ np.swapaxes(k.value, -1, -2)
        narrow = (by(q.value) if queries else q.value) @ np.swapaxes(by(k.value), -1, -2)
        factor = 1.0 if one.factor is None else one.factor[:, None]
        return with_value(truth, truth.value + one.scale * factor * (narrow - plain))

    return call.replace(logits=logits)


def _rounded_logits(call: Attended, by: Callable[[np.ndarray], np.ndarray]) -> Attended:
    def logits(one: Scored) -> Truth:
        truth = sum_of_terms(one)
        return with_value(truth, by(truth.value))

    return call.replace(logits=logits)


def _rounded_weights(call: Attended, by: Callable[[np.ndarray], np.ndarray]) -> Attended:
    return call.replace(weigh=lambda x: by(shares(x)))


def _rounded_values(call: Attended, by: Callable[[np.ndarray], np.ndarray]) -> Attended:
    return call.replace(v=by(call.v))


def _rounded_both(call: Attended, by: Callable[[np.ndarray], np.ndarray]) -> Attended:
    return _rounded_values(_rounded_weights(call, by), by)


def _rounded_inputs(call: Attended, by: Callable[[np.ndarray], np.ndarray]) -> Attended:
    one = call.scored
    return call.replace(v=by(call.v), scored=one.replace(q=by(one.q), k=by(one.k)))


def _to_float16(x: np.ndarray) -> np.ndarray:
    """Round to float16, whose smallest numbers have fewer bits: weights are among them."""
    with np.errstate(over="ignore"):
        return np.asarray(np.asarray(x, np.float16), np.float64)
