"""Known mistakes of each score encoding, and mistakes common to all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain

import numpy as np

from posenc_ref import (
    TUPE,
    CoPE,
    DeBERTa,
    DecomposedRelative,
    ESPnetLegacy,
    FoPE,
    GatedBias,
    PoPE,
    Score,
    Shaw,
    TransformerXL,
    XLNet,
)
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake, each_part
from posenc_ref.conformance.functions.heads import fope_variants, interleaved
from posenc_ref.conformance.oracle.scores import Parts, Scored
from posenc_ref.conformance.phases.frequencies import PUBLISHED_BASES
from posenc_ref.conformance.table.mistakes import sinusoid_variants
from posenc_ref.conformance.table.remedies import columns_of
from posenc_ref.rotary_score import RotaryScore

from .changed import Change, mistakes_of
from .measured_offsets import measured
from .operands import operand_changes
from .registered import changes_of, mistakes
from .term_mistakes import ABSOLUTE, absolute, by_offset, changes_of_any

#: The longest table to search, and the number of rows computed at once.
_LONGEST_TABLE = 2**15
_AT_ONCE = 2**10
#: Usual values of DeBERTa's max_position.
_MAX_POSITIONS = (64, 128, 256, 512, 1024, 2048)


def score_mistakes(declared: Score, calls: Sequence[JudgedCall]) -> Iterator[Mistake]:
    """Yield the declared encoding, its own known mistakes, and mistakes common to all.

    For ESPnet's legacy encoding, the length of its table is measured from the first of ``calls``;
    for a :class:`RotaryScore`, the distance by which each key is rotated.
    """
    more = mistakes_of(declared, _table_length(declared, calls[0]))
    distances = [measured(declared)] if isinstance(declared, RotaryScore) else []
    return chain(own_mistakes(declared), more, distances)


def own_mistakes(declared: Score) -> Iterator[Mistake]:
    """Yield the declared encoding, its own known mistakes, and common ones."""
    own, common = changes_of(declared), changes_of_any(declared)
    operands = operand_changes(declared)
    return mistakes_of(declared, chain([("", "", Scored.parts)], own, common, operands))


@mistakes(DeBERTa)
def _deberta(declared: DeBERTa) -> Iterator[Change]:
    where = {"code": "the authors' code", "paper": "the paper"}
    p2c = "paper" if declared.p2c == "code" else "code"
    if declared.relative_queries is not None:
        text = f"position-to-content terms are as in {where[p2c]}, declared {where[declared.p2c]}"
        remedy = f"Take the rows of position-to-content as {where[declared.p2c]} does: "
        remedy += "-(query - key)" if declared.p2c == "paper" else "query - key"
        yield "bucket-sign", text, {"p2c": p2c}, f"{remedy}, put into a bucket, plus the span."
    if declared.buckets is not None and declared.max_position is not None:
        text = "offsets are not put into logarithmic buckets"
        remedy = f"Put offsets beyond {declared.buckets // 2} into logarithmic buckets."
        yield "bucket-spacing", text, {"buckets": None, "max_position": None}, remedy
        own = declared.max_position
        for other in sorted({own // 2, own - 1, own + 1, 2 * own, *_MAX_POSITIONS} - {own}):
            if other >= declared.buckets // 2 + 2:
                text = f"max_position is {other}, declared {own}"
                remedy = f"Use max_position = {own}."
                yield "bucket-spacing", text, {"max_position": other}, remedy
    span = declared.span
    for low, high in ((-span + 1, span - 1), (-span, span - 2)):
        text = f"query - key is clamped to {low} .. {high}"
        change = by_offset(lambda r, a=low, b=high: -np.clip(-r, a, b))  # type: ignore[misc]
        remedy = f"Clamp the row, query - key + {span}, to 0 .. {2 * span - 1}."
        yield "bucket-clamp", text, change, remedy


@mistakes(Shaw)
def _shaw(declared: Shaw) -> Iterator[Change]:
    rows, sign = int(declared.keys.shape[-2]), 1 if declared.counted == "key-query" else -1
    for before in (declared.before - 1, declared.before + 1, rows // 2):
        if 0 <= before < rows and before != declared.before:
            text = f"offset 0 has row {before}, declared {declared.before}"
            remedy = f"Add {declared.before} to the relative position."
            yield "table-offset", text, {"before": before}, remedy
    first, last = -declared.before, rows - 1 - declared.before
    for low, high in ((first + 1, last), (first, last - 1)):
        text = f"relative positions are clamped to {low} .. {high}, declared {first} .. {last}"
        change = by_offset(lambda r, a=low, b=high: sign * np.clip(sign * r, a, b))  # type: ignore[misc]
        yield "bucket-clamp", text, change, f"Clamp relative positions to {first} .. {last}."
    for words, place in ABSOLUTE:
        change = absolute(lambda call, of=place: sign * (of(call) - declared.before))  # type: ignore[misc]
        yield "relative-absolute", f"the {words} is used as the row of the table", change


@mistakes(TransformerXL)
def _transformer_xl(declared: TransformerXL) -> Iterator[Change]:
    sinusoid = declared.sinusoid
    for code, message, changed_table in sinusoid_variants(sinusoid, "sinusoids"):
        remedy = columns_of(sinusoid) if code in ("layout", "phase-order") else ""
        yield code, message, {"sinusoid": changed_table}, remedy
    for base in PUBLISHED_BASES:
        if base != sinusoid.base:
            text = f"the base of the sinusoids is {base:g}, declared {sinusoid.base:g}"
            yield "base", text, {"sinusoid": sinusoid.replace(base=base)}
    if declared.clamp is not None:
        remedy = f"Clamp query - key to -{declared.clamp} .. {declared.clamp}."
        yield "bucket-clamp", "offsets are not clamped", {"clamp": None}, remedy
    u, v = declared.content_bias, declared.position_bias
    if u is not None and v is not None:
        text = "content_bias and position_bias are exchanged"
        remedy = "Exchange them: (q + content_bias) . k and (q + position_bias) . R."
        yield "wrong-row", text, {"content_bias": v, "position_bias": u}, remedy
    if not isinstance(declared, ESPnetLegacy | XLNet) and declared.clamp is None:
        text = "ESPnet's legacy encoding is used: distance 0 has the row max_len - length"
        legacy = ESPnetLegacy(declared.projection, u, v, sinusoid=sinusoid, max_len=5000)
        yield "relative-shift", text, legacy, "Use the sinusoid of query - key, as declared."


@mistakes(ESPnetLegacy)
def _espnet(declared: ESPnetLegacy) -> Iterator[Change]:
    parts = (declared.projection, declared.content_bias, declared.position_bias)
    text = "ESPnet's current encoding is used: the sinusoid of key - query, also for later keys"
    remedy = (
        f"Use ESPnet's legacy encoding, as declared: for keys up to the query the sinusoid of "
        f"{declared.max_len} - K + query - key (K keys; 0 in place of the first two if K is "
        "larger), for later keys the row that the legacy shift leaves, with the next query."
    )
    yield "relative-shift", text, TransformerXL(*parts, sinusoid=declared.sinusoid), remedy
    for length, words in ((1, "no more rows than the sequence has tokens"), (5000, "5000 rows")):
        text = f"the table has {words}, declared {declared.max_len}"
        remedy = f"Make the table with {declared.max_len} rows."
        yield "position-origin", text, {"max_len": length}, remedy


def _table_length(declared: Score, one: JudgedCall) -> Iterator[Change]:
    """Yield ESPnet's legacy encoding with the number of table rows measured from the logits.

    For a table of N rows and a call with K keys, each query's own key has the sinusoid of position
    ``N - K``. All tables of at most K rows give the same logits.
    """
    call: Scored = one.facts
    if not isinstance(declared, ESPnetLegacy) or not np.isfinite(one.actual).all():
        return
    n_q, n_k = call.q.shape[2], call.k.shape[2]
    rest = sum(t.value for name, t in call.terms().items() if not name.endswith("-position"))
    left = (one.actual - rest)[..., np.arange(n_q), np.arange(n_k - n_q, n_k)] / call.scale
    v = declared.position_bias
    x = call.q if v is None else call.q + np.asarray(v)[:, None, :]
    wide = np.matmul(x, np.asarray(declared.projection)).reshape(left.size, -1)
    starts = range(0, _LONGEST_TABLE, _AT_ONCE)
    tables = (declared.sinusoid.table(np.arange(a, a + _AT_ONCE)) for a in starts)
    misfit = [np.abs(wide @ t.T - left.reshape(-1, 1)).max(axis=0) for t in tables]
    rows = int(np.argmin(np.concatenate(misfit))) + n_k
    text = f"the table has {rows} rows, declared {declared.max_len}"
    remedy = f"Make the table with {declared.max_len} rows."
    yield "position-origin", text, {"max_len": rows}, remedy


@mistakes(GatedBias)
def _gated(declared: GatedBias) -> Iterator[Change]:
    weight, c = np.asarray(declared.weight), np.asarray(declared.linear_bias)
    changed = {"weight": weight[::-1], "linear_bias": c[::-1]}
    remedy = "Exchange the outputs: the first is a, the second r, in 2 + a (s r - 1)."
    yield "wrong-row", "the two gates are exchanged", changed, remedy
    yield (
        "softmax-scale",
        "the gates are computed from scaled queries",
        lambda call: _positions_of(call, call.replace(q=call.q * call.scale)),
        "Compute the gates from the queries before they are multiplied by the softmax scale.",
    )
    sign = np.array([-1, 1])
    text = "the first gate a is replaced by 1 - a, the paper's update gate"
    changed = {"weight": weight * sign[:, None], "linear_bias": c * sign}
    yield "score-term", text, changed, "Use a itself, not 1 - a, in the gate 2 + a (s r - 1)."
    text = "the gates are computed from the mean of four linear outputs, not from their sum"
    changed = {"weight": weight / 4, "linear_bias": c / 4}
    yield "score-term", text, changed, "Sum the four outputs of each gate before the sigmoid."
    remedy = "Multiply the bias by the gate 2 + a (s r - 1) of the query."
    yield "score-term", "the bias is not gated", _not_gated, remedy
    ones = np.ones_like(np.asarray(declared.scale))
    text, remedy = "the learned factor on the second gate is missing", "Multiply r by the factor s."
    yield "score-term", text, {"scale": ones}, remedy
    text = "linear_bias, the learned constants added to the inputs of the gates, is missing"
    remedy = "Add linear_bias to the inputs of the gates, before the sigmoid."
    yield "score-term", text, {"linear_bias": np.zeros_like(c)}, remedy


def _positions_of(call: Scored, changed: Scored) -> Parts:
    """Return the terms of the logits of ``call``, with the content-position term of ``changed``."""
    return call.terms() | {"content-position": changed.terms()["content-position"]}


def _not_gated(call: Scored) -> Parts:
    plain, (q_at, k_at) = call.terms(), call.grid
    bias = call.encoding.bias.truth(q_at[:, 0], k_at[0])
    shape = plain["content-position"].value.shape
    return plain | {"content-position": each_part(bias, lambda p: np.broadcast_to(p, shape))}


@mistakes(TUPE)
def _tupe(declared: TUPE) -> Iterator[Change]:
    if declared.cls_to_others is None:
        return
    text = "the position term of position 0 is computed like that of other positions"
    remedy = (
        "Replace the position term by cls_to_others in the row of position 0, and by "
        "others_to_cls in its column, rows 1 and later."
    )
    yield "score-term", text, {"cls_to_others": None, "others_to_cls": None}, remedy
    for side, other in (("row", "column"), ("column", "row")):
        text = f"only the {side} of position 0 is replaced: its {other} has the position term"
        yield "score-term", text, partial(_half_reset, side=side), remedy
    text = "the row and the column of position 0 are exchanged"
    row, column = declared.others_to_cls, declared.cls_to_others
    changed = {"cls_to_others": row, "others_to_cls": column}
    yield "wrong-row", text, changed, "Use cls_to_others in the row, others_to_cls in the column."


def _half_reset(call: Scored, side: str) -> Parts:
    """Return TUPE's terms with only the row, or only the column, of position 0 replaced."""
    e: TUPE = call.encoding
    reset = call.terms()
    plain = call.replace(encoding=e.replace(cls_to_others=None, others_to_cls=None)).terms()
    q_at, k_at = call.grid
    kept = (k_at == 0) & (q_at != 0) if side == "row" else (q_at == 0) & (k_at != 0)
    if side == "column":
        kept = q_at == 0
    zero = each_part(reset["content-content"], np.zeros_like)
    return {
        name: Truth(*(
            np.where(kept, getattr(plain.get(name, zero), part), getattr(t, part))
            for part in ("value", "terms", "angle")
        ))
        for name, t in reset.items()
    }  # fmt: skip


