"""Known mistakes in the terms of a score: offsets, table rows, other terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from posenc_ref import Score
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import each_part
from posenc_ref.conformance.diagnosis.position_mistakes import (
    FLATTENED,
    QUERIES,
    REVERSED_KEYS,
)
from posenc_ref.conformance.oracle.scores import Parts, Scored

from .changed import Change, OfCall

#: What to do about queries at wrong positions.
LAST = "Query i has the position K - Q + i: the last of Q queries is at the last of K keys."


def changes_of_any(declared: Score) -> Iterator[Change]:
    """Yield the changes that are mistakes of every score encoding."""
    if declared.relative:
        yield from _offsets()
    for message, place in QUERIES:
        yield "bias-alignment", message, _placed(place), LAST
    backwards = lambda call: call.terms(None, call.grid[1][:, ::-1])  # noqa: E731
    yield "wrong-row", REVERSED_KEYS, backwards, "Key j has position j: count keys from the first."
    first = "the terms of positions use the queries of the first head, in every head"
    yield "head-order", first, _of_first_head, "Use the queries of head h for head h."
    if declared.heads is not None:
        remedy = "Use the learned numbers of head h for head h."
        yield "head-order", "the heads are in reverse order", _heads, remedy
        for head, of in FLATTENED:
            text = f"batch row b and head h use the learned numbers of head {head}: rows and heads "
            text += "are flattened in different orders"
            yield "head-order", text, partial(_of_flat, of), remedy


def _of_first_head(call: Scored) -> Parts:
    """Return the parts with the queries of head 0 in all but the first, which is of the content."""
    own, other = call.parts(), call.replace(q=0 * call.q + call.q[:, :1]).parts()
    content = next(iter(own))
    return other | {content: own[content]}


def _placed(queries: Callable[[int, int], np.ndarray]) -> OfCall:
    return lambda call: call.terms(queries(call.q.shape[2], call.k.shape[2])[:, None])


#: Positions that may be used in place of key - query, in words and as a function.
ABSOLUTE: tuple[tuple[str, Callable[[Scored], np.ndarray]], ...] = (
    ("key's own position", lambda call: call.grid[1]),
    ("query's own position", lambda call: call.grid[0]),
    ("key's position relative to the first query", lambda call: call.grid[1] - call.grid[0][:1]),
    ("query's position relative to the first query", lambda call: call.grid[0] - call.grid[0][:1]),
)


def absolute(place: Callable[[Scored], np.ndarray]) -> OfCall:
    """Return a function for the terms of a call, with ``place(call)`` used as key - query."""
    return lambda call: call.by_offset(lambda r: np.broadcast_to(place(call), r.shape))


def by_offset(change: Callable[[np.ndarray], np.ndarray]) -> OfCall:
    """Return a function for the terms of a call, with ``change`` applied to key - query."""
    return lambda call: call.by_offset(change)


def _offsets() -> Iterator[Change]:
    remedy = "Reverse the sign of the relative position."
    text = "relative positions have the opposite sign"
    yield "bucket-sign", text, by_offset(lambda r: -r), remedy
    for name in ("content-position", "position-content", "position-position"):
        yield (
            "bucket-sign",
            f"relative positions have the opposite sign in the term {name}",
            lambda call, name=name: _one(call, name, lambda r: -r),
            f"Reverse the sign of the relative position in the term {name}.",
        )
        for by, words in ((1, "large"), (-1, "small")):
            text = f"the positions of keys are 1 too {words} in the term {name}"
            remedy = f"{'Subtract 1 from' if by > 0 else 'Add 1 to'} the positions of keys there."
            yield "position-origin", text, partial(_moved, name, by), remedy
    for name in ("position-content", "content-position"):
        for sign, words in ((-1, "is gathered as (K, Q) and not transposed"), (1, "is transposed")):
            text = f"where Q = K, the term {name} {words}: its keys stand as queries"
            remedy = f"Return the term {name} as (Q, K), in square calls too."
            yield "axis-order", text, partial(_turned, name, sign), remedy
    for sign in (1, -1):
        text = "relative positions r and -r are treated alike"
        remedy = "Keep the sign of key - query: take no absolute value."
        yield "relative-symmetric", text, by_offset(lambda r, s=sign: s * np.abs(r)), remedy  # type: ignore[misc]
    for by, words in ((1, "large"), (-1, "small")):
        text = f"the positions of keys are 1 too {words}"
        remedy = f"{'Subtract 1 from' if by > 0 else 'Add 1 to'} the positions of keys."
        yield "position-origin", text, by_offset(lambda r, by=by: r + by), remedy  # type: ignore[misc]
    for words, place in ABSOLUTE:
        text = f"the {words} is used in place of key - query"
        for sign in (1, -1):
            change = absolute(lambda call, of=place, sign=sign: sign * of(call))  # type: ignore[misc]
            remedy = "Use the relative position of key and query, one for every pair of both."
            yield "relative-absolute", text, change, remedy
    yield (
        "relative-absolute",
        "the key's position relative to the last key is used in place of key - query: the relative "
        "shift is missing",
        lambda call: call.terms(np.full((call.q.shape[2], 1), call.k.shape[2] - 1)),
        "Shift the row of query i by i, so that the last column of its row is its own key.",
    )
    text = "the causal relative shift is applied without a causal mask: later keys have wrong rows"
    remedy = "Use the rows of 2K - 1 offsets, of both signs, if queries see later keys."
    yield "relative-shift", text, _left_over, remedy


def _moved(name: str, by: int, call: Scored) -> Parts:
    return _one(call, name, lambda r: r + by)


def _turned(name: str, sign: int, call: Scored) -> Parts:
    """Return the terms, of which one is transposed in square calls.

    With the sign -1, its rows are those of the opposite offset: the gather of (K, Q) by the table
    of (Q, K) that is left in place.
    """
    declared = call.terms()
    if call.q.shape[2] != call.k.shape[2] or name not in declared:
        return declared
    other = _one(call, name, lambda r: sign * r)[name]
    return declared | {name: each_part(other, lambda part: np.swapaxes(part, -1, -2))}


def _one(call: Scored, name: str, change: Callable[[np.ndarray], np.ndarray]) -> Parts:
    """Return the declared terms, with ``change`` applied to key - query in one of them."""
    declared = call.terms()
    return declared | {n: t for n, t in call.by_offset(change).items() if n == name in declared}


def _left_over(call: Scored) -> Parts:
    """Return the terms after Transformer-XL's relative shift, without the causal mask."""
    n_q, n_k = call.q.shape[2], call.k.shape[2]
    declared = call.terms()
    i, j = np.arange(n_q)[:, None], np.arange(n_k)
    past = j - i - (n_k - n_q)
    row = np.minimum(i + (past > 0), n_q - 1)
    column = np.maximum(np.where(past > 0, past - 2, past + n_k - 1), 0)
    kept = (past <= 0) | (past >= 2)
    distances = np.broadcast_to(np.arange(n_k) - (n_k - 1), (n_q, n_k))
    for name, t in call.by_offset(lambda r: distances).items():
        if name.endswith("-position"):
            declared[name] = each_part(t, lambda p: np.where(kept, p[..., row, column], 0.0))
    return declared


