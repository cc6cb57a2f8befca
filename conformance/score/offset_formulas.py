"""The formulas of scores with relative positions, in steps that may be computed differently."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from posenc_ref import DeBERTa, ESPnetLegacy, Shaw, TransformerXL
from posenc_ref.conformance.diagnosis.steps import Steps
from posenc_ref.conformance.oracle.scores import Scored

from .formula_parts import Terms, at_rows, content, of_rows, offsets
from .registered import formula


def _deberta_bucket(e: DeBERTa, r: Any, s: Steps) -> Any:
    span = e.span
    if e.buckets is None or e.max_position is None:
        return s.clip("the offset", r, -span, span)
    mid = e.buckets // 2
    code = "bucket-spacing"
    top = s.pick(
        "the range of the logarithm",
        (e.max_position - 1) / mid,
        (code, "is max_position / mid, not (max_position - 1) / mid", e.max_position / mid),
        (code, "is (max_position - 1) / buckets", (e.max_position - 1) / e.buckets),
        (code, "is max_position - 1", e.max_position - 1.0),
        (code, "is max_position", 1.0 * e.max_position),
        right=f"Divide the logarithm of |r| / mid by log((max_position - 1) / mid), mid = {mid}.",
    )
    steps = s.number("the number of logarithmic buckets", mid - 1, code)
    size = np.abs(r)
    last = e.max_position - 1
    within = s.pick(
        "|r| in the logarithm",
        np.maximum(size, 1),
        (code, f"is limited to max_position - 1 = {last}", np.clip(size, 1, last)),
        (code, f"is limited to max_position = {last + 1}", np.clip(size, 1, last + 1)),
        right="Do not limit |r|: offsets past max_position have larger buckets, up to the clamp.",
    )
    ratio = s.real("the quotient |r| / mid", within / mid)
    with np.errstate(all="ignore"):
        logged = s.pick(
            "the argument of the logarithm",
            np.log(ratio),
            (code, "is |r|, not |r| / mid", np.log(ratio * mid)),
            right=f"Take the logarithm of |r| / {mid}.",
        )
        share = s.pick(
            "the share of the logarithmic buckets",
            s.real("log(|r| / mid)", logged) / np.log(top),
            (code, f"is log |r| / log(max_position - 1), without the division of both by {mid}",
             np.log(ratio * mid) / np.log(e.max_position - 1)),
            (code, f"is log |r| / log(max_position), without the division of both by {mid}",
             np.log(ratio * mid) / np.log(e.max_position)),
            right=f"Use log(|r| / {mid}) / log((max_position - 1) / {mid}).",
        )  # fmt: skip
        logged = share * steps
    far = s.rounded("the logarithmic bucket", logged, "ceil") + mid
    start = s.number("the last offset with a bucket of its own", mid, code)
    bucket = np.where(size <= start, size, far) * np.sign(r)
    return s.pick(
        "the bucket",
        bucket,
        (code, "of small offsets is logarithmic too", far * np.sign(r)),
        (code, "is the offset itself, without a logarithm", r),
        right=f"Give offsets up to {mid} a bucket of their own; larger ones get a "
        "logarithmic bucket.",
    )


@formula(DeBERTa)
def deberta(call: Scored, s: Steps) -> Terms:
    """Return the terms of DeBERTa."""
    e: DeBERTa = call.encoding
    span = e.span

    def row(r: Any) -> Any:
        shift = s.number("the row of offset 0", span, "table-offset")
        text = "the row of the table"
        clamped = s.clip(text, _deberta_bucket(e, r, s) + shift, 0, 2 * span - 1)
        wrapped = f"is that of the plain offset, modulo {2 * span}, in place of being clamped"
        return s.pick(
            text,
            clamped,
            ("bucket-clamp", wrapped, (r + span) % (2 * span)),
            right=f"Clamp the bucket + {span} to 0 .. {2 * span - 1}.",
        )

    found = {"content-content": content(call)}
    r = offsets(call, s)
    if e.relative_keys is not None:
        keys = s.array("relative_keys", e.relative_keys, ("head", "row", "channel"))
        here = s.number("the offset query - key of content-position", r)
        found["content-position"] = at_rows(call.q @ of_rows(keys), row(here)) * call.scale
    if e.relative_queries is not None:
        queries = s.array("relative_queries", e.relative_queries, ("head", "row", "channel"))
        here = s.number("the offset query - key of position-content", r)
        back = row(here if e.p2c == "code" else -here)
        by_row = call.k @ of_rows(queries)
        found["position-content"] = np.swapaxes(at_rows(by_row, back.T), -1, -2) * call.scale
    return found


def _wrapped_rows(r: Any, before: int, after: int) -> Iterator[tuple[str, str, Any]]:
    """Yield the rows of bounds and a shift of the other side; rows outside the table wrap round."""
    count = before + after + 1
    for low, high, shift in product(
        {before, after}, {before, after, before + 1, after + 1}, {before, after, 0}
    ):
        if shift == before and low == before and high == after:
            continue
        if shift - low >= 0 and shift + high < count:
            continue  # all rows are inside the table: the changed bounds cover it
        words = (
            f"is the relative position clamped to -{low} .. {high}, "
            + (f"plus {shift}" if shift else f"to which {before} is not added")
            + f", and row {shift - low if shift < low else shift + high}"
            + f" of the {count} rows wraps round"
        )
        yield "bucket-clamp", words, (np.clip(r, -low, high) + shift) % count


@formula(Shaw)
def shaw(call: Scored, s: Steps) -> Terms:
    """Return the terms of Shaw."""
    e: Shaw = call.encoding
    keys = np.asarray(e.keys, np.float64)
    axes = ("head", "row", "channel")[-keys.ndim :]
    r = -offsets(call, s)
    r = r if e.counted == "key-query" else -r
    last = keys.shape[-2] - 1 - e.before
    row = s.clip("the relative position", r, -e.before, last) + e.before
    row = s.pick(
        "the row of the table",
        row,
        *_wrapped_rows(r, e.before, last),
        (
            "bucket-clamp",
            f"is the relative position clamped to -{last} .. {e.before}, plus {last}: the numbers "
            "of rows before and after are exchanged",
            np.clip(r, -last, e.before) + last,
        ),
        (
            "table-offset",
            f"is the relative position modulo {last + e.before + 1}",
            r % (last + e.before + 1),
        ),
        right=f"Clamp the relative position to -{e.before} .. {last} and add {e.before}.",
    )
    table = of_rows(s.array("the table", keys, axes))
    term = at_rows(call.q @ table, row) * call.scale

    def of_key() -> np.ndarray:
        """Return the term with the keys in place of the queries."""
        by_key = at_rows(call.k @ table, np.swapaxes(row, 0, 1))
        return np.asarray(np.swapaxes(by_key, -1, -2) * call.scale)

    beyond = (r < -e.before) | (r > last)
    term = s.pick(
        "the position term",
        term,
        ("score-term", "is k . a, not q . a: the rows multiply the keys", of_key),
        ("score-term", "is (q + k) . a: the rows multiply queries and keys",
         lambda: term + of_key()),
        ("bucket-clamp", "is 0 beyond the table, in place of that of its last rows",
         np.where(beyond, 0.0, term)),
        right="Add q . a of the row of key - query, clamped to the table.",
    )  # fmt: skip
    return {"content-content": content(call), "content-position": term}


@formula(TransformerXL)
def transformer_xl(call: Scored, s: Steps) -> Terms:
    """Return the terms of Transformer-XL."""
    e: TransformerXL = call.encoding
    r = offsets(call, s)
    q_at, k_at = call.grid
    r = s.pick(
        "the distance query - key",
        r,
        ("relative-shift", "is 1 too small for keys after the query", np.where(r < 0, r - 1, r)),
        ("relative-shift", "is 1 too large for keys after the query", np.where(r < 0, r + 1, r)),
        right="Use the sinusoid of query - key for keys after the query too.",
    )
    if e.clamp is not None:
        r = s.clip("the distance query - key", r, -e.clamp, e.clamp)
    table = np.asarray(e.sinusoid.table(np.asarray(r, np.float64)), np.float64)
    halves = s.pick(
        "the vectors R",
        table,
        ("future-keys", "of keys after the query are 0", table * (q_at >= k_at)[..., None]),
        ("wrong-row", "of all queries are those of the last query", 0 * table + table[-1:]),
        right="Use R(query - key) for every query and key, later keys included.",
    )
    projection = s.array("projection", e.projection, ("head", "channel", "column"))

    def projected(x: np.ndarray) -> np.ndarray:
        return np.asarray(np.einsum("bhqc,qkc->bhqk", x @ projection, halves, optimize=True))

    own = projected(call.q)
    after, later = q_at == k_at - 1, q_at < k_at - 1
    following = projected(np.concatenate([call.q[:, :, 1:], call.q[:, :, -1:]], axis=2))
    code = "relative-shift"
    own = s.pick(
        "the position term of keys after the next one",
        own,
        (code, "multiplies the query of the next row", np.where(later, following, own)),
        (code, "multiplies the query of the next row, and that of the next key is 0",
         np.where(later, following, np.where(after, 0.0, own))),
        right="Multiply R(query - key) by the query's own row for later keys too: shift the "
        "product with the vectors of both signs.",
    )  # fmt: skip
    found = {"content-content": content(call), "content-position": own * call.scale}
    u, v = e.content_bias, e.position_bias
    none = np.zeros(np.asarray(e.projection).shape[:2])
    both = [none if x is None else np.asarray(x, np.float64) for x in (u, v)]
    axes, code = ("head", "channel"), "wrong-row"
    first = s.array("content_bias u", both[0], axes)
    second = s.array("position_bias v", both[1], axes)
    first = s.pick(
        "content_bias u",
        first,
        (code, "is replaced by position_bias v", second),
        right="Add content_bias u to the queries in the content term, q . k.",
    )
    second = s.pick(
        "position_bias v",
        second,
        (code, "is replaced by content_bias u", both[0]),
        right="Add position_bias v to the queries in the position term, q . R.",
    )
    if u is not None:
        found["position-content"] = (
            first[:, None, :] @ np.swapaxes(call.k, -1, -2) * call.scale
            + 0 * found["content-content"]
        )
    if v is not None:
        wide = np.broadcast_to(second[:, None, :], call.q.shape)
        found["position-position"] = projected(wide) * call.scale
    return found


@formula(ESPnetLegacy)
def espnet(call: Scored, s: Steps) -> Terms:
    """Return the terms of ESPnet's legacy encoding."""
    e: ESPnetLegacy = call.encoding
    q_at, k_at = np.broadcast_arrays(*call.grid)
    n_q, n_k = q_at.shape
    code = "position-origin"
    rows = s.pick(
        "the number of rows of the table",
        max(e.max_len, n_k),
        (code, f"stays {e.max_len} for more keys: the table is not enlarged", e.max_len),
        (code, "is the number of keys, also of fewer than max_len", n_k),
        right=f"Use max({e.max_len}, number of keys) rows, the last position first.",
    )
    past = q_at - k_at
    first = s.number("the row of distance 0", rows - n_k, "position-origin")
    later = s.number("the row of keys after the query", rows + 1 + past)
    none = past == -1
    at = np.where(past >= 0, first + past, later)
    table = np.asarray(e.sinusoid.table(np.asarray(at, np.float64)), np.float64)
    table = (
        table
        * ~s.pick(
            "the key after the query",
            none,
            ("relative-shift", "has a position term, declared 0", np.zeros_like(none)),
            right="Leave out the position term of the key right after the query: the "
            "legacy shift puts 0 there.",
        )[..., None]
    )
    projection = s.array("projection", e.projection, ("head", "channel", "column"))
    own = np.broadcast_to(np.arange(n_q)[:, None], (n_q, n_k))
    used = s.pick(
        "the query of keys two or more places after it",
        np.where(past < -1, np.minimum(own + 1, n_q - 1), own),
        ("relative-shift", "is the query itself, not the next one", own),
        right="Use the next query for keys two or more places after the query, as the "
        "legacy shift does.",
    )
    v = e.position_bias
    x = call.q if v is None else call.q + np.asarray(v, np.float64)[:, None, :]
    wide = x @ projection
    moved = np.stack(
        [np.einsum("bhkc,kc->bhk", wide[:, :, used[i]], table[i]) for i in range(n_q)], 2
    )
    found = {"content-content": content(call), "content-position": moved * call.scale}
    if e.content_bias is not None:
        u = s.array("content_bias u", e.content_bias, ("head", "channel"))
        bias = u[:, None, :] @ np.swapaxes(call.k, -1, -2) * call.scale
        found["position-content"] = bias + 0 * found["content-content"]
    return found
