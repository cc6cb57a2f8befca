"""What the terms of a score are known to get wrong, each a complete prediction of every term.

The factors of the terms are fitted by the judge; here are offsets of another sign, clipping or
alignment, tables read in another order, and terms that are another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posenc_ref import Score
from posenc_ref.accuracy import Truth

Terms = dict[str, Truth]


@dataclass(frozen=True)
class Call:
    """Queries and keys (B, H, S, d) of one call, queries at the end of the keys."""

    encoding: Score
    q: np.ndarray
    k: np.ndarray
    scale: float

    @property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """Where queries (Q, 1) and keys (1, K) stand."""
        n_q, n_k = self.q.shape[2], self.k.shape[2]
        return np.arange(n_k - n_q, n_k)[:, None], np.arange(n_k)[None, :]

    @property
    def visible(self) -> np.ndarray:
        """Keys up to the query, (Q, K)."""
        q_at, k_at = self.places
        return np.asarray(k_at <= q_at)

    @property
    def causal(self) -> bool:
        """Whether the encoding says nothing of later keys."""
        return not self.encoding.sees_future

    @property
    def declares_future(self) -> bool:
        """Terms are defined for any two positions; whether later keys count is not declared."""
        return False

    def judged_as(self, actual: np.ndarray) -> Call:
        """The same call, knowing what came out."""
        return self

    def seen(self, actual: np.ndarray) -> np.ndarray:
        """What is compared of logits that came out."""
        return actual

    def terms(self, q_at: Any = None, k_at: Any = None) -> Terms:
        """The terms, at other places if these are given."""
        at = self.places
        q_at, k_at = at[0] if q_at is None else q_at, at[1] if k_at is None else k_at
        return self.encoding.truths(self.q, self.k, q_at, k_at, self.scale)

    def by_offset(self, change: Callable[[np.ndarray], np.ndarray]) -> Terms:
        """The terms with ``change`` done to key - query."""
        q_at, k_at = self.places
        r = change(k_at - q_at)
        return self.terms(np.zeros_like(r), r)

    def truth(self) -> Truth:
        """The logits."""
        return total(self.terms(), {})


def total(terms: Terms, factors: dict[str, float]) -> Truth:
    """The sum of the terms, each times its factor (1 where none is given)."""
    each = [(factors.get(name, 1.0), t) for name, t in terms.items()]
    value = sum(f * t.value for f, t in each)
    size = sum(abs(f) * t.terms for f, t in each)
    angle = sum(abs(f) * t.angle for f, t in each)
    return Truth(np.asarray(value), np.asarray(size), np.asarray(angle))


@dataclass(frozen=True)
class Change:
    """A change of the declaration; no code where nothing but factors can be wrong."""

    code: str
    message: str
    terms: Callable[[Call], Terms]


def changes(declared: Score) -> Iterator[Change]:
    """One change of the declaration each, of those that any encoding has."""
    if declared.relative:
        yield from _offsets(declared)
    yield from _places()
    if declared.heads is not None:
        yield Change("head-order", "heads run from the last to the first", _heads)


def _before(call: Call) -> int:
    """How many keys stand before the first query."""
    return int(call.k.shape[2] - call.q.shape[2])


#: What is not relative, by whose own number it goes.
ABSOLUTE: tuple[tuple[str, Callable[[Call], np.ndarray]], ...] = (
    ("key's own position", lambda call: call.places[1]),
    ("query's own position", lambda call: call.places[0]),
    (
        "key's own position, counted from the first query",
        lambda call: call.places[1] - _before(call),
    ),
    (
        "query's own position, counted from the first query",
        lambda call: call.places[0] - _before(call),
    ),
)


def absolute(words: str, place: Callable[[Call], np.ndarray]) -> Change:
    """``place``, (Q, 1) or (1, K), in the place of key - query."""
    return Change(
        "relative-absolute",
        f"what is called relative goes by the {words}",
        lambda call: call.by_offset(lambda r: np.broadcast_to(place(call), r.shape)),
    )


def _offsets(declared: Score) -> Iterator[Change]:
    def by_offset(code: str, message: str, change: Callable[[np.ndarray], np.ndarray]) -> Change:
        return Change(code, message, lambda call: call.by_offset(change))

    yield by_offset(
        "bucket-sign",
        "offsets have the opposite sign: each gets the row of its opposite",
        lambda r: -r,
    )
    for name in ("content-position", "position-content", "position-position"):
        yield Change(
            "bucket-sign",
            f"in the term {name} each offset gets the row of its opposite",
            lambda call, name=name: _one(call, name, lambda r: -r),  # type: ignore[misc]
        )
    yield by_offset("relative-symmetric", "an offset and its opposite are treated alike", np.abs)
    yield by_offset(
        "relative-symmetric", "an offset and its opposite are treated alike", lambda r: -np.abs(r)
    )
    for sign, words in ((1, "late"), (-1, "early")):
        yield by_offset(
            "position-origin",
            f"keys stand one position too {words}",
            lambda r, sign=sign: r + sign,  # type: ignore[misc]
        )
    for words, place in ABSOLUTE:
        for sign in (1, -1):
            yield absolute(words, lambda call, of=place, sign=sign: sign * of(call))  # type: ignore[misc]
    yield Change(
        "relative-absolute",
        "what is called relative goes by the key's own position, counted from the last one: "
        "nothing is shifted",
        lambda call: call.terms(np.full((call.q.shape[2], 1), call.k.shape[2] - 1)),
    )
    yield Change(
        "relative-shift",
        "the causal shift is used where the future is seen: later keys get what it leaves there",
        _left_over,
    )


def _places() -> Iterator[Change]:
    yield Change(
        "bias-alignment",
        "queries are counted from 0, although keys stand before them",
        lambda call: call.terms(np.arange(call.q.shape[2])[:, None]),
    )
    yield Change(
        "bias-alignment",
        "every query has the position of the last one",
        lambda call: call.terms(np.full((call.q.shape[2], 1), call.k.shape[2] - 1)),
    )
    yield Change(
        "wrong-row",
        "keys stand in the reverse order",
        lambda call: call.terms(None, call.places[1][:, ::-1]),
    )


def _one(call: Call, name: str, change: Callable[[np.ndarray], np.ndarray]) -> Terms:
    """One term with ``change`` done to key - query, the others as declared."""
    declared = call.terms()
    return declared | {n: t for n, t in call.by_offset(change).items() if n == name in declared}


def _left_over(call: Call) -> Terms:
    """Transformer-XL's shift without its causal mask: 0 at j = i + 1, then the next query's row."""
    n_q, n_k = call.q.shape[2], call.k.shape[2]
    declared = call.terms()
    i, j = np.arange(n_q)[:, None], np.arange(n_k)
    past = j - i - (n_k - n_q)
    row = np.minimum(i + (past > 0), n_q - 1)
    column = np.where(past > 0, past - 2, past + n_k - 1)
    distances = np.broadcast_to(np.arange(n_k) - (n_k - 1), (n_q, n_k))
    for name, t in call.by_offset(lambda r: distances).items():
        if name.endswith("-position"):
            kept = (past <= 0) | (past >= 2)
            parts = (t.value, t.terms, t.angle)
            declared[name] = Truth(
                *(np.where(kept, part[..., row, np.maximum(column, 0)], 0.0) for part in parts)
            )
    return declared


def other(code: str, message: str, encoding: Score) -> Change:
    """Another encoding in the place of the declared one."""
    return Change(code, message, lambda call: replace(call, encoding=encoding).terms())


def _heads(call: Call) -> Terms:
    turned = replace(call, q=call.q[:, ::-1], k=call.k[:, ::-1]).terms()
    plain = call.terms()
    found = {}
    for name, t in turned.items():
        back = Truth(t.value[:, ::-1], t.terms[:, ::-1], t.angle[:, ::-1])
        found[name] = plain[name] if name == "content-content" else back
    return found