def _heads(call: Scored) -> Parts:
    turned = call.replace(q=call.q[:, ::-1], k=call.k[:, ::-1]).terms()
    back = {name: each_part(t, lambda part: part[:, ::-1]) for name, t in turned.items()}
    plain = call.terms()
    return back | {name: t for name, t in plain.items() if name == "content-content"}


def _of_flat(of: Callable[..., np.ndarray], call: Scored) -> Parts:
    """Return the terms with the learned numbers of other heads, which differ between batch rows."""
    n_b, n_h = call.q.shape[:2]
    if n_b == 1 or n_h == 1:
        return call.parts()
    rows = np.arange(n_b)
    heads = of(*np.indices((n_b, n_h)), n_b, n_h)
    each = [
        call.replace(**{
            side: np.broadcast_to(x[:, h : h + 1], x.shape)
            for side, x in (("q", call.q), ("k", call.k))
        }).terms()
        for h in range(n_h)
    ]  # fmt: skip

    def taken(name: str, part: str) -> np.ndarray:
        shape = (n_b, n_h, call.q.shape[2], call.k.shape[2])
        found = (np.broadcast_to(getattr(t[name], part), shape) for t in each)
        return np.stack([t[rows, heads[:, h]] for h, t in enumerate(found)], axis=1)

    return {
        name: Truth(*(taken(name, part) for part in ("value", "terms", "angle")))
        for name in each[0]
    }