@mistakes(CoPE)
def _cope(declared: CoPE) -> Iterator[Change]:
    yield (
        "future-keys",
        "gates of keys after the query are counted: the causal mask is not applied to gates",
        lambda call: call.terms(np.full((call.q.shape[2], 1), call.k.shape[2] - 1)),
        "Set the gates of keys after the query to 0 before they are summed.",
    )
    text = "the gates are computed from logits that are not scaled"
    remedy = "Compute the gates from q . k times the scale."
    change = lambda call: _positions_of(call, call.replace(scale=1.0))  # noqa: E731
    yield "softmax-scale", text, change, remedy


@mistakes(DecomposedRelative)
def _decomposed(declared: DecomposedRelative) -> Iterator[Change]:
    h, w = declared.grid
    tables = {"height": declared.height_table, "width": declared.width_table}
    if h == w:
        text = "the tables of height and width are exchanged"
        changed = {"height_table": tables["width"], "width_table": tables["height"]}
        yield "axis-order", text, changed, "Exchange the two tables."
    for axes in (("height",), ("width",), ("height", "width")):
        flipped = {f"{axis}_table": tables[axis][::-1] for axis in axes}
        text = f"the relative {' and '.join(axes)} has the opposite sign: key minus query"
        remedy = f"Count the {' and '.join(axes)} as query minus key."
        yield "bucket-sign", text, flipped, remedy


