"""Known mistakes of attention: values, output, sinks, key heads, mask, scale, and the logits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from math import log, sqrt
from typing import Any

import numpy as np

from posenc_ref import Attention, Bias, Encoding, RoPE, Rotary, Score, XPos, YaRN
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.functions.function import written
from posenc_ref.conformance.functions.layouts import rotary_variants
from posenc_ref.conformance.oracle.attention import Attended, attended, attention_of
from posenc_ref.conformance.oracle.scores import Scored
from posenc_ref.conformance.oracle.transforms import adjoint
from posenc_ref.conformance.score.changed import mistakes_of
from posenc_ref.conformance.score.encoding_mistakes import own_mistakes
from posenc_ref.conformance.score.formulas import changed_steps
from posenc_ref.conformance.score.mistakes import logit_mistakes
from posenc_ref.conformance.score.query_scales import query_scale_changes

from .calls import calls
from .tails import finite_masks, tails
from .turned_values import turned_values
from .weights import GROUPED, TILES, Change, likely_weights, paired_weights, rarer_weights

VALUES, OUTPUT, HEADS, SINKS = "value-rotation", "output-rotation", "key-heads", "sinks"


def attention_mistakes(declared: Any) -> Iterator[Mistake]:
    """Yield the known mistakes of an attention, likely ones first."""
    of = attention_of(declared)
    if of.values != "plain" and isinstance(of.encoding, Rotary):
        yield from _rotated(declared, of.encoding)
    yield from _weights(declared, of)
    if of.encoding is not None:
        yield from _logits(declared, of.encoding, rotated=of.values != "plain")
    if of.query_scale is not None and not isinstance(of.encoding, Score):
        for one in mistakes_of(of.encoding, query_scale_changes(of.query_scale)):
            yield _by(declared, one.code, one.message, _with_logits(one.predict), one.remedy)
    yield from finite_masks(declared)


def rarer_mistakes(declared: Any) -> Iterator[Mistake]:
    """Yield the mistakes of an attention that are tried after all others."""
    of = attention_of(declared)
    for row in chain(turned_values(of), rarer_weights(of), tails(of)):
        yield _by(declared, *row)
    if of.encoding is None or of.values != "plain":
        return
    smallest = next(calls(declared, 0, "float64")).arguments
    for one in changed_steps(attended(declared, *smallest).repeated()):
        yield _by(declared, one.code, one.message, _with_logits(one.predict), one.remedy)


def paired_mistakes(declared: Any) -> Iterator[Mistake]:
    """Yield those rarer mistakes that may be made together with another one."""
    return (_by(declared, *row) for row in paired_weights(attention_of(declared)))


def _by(declared: Any, code: str, message: str, change: Change, remedy: str) -> Mistake:
    def output(*arguments: Any) -> Any:
        truth = change(attended(declared, *arguments)).truth()
        if truth is None:
            raise ValueError("no such logits")
        return truth

    return replace(written(code, message, output, remedy), before=change)


def _rotated(declared: Any, e: Any) -> Iterator[Mistake]:
    """Yield the mistakes of values that are rotated with the keys."""
    back = (
        "Rotate the output of each query by minus the query's position, on the channels that are "
        "rotated: the conjugate of the query's own cos and sin."
    )
    rotate = "Rotate the values to the positions of their keys, as the keys are."

    def own(call: Attended, positions: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        return np.asarray(positions(call.scored.positions[0]))

    def output_at(positions: Callable[[np.ndarray], np.ndarray]) -> Change:
        return lambda call: call.replace(back=(adjoint(e), own(call, positions)))

    rows: list[tuple[str, str, Change, str]] = [
        (OUTPUT, "the output is not rotated back",
         lambda call: call.replace(back=None), back),
        (OUTPUT, "the output is rotated by the position of the query, not back by it",
         lambda call: call.replace(back=(e, call.scored.positions[0])), back),
        (VALUES, "values are not rotated, but the output is rotated back",
         lambda call: call.replace(turn=None), rotate),
        (VALUES, "values have no position: they are not rotated, or by the position of the query, "
         "and the output is not rotated back",
         lambda call: call.replace(turn=None, back=None),
         f"{rotate} {back}"),
        (VALUES, "values are rotated by minus the positions of their keys",
         lambda call: call.replace(turn=(adjoint(e), call.scored.positions[1])), rotate),
        (VALUES, "values turn the other way, and so does the output",
         lambda call: call.replace(turn=(adjoint(e), call.scored.positions[1]),
                                   back=(e, call.scored.positions[0])), rotate),
        (OUTPUT, "the output is rotated back twice", output_at(lambda at: 2 * at), back),
        (OUTPUT, "the output is rotated back by the index of the query in the call, not by its "
         "position", output_at(lambda at: 0 * at + np.arange(at.shape[-1])), back),
        (OUTPUT, "the output is rotated back by the positions of the first Q keys, not by those of "
         "the queries", lambda call: call.replace(
             back=(adjoint(e), call.scored.positions[1][..., : call.seen.shape[0]])), back),
        (OUTPUT, "the output is rotated back by the position of the query less the smallest of the "
         "call, not by its position", output_at(lambda at: at - at.min(axis=-1, keepdims=True)),
         back),
        (OUTPUT, "the output is rotated back by the position of the last query, for all queries",
         output_at(lambda at: 0 * at + at[..., -1:]), back),
        (OUTPUT, "the output is rotated back by one position too far",
         output_at(lambda at: at + 1), back),
        (OUTPUT, "the output is rotated back by one position too few",
         output_at(lambda at: at - 1), back),
        (VALUES, "values are rotated by their index in the call, not by the positions of their "
         "keys", lambda call: call.replace(
             turn=(e, 0 * call.scored.positions[1]
                   + np.arange(call.v.shape[2]))), rotate),
    ]  # fmt: skip
    for row in rows:
        yield _by(declared, *row)
    dim, size = _rotated_channels(e), e.head_dim
    if dim < size:
        last = e.rotary_start > 0
        other = e.replace(rotary_start=0 if last else size - dim)
        where = f"than the {'last' if last else 'first'} {dim}"
        for what, code, change, remedy in (
            ("the output are rotated back", OUTPUT, _back(other), back),
            ("values and output are rotated", VALUES, _both(other), rotate),
            ("queries, keys, values and output are rotated", "rotary-dim", _everywhere(other), ""),
        ):
            yield _by(declared, code, f"other channels of {what} {where}", change, remedy)
    variants = list(rotary_variants(e))
    for code, message, one in variants:
        yield _by(declared, code, message, _everywhere(one), "")
    for code, message, one in variants:
        if code not in ("base", "sign"):  # a sign is one of the mistakes above
            yield _by(declared, code, f"in the rotation back alone: {message}", _back(one), back)
            text = f"in the rotation of values alone: {message}"
            yield _by(declared, code, text, _turn(one), rotate)
    yield from _factors(declared, e)


def _factors(declared: Any, e: Rotary) -> Iterator[Mistake]:
    m = e.attention_factor()
    for message, gain in (
        (f"the attention factor m = {m:.6g} multiplies the rotated channels of the values and "
         "again those of the output", m * m),
        (f"the attention factor m = {m:.6g} multiplies the rotated channels of the output", m),
    ):  # fmt: skip
        if m != 1.0:
            remedy = "Rotate values and output by cos and sin without the attention factor."
            yield _by(declared, "attention-factor", message, _gained(gain), remedy)


def _rotated_channels(e: Any) -> int:
    """Return the number of rotated channels: all unless RoPE says otherwise."""
    return int(getattr(e, "rotary_dim" if isinstance(e, RoPE) else "head_dim", 0))


def _gained(gain: float) -> Change:
    return lambda call: call.replace(gain=gain)


def _everywhere(other: Rotary) -> Change:
    def changed(call: Attended) -> Attended:
        q_at, k_at = call.scored.positions
        scored = call.scored.replace(encoding=other)
        return call.replace(scored=scored, turn=(other, k_at), back=(adjoint(other), q_at))

    return changed


def _both(other: Rotary) -> Change:
    return lambda call: _turn(other)(_back(other)(call))


def _back(other: Rotary) -> Change:
    return lambda call: call.replace(back=(adjoint(other), call.scored.positions[0]))


def _turn(other: Rotary) -> Change:
    return lambda call: call.replace(turn=(other, call.scored.positions[1]))


def _weights(declared: Any, of: Attention) -> Iterator[Mistake]:
    """Yield the mistakes of the scale, the mask, the sinks and the heads."""
    for message, change in _scales(of):
        yield _by(declared, "softmax-scale", message, change, _right_scale(of))
    group = "Query head h reads key head h // (H / H_kv): repeat each key head H / H_kv times."

    def tiled(call: Attended) -> np.ndarray:
        return np.asarray(np.arange(call.heads.size) % (call.heads.max() + 1))

    heads: tuple[tuple[str, Change], ...] = (
        ("query head h reads key head h % H_kv, not h // (H / H_kv): key heads are tiled, not "
         "repeated", lambda call: call.replace(heads=tiled(call), value_heads=tiled(call))),
        ("all query heads read the first key head",
         lambda call: call.replace(heads=0 * call.heads, value_heads=0 * call.heads)),
        ("the keys of each group are right, the values are those of key head h % H_kv",
         lambda call: call.replace(value_heads=tiled(call))),
        ("the values of each group are right, the keys are those of key head h % H_kv",
         lambda call: call.replace(heads=tiled(call))),
    )  # fmt: skip
    for message, change in heads if of.values != "shared" else ():  # one tensor is one key head
        yield _by(declared, HEADS, message, change, group)
    for row in likely_weights(of):
        yield _by(declared, *row)
    if of.sinks:
        yield from _sinks(declared)


def _right_scale(of: Attention) -> str:
    """Return what to multiply q . k by."""
    if of.softmax_scale is not None:
        return f"Multiply q . k by the declared scale, {of.softmax_scale:.9g}, once."
    if of.encoding is not None and of.encoding.own_scale(4) == of.encoding.own_scale(16) == 1.0:
        return "Do not scale q . k: the declared scale is 1."
    return "Multiply q . k by 1/sqrt(head_dim) of the whole head, once, unless declared otherwise."


def _scales(of: Attention) -> Iterator[tuple[str, Change]]:
    def scaled(scale: Callable[[float, int], float]) -> Change:
        """Return the change to ``scale(declared scale, head_dim)``."""

        def changed(call: Attended) -> Attended:
            one = call.scored
            return call.replace(scored=one.replace(scale=scale(one.scale, one.q.shape[-1])))

        return changed

    def times(factor: float) -> Change:
        return scaled(lambda s, d: s * factor)

    def of_size(n: int) -> Change:
        return scaled(lambda s, d: 1.0 / sqrt(n))

    yield "q . k is not scaled", scaled(lambda s, d: 1.0)
    yield "the scale is applied twice", scaled(lambda s, d: s * s)
    if of.softmax_scale is not None:
        yield "the scale is 1/head_dim, not its root", scaled(lambda s, d: 1.0 / d)
    e: Any = of.encoding
    if of.softmax_scale is not None or (e is not None and e.own_scale(4) != 0.5):
        yield "the scale is 1/sqrt(head_dim), not the declared one", scaled(lambda s, d: d**-0.5)
    dim = _rotated_channels(e)
    if isinstance(e, RoPE) and dim < e.head_dim:
        for n, name in ((dim, "rotated"), (e.head_dim - dim, "other")):
            yield f"the scale is 1/sqrt({n}), of the {name} channels alone", of_size(n)
    if isinstance(e, RoPE) and isinstance(e.scaling, YaRN):
        m = 0.1 * log(e.scaling.factor) + 1
        for what, by in (("multiplied", m * m), ("divided", 1 / m**2)):
            text = f"the scale is {what} by the square of YaRN's factor {m:.6g}"
            yield text, times(by)


def _sinks(declared: Any) -> Iterator[Mistake]:
    remedy = (
        "Add exp(sink) of the head to the denominator of its softmax, unscaled, and no value to "
        "the sum."
    )
    own = "Give query head h sink h: the sinks have the order of the query heads."
    raised = "Subtract one maximum from the logits and from the sink, that of them all."
    rows: tuple[tuple[str, Change, str], ...] = (
        ("the sinks are left out", lambda call: call.replace(sinks=None), remedy),
        ("the sinks are multiplied by the softmax scale",
         lambda call: call.replace(sinks=_sink(call) * call.scored.scale), remedy),
        ("the sinks are subtracted: their sign is wrong",
         lambda call: call.replace(sinks=-_sink(call)), remedy),
        ("all sinks are 0: exp(0) = 1 is added to the denominator",
         lambda call: call.replace(sinks=0 * _sink(call)), remedy),
        ("every head has the sink of the first head",
         lambda call: call.replace(sinks=0 * _sink(call) + _sink(call)[0]), own),
        ("query head h has sink h // (H / H_kv), by the number of its key head",
         lambda call: call.replace(sinks=_sink(call)[call.heads]), own),
        *((f"every part of {n} keys adds the sink to the denominator",
           partial(_sink_in_parts, n=n), "Add the sink once, after the parts are merged.")
          for n in TILES),
        ("heads have the sinks in the reverse order",
         lambda call: call.replace(sinks=_sink(call)[::-1]), own),
        *((f"the sinks of grouped heads are read in the order {words}",
           lambda call, move=move: call.replace(sinks=_sink(call)[move(call)]), own)
          for words, move in (() if attention_of(declared).values == "shared" else GROUPED)),
        ("the maximum of the row is subtracted from its logits, not from the sink",
         lambda call: call.replace(raised=True), raised),
        ("the sinks are counted twice", lambda call: call.replace(sinks=_sink(call) + log(2)),
         remedy),
    )  # fmt: skip
    for message, change, right in rows:
        yield _by(declared, SINKS, message, change, right)


def _sink_in_parts(call: Attended, n: int) -> Attended:
    return call.replace(sinks=_sink(call) + log(-(-call.seen.shape[1] // n)))


def _sink(call: Attended) -> np.ndarray:
    assert call.sinks is not None
    return call.sinks


def _logits(declared: Any, e: Encoding, *, rotated: bool) -> Iterator[Mistake]:
    """Yield the known mistakes of the logits, as the output shows them."""
    where = "" if isinstance(e, Bias | Score) else "in the logits alone: " * rotated
    for text, at in (
        ("a token has its index in the call, the last query that of the last key",
         lambda n_q, n_k: (np.arange(n_k - n_q, n_k), np.arange(n_k))),
        ("queries and keys are counted from 0", lambda n_q, n_k: (np.arange(n_q), np.arange(n_k))),
    ):  # fmt: skip
        text = f"{where}the positions that are passed are ignored: {text}"
        yield _by(declared, "decode-offset", text, partial(_indexed, at=at),
                  "Use q_positions and k_positions as they are passed.")  # fmt: skip
    for text, sides in (("queries", (1, 0)), ("queries and keys", (1, 1)), ("keys", (0, 1))):
        text = f"{where}the positions of {text} start at 0 in every call"
        yield _by(declared, "decode-offset", text, partial(_restarted, sides=sides),
                  "Use q_positions and k_positions as they are passed.")  # fmt: skip
    for n in TILES:
        for what, axis in (("keys", 1), ("queries", 0)):
            text = f"{where}every tile of {n} {what} has the positions of the first tile"
            yield _by(declared, "wrong-row", text, partial(_first_tile, axis=axis, n=n),
                      f"Add the start of the tile to the index of its {what}.")  # fmt: skip
    known = own_mistakes(e) if isinstance(e, Score) else logit_mistakes(e)
    where = "in the logits alone: " if rotated and not isinstance(e, XPos) else ""
    for one in known:
        # If head h is at position h, all offsets are 0, as without an encoding.
        if one.code and one.code != "position-axis":
            found = _by(
                declared, one.code, where + one.message, _with_logits(one.predict), one.remedy
            )
            before = one.before
            yield found if before is None else replace(found, before=partial(_scored, before))


def _scored(before: Callable[[Scored], Scored], call: Attended) -> Attended:
    return call.replace(scored=before(call.scored))


def _indexed(call: Attended, at: Callable[[int, int], tuple[np.ndarray, np.ndarray]]) -> Attended:
    """Return the call with logits at the positions ``at(number of queries, number of keys)``."""
    one = call.scored
    places = at(one.q.shape[2], call.v.shape[2])
    q_at, k_at = (
        np.broadcast_to(p, old.shape) for p, old in zip(places, one.positions, strict=True)
    )
    return call.replace(scored=one.replace(q_at=q_at, k_at=k_at))


def _restarted(call: Attended, sides: tuple[int, int]) -> Attended:
    """Return the call with positions less the first one, of queries and keys where sides are 1."""
    q_at, k_at = (
        at - by * at[..., :1] for at, by in zip(call.scored.positions, sides, strict=True)
    )
    return call.replace(scored=call.scored.replace(q_at=q_at, k_at=k_at))


def _first_tile(call: Attended, axis: int, n: int) -> Attended:
    """Return the call whose keys (axis 1) or queries have the positions of their first n."""
    at = list(call.scored.positions)
    at[axis] = at[axis][..., np.arange(at[axis].shape[-1]) % n]
    return call.replace(scored=call.scored.replace(q_at=at[0], k_at=at[1]))


def _with_logits(logits: Callable[[Any], Truth | None]) -> Change:
    return lambda call: call.replace(logits=logits)
