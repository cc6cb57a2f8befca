"""Known mistakes in the bias added to logits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from posenc_ref import ALiBi, Bias, Sandwich, T5Bias
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.bias.diagnose_buckets import rule_of
from posenc_ref.conformance.bias.diagnose_missing import CALLS
from posenc_ref.conformance.bias.diagnose_slopes import known_series
from posenc_ref.conformance.bias.mistakes import bias_mistakes
from posenc_ref.conformance.diagnosis.mistake import each_part
from posenc_ref.conformance.diagnosis.position_mistakes import FLATTENED
from posenc_ref.conformance.oracle.apply import exactly
from posenc_ref.conformance.oracle.scores import Parts, Scored

from .changed import Change, OfCall


def changes_of_bias(declared: Bias) -> Iterator[Change]:
    """Yield the changes that are known mistakes of the declared bias."""
    for words, of in CALLS:
        remedy = "Add the bias in every call: the rows of the queries' own positions, K - Q + i."
        yield "bias-missing", f"the bias is missing {words}", _without(of), remedy
    for words, of_group in _SHARED:
        if of_group is _of_key_heads and not isinstance(declared, ALiBi | Sandwich):
            continue  # its learned numbers are those of all heads
        remedy = (
            "Index the bias by the query head, after the key heads are repeated: head h has the "
        )
        remedy += "bias of head h, of all H heads."
        parts = _added(lambda call, of=of_group: of(call))  # type: ignore[misc]
        yield "head-order", f"query head h has the bias {words}", parts, remedy
    # exp2 in place of exp: log2(e) = 1 / ln 2 is then a factor on all terms, or on some.
    for words, factor in (
        (f"ln 2 = {np.log(2):.6g}: log2(e) multiplies q . k only", np.log(2)),
        (f"log2(e) = {1 / np.log(2):.6g}", 1 / np.log(2)),
    ):
        parts = _added(
            lambda call, by=factor: each_part(  # type: ignore[misc]
                call.encoding.truth(*call.positions), lambda part: by * part
            )
        )
        remedy = "With exp2 in place of exp, multiply all terms of the logits by log2(e)."
        yield "bias-scale", f"the bias is multiplied by {words}", parts, remedy
    yield from _flattened()
    if isinstance(declared, T5Bias):
        yield from _t5(declared)
    elif isinstance(declared, ALiBi):
        yield from _alibi(declared)
    else:
        for one in bias_mistakes(declared):
            if one.code:
                parts = _added(lambda call, one=one: one.predict(call.positions))  # type: ignore[misc]
                yield one.code, one.message, parts, one.remedy


def _flattened() -> Iterator[Change]:
    """Yield biases of batch rows and heads that are flattened in different orders."""
    remedy = "Give head h of every batch row the bias of head h: index b H + h of the flattened "
    remedy += "batch rows and heads has head h."
    for head, of in FLATTENED:
        for words, part in (
            ("the bias", ""),
            ("the part of the bias that depends on the key", "key"),
            ("the part of the bias that depends on the query alone", "query"),
        ):
            text = f"{words} is that of head {head} for batch row b and head h: rows and heads are "
            text += "flattened in different orders"
            yield "head-order", text, _added(partial(_of_flat, of, part)), remedy


def _of_flat(of: Callable[..., np.ndarray], part: str, call: Scored) -> Truth:
    """Return the bias (B, H, Q, K) of other heads, or of the key's or the query's part of it."""
    own: Truth = call.encoding.truth(*call.positions)
    n_b, n_h = call.q.shape[:2]
    if n_b == 1 or own.value.ndim < 3 or own.value.shape[0] != n_h:
        return own
    heads = of(*np.indices((n_b, n_h)), n_b, n_h)
    value, other = own.value, own.value[heads]
    first = other[..., :1] - value[..., :1]
    other = {"": other, "key": other - first, "query": value + first}[part]
    return Truth(other, own.terms + own.terms[heads] + np.abs(first), own.angle + own.angle[heads])


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


def _of_key_heads(call: Scored) -> Truth:
    """Return the bias that is made for the number of key heads, and repeated in each group."""
    few: Bias = call.encoding.replace(num_heads=call.q.shape[1] // call.group)
    heads = np.arange(call.q.shape[1]) // call.group
    return each_part(few.truth(*call.positions), lambda part: _taken(part, heads))


def _of_heads(order: Callable[[int, int], np.ndarray]) -> Callable[[Scored], Truth]:
    """Return the declared bias of the heads ``order(number, query heads per key head)``."""

    def bias(call: Scored) -> Truth:
        truth: Truth = call.encoding.truth(*call.positions)
        if call.group < 2:
            return truth
        heads = order(call.q.shape[1], call.group)
        return each_part(truth, lambda part: _taken(part, heads))

    return bias


def _taken(part: np.ndarray, heads: np.ndarray) -> np.ndarray:
    return part if part.ndim < 3 or part.shape[-3] == 1 else part[..., heads, :, :]


#: Biases that query heads of one key head share, in words.
_SHARED: tuple[tuple[str, Callable[[Scored], Truth]], ...] = (
    ("of key head h // (H / H_kv), computed for H_kv heads, not that of head h of H",
     _of_key_heads),
    ("of its key head, h // (H / H_kv), not that of head h",
     _of_heads(lambda n, g: np.arange(n) // g)),
    ("of the first head of its group", _of_heads(lambda n, g: np.arange(n) // g * g)),
    ("of the last head of its group", _of_heads(lambda n, g: np.arange(n) // g * g + g - 1)),
    ("of head h modulo H_kv", _of_heads(lambda n, g: np.arange(n) % (n // g))),
)  # fmt: skip


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