@mistakes(PoPE)
def _pope(declared: PoPE) -> Iterator[Change]:
    text = "the frequency of channel c is base ** (-2c/d), declared base ** (-c/d)"
    remedy = "Use base ** (-c/d) for channel c = 0 .. d - 1: every channel has a frequency."
    yield "denominator", text, {"base": declared.base**2}, remedy
    if (phases := declared.phases) is not None:
        remedy = "Add the phases to the angles of the keys."
        yield "bias-missing", "phases are left out", {"phases": None}, remedy
        text = "phases have the opposite sign: they are added to the queries' angles"
        yield "bias-sign", text, {"phases": -phases}, remedy
        text = "the phases of the heads are in reverse order"
        yield "head-order", text, {"phases": phases[::-1, :]}, "Use row h of the phases for head h."
    for words, sizes in (
        ("q and k themselves, without softplus", np.copy),
        ("max(x, 0), not softplus", lambda x: np.maximum(x, 0.0)),
        ("|x|, not softplus", np.abs),
    ):
        remedy = "Use softplus(q) and softplus(k), log(1 + exp(x)), as sizes."
        change = lambda call, of=sizes: _sized(call, of, of)  # noqa: E731
        yield "amplitude", f"sizes are {words}", change, remedy
        for what, one, two in (("queries", sizes, _softplus), ("keys", _softplus, sizes)):
            text = f"sizes of {what} are {words.replace('q and k themselves', what)}"
            yield "amplitude", text, lambda call, a=one, b=two: _sized(call, a, b), remedy


@mistakes(FoPE)
def _fope(declared: FoPE) -> Iterator[Change]:
    yield from fope_variants(declared)
    order = interleaved(declared.head_dim)
    change = lambda call: call.replace(q=call.q[..., order], k=call.k[..., order]).terms()  # noqa: E731
    remedy = f"Pair d is the channels d and d + {declared.head_dim // 2}."
    yield "layout", "pairs are interleaved, declared half", change, remedy


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.logaddexp(0, x))


def _sized(
    call: Scored,
    of_q: Callable[[np.ndarray], np.ndarray],
    of_k: Callable[[np.ndarray], np.ndarray],
) -> Parts:
    """Return PoPE's logits with the magnitudes ``of_q(q)`` and ``of_k(k)``."""
    q, k = (size(x)[..., None, :] for size, x in ((of_q, call.q), (of_k, call.k)))
    pairs = q * np.swapaxes(k, -2, -3) * call.scale
    q_at, k_at = call.grid
    waves = call.encoding._cosines(k_at - q_at, call.q)
    terms = np.sum(np.abs(pairs) * (1 + np.abs(waves)), axis=-1)
    return {"content-content": Truth(np.sum(pairs * waves, axis=-1), terms, np.zeros_like(terms))}
