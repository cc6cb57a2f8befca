"""Known mistakes in the terms of a score: offsets, rows of tables, other terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posenc_ref import Score
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake, each_part
from posenc_ref.conformance.diagnosis.position_mistakes import QUERIES, REVERSED_KEYS
from posenc_ref.conformance.harness.run import Run

from . import factors

Terms = dict[str, Truth]


@dataclass(frozen=True)
class Summed:
    """Queries and keys (B, H, S, d) whose logits are a sum of terms; queries end with the keys."""

    encoding: Score
    q: np.ndarray
    k: np.ndarray
    scale: float

    @property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """The positions of queries (Q, 1) and keys (1, K)."""
        n_q, n_k = self.q.shape[2], self.k.shape[2]
        return np.arange(n_k - n_q, n_k)[:, None], np.arange(n_k)[None, :]

    @property
    def visible(self) -> np.ndarray:
        """Keys up to the query, (Q, K)."""
        q_at, k_at = self.places
        return np.asarray(k_at <= q_at)

    @property
    def causal(self) -> bool:
        """Whether the encoding defines nothing for later keys."""
        return not self.encoding.sees_future

    @property
    def declares_future(self) -> bool:
        """Terms are defined for any two positions; whether later keys count is not declared."""
        return False

    def judged_as(self, actual: np.ndarray) -> Summed:
        """The same call: the reference does not depend on the result."""
        return self

    def seen(self, actual: np.ndarray) -> np.ndarray:
        """The part of the logits that is compared: all."""
        return actual

    def terms(self, q_at: Any = None, k_at: Any = None) -> Terms:
        """The terms, at other positions if these are given."""
        at = self.places
        q_at, k_at = at[0] if q_at is None else q_at, at[1] if k_at is None else k_at
        return self.encoding.truths(self.q, self.k, q_at, k_at, self.scale)

    def by_offset(self, change: Callable[[np.ndarray], np.ndarray]) -> Terms:
        """The terms with ``change`` applied to key - query."""
        q_at, k_at = self.places
        r = change(k_at - q_at)
        return self.terms(np.zeros_like(r), r)

    def truth(self) -> Truth:
        """The logits."""
        return total(self.terms(), {})


def total(terms: Terms, by: dict[str, float]) -> Truth:
    """Return the sum of the terms, each times its factor (1 where none is given)."""
    each = [(by.get(name, 1.0), t) for name, t in terms.items()]
    value = sum(f * t.value for f, t in each)
    size = sum(abs(f) * t.terms for f, t in each)
    angle = sum(abs(f) * t.angle for f, t in each)
    return Truth(np.asarray(value), np.asarray(size), np.asarray(angle))


def changed(code: str, message: str, terms: Callable[[Summed], Terms]) -> Mistake:
    """Return the mistake of other ``terms``; one factor for each of them can be fitted."""

    def predicts(by: dict[str, float]) -> Callable[[Summed], Truth | None]:
        def predict(call: Summed) -> Truth | None:
            try:
                return total(terms(call), by)
            except ValueError:  # positions that a table does not have
                return None

        return predict

    def fit(run: Run, wrong: Sequence[JudgedCall]) -> list[Mistake]:
        one = factors.to_fit(wrong)
        call: Summed = one.facts
        try:
            parts = terms(call)
        except ValueError:
            return []
        found = factors.fitted(one, list(parts.values()))
        by = dict(zip(parts, found, strict=False))
        named = factors.of_terms(run, by, call.scale, call.q.shape[-1]) if found else ()
        told = [Mistake(name, text, predicts(by), values=values) for name, text, values in named]
        return [Mistake(code, message, predicts(by)), *told] if code else told

    return Mistake(code, message, predicts({}), fit=fit)


def mistakes_of_any(declared: Score) -> Iterator[Mistake]:
    """Yield the changes that every score encoding may have."""
    if declared.relative:
        yield from _offsets()
    for message, place in QUERIES:
        yield changed("bias-alignment", message, _placed(place))
    yield changed(
        "wrong-row", REVERSED_KEYS, lambda call: call.terms(None, call.places[1][:, ::-1])
    )
    if declared.heads is not None:
        yield changed("head-order", "heads run from the last to the first", _heads)


def _placed(queries: Callable[[int, int], np.ndarray]) -> Callable[[Summed], Terms]:
    return lambda call: call.terms(queries(call.q.shape[2], call.k.shape[2])[:, None])


def _before(call: Summed) -> int:
    """The number of keys before the first query."""
    return int(call.k.shape[2] - call.q.shape[2])


#: Positions that are taken in place of key - query, in words.
ABSOLUTE: tuple[tuple[str, Callable[[Summed], np.ndarray]], ...] = (
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


def absolute(words: str, place: Callable[[Summed], np.ndarray]) -> Mistake:
    """Return the mistake of ``place``, (Q, 1) or (1, K), in place of key - query."""
    return changed(
        "relative-absolute",
        f"what is called relative goes by the {words}",
        lambda call: call.by_offset(lambda r: np.broadcast_to(place(call), r.shape)),
    )


def by_offset(code: str, message: str, change: Callable[[np.ndarray], np.ndarray]) -> Mistake:
    """Return the mistake of a ``change`` of key - query."""
    return changed(code, message, lambda call: call.by_offset(change))


def _offsets() -> Iterator[Mistake]:
    text = "offsets have the opposite sign: each gets the row of its opposite"
    yield by_offset("bucket-sign", text, lambda r: -r)
    for name in ("content-position", "position-content", "position-position"):
        yield changed(
            "bucket-sign",
            f"in the term {name} each offset gets the row of its opposite",
            lambda call, name=name: _one(call, name, lambda r: -r),  # type: ignore[misc]
        )
    for sign in (1, -1):
        text = "an offset and its opposite are treated alike"
        yield by_offset("relative-symmetric", text, lambda r, s=sign: s * np.abs(r))  # type: ignore[misc]
    for by, words in ((1, "late"), (-1, "early")):
        text = f"keys stand one position too {words}"
        yield by_offset("position-origin", text, lambda r, by=by: r + by)  # type: ignore[misc]
    for words, place in ABSOLUTE:
        for sign in (1, -1):
            yield absolute(words, lambda call, of=place, sign=sign: sign * of(call))  # type: ignore[misc]
    yield changed(
        "relative-absolute",
        "what is called relative goes by the key's own position, counted from the last one: "
        "nothing is shifted",
        lambda call: call.terms(np.full((call.q.shape[2], 1), call.k.shape[2] - 1)),
    )
    yield changed(
        "relative-shift",
        "the causal shift is used where the future is seen: later keys get what it leaves there",
        _left_over,
    )


def _one(call: Summed, name: str, change: Callable[[np.ndarray], np.ndarray]) -> Terms:
    """One term with ``change`` applied to key - query, the others as declared."""
    declared = call.terms()
    return declared | {n: t for n, t in call.by_offset(change).items() if n == name in declared}


def _left_over(call: Summed) -> Terms:
    """Transformer-XL's shift without its causal mask: 0 at j = i + 1, then the next query's row."""
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


def other(code: str, message: str, encoding: Score) -> Mistake:
    """Return the mistake of another encoding in place of the declared one."""
    return changed(code, message, lambda call: replace(call, encoding=encoding).terms())


def _heads(call: Summed) -> Terms:
    turned = replace(call, q=call.q[:, ::-1], k=call.k[:, ::-1]).terms()
    back = {name: each_part(t, lambda part: part[:, ::-1]) for name, t in turned.items()}
    plain = call.terms()
    return back | {name: t for name, t in plain.items() if name == "content-content"}
