"""Compare biases, slopes, buckets and logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.harness.driver import Malformed
from posenc_ref.conformance.harness.probes import HEADS, LENGTHS, MORE_HEADS
from posenc_ref.conformance.identify.card import Card
from posenc_ref.conformance.identify.logits import Logits
from posenc_ref.conformance.oracle.apply import exactly, identical

from .comparison import CONTEXTS
from .side import Side, Two

#: Values up to this count as masked.
_MASK = -1e4
#: Calls of one query with the keys of a long context.
_DECODED = tuple((1, n) for n in CONTEXTS)
#: Relative positions: every near one, and some far ones.
_OFFSETS = np.unique(
    np.concatenate([np.arange(-2100, 2101), *(s * 2 ** np.arange(18) for s in (-1, 1))])
)
#: The shapes of calls for logits: square, decoding, and longer ones.
_SCORED = ((5, 5), (1, 7), (3, 11), (16, 64), (64, 64), (1, 256), (1, 2050), *_DECODED)
#: The most numbers in one result.
_MOST = 2**25


def compare_biases(two: Two) -> None:
    """Compare ``fn(q_len, k_len)``; elements that B masks are not judged."""
    heads = 0

    def ask(side: Side, q_len: int, k_len: int) -> np.ndarray:
        values = side.run.driver.array(side.run.driver.call(q_len, k_len))
        while values.ndim > 3 and values.shape[0] == 1:
            values = values[0]
        n = max(heads, values.shape[0] if values.ndim == 3 else 1)
        try:
            return np.array(np.broadcast_to(values, (n, q_len, k_len)), np.float64)
        except ValueError:
            raise Malformed(f"expected (H, {q_len}, {k_len}), got {values.shape}") from None

    heads = max(ask(side, *LENGTHS[0]).shape[0] for side in (two.a, two.b))
    lengths = (*LENGTHS, *(pair for pair in _DECODED if heads * pair[1] <= _MOST))
    _judge_logits(two, ask, lengths, lambda q, k: exactly)


def compare_scores(two: Two, card: Card) -> None:
    """Compare ``fn(q, k) -> logits``, with the same random q and k in every head."""
    dim = two.run.settings.head_dim or 0
    asked = [Logits(side.run, dim) for side in (two.a, two.b)]
    for logits in asked:
        logits.learn()
    heads = max(one.heads for one in asked)
    for logits in asked:
        logits.heads = heads
    fastest = np.abs(card.frequencies).max(initial=0.0)

    def ask(side: Side, q_len: int, k_len: int) -> np.ndarray:
        q = two.run.random((1, q_len, dim), 40)
        k = two.run.random((1, k_len, dim), 41)
        return np.asarray(asked[side is two.b].of(q, k)[0])

    def unit(q_len: int, k_len: int) -> Callable[[np.ndarray], Truth]:
        size = dim * abs(card.softmax_scale or dim**-0.5)

        def truth(value: np.ndarray) -> Truth:
            terms = size + np.abs(value)
            return Truth(value, terms, terms * min(k_len, 64) * fastest)

        return truth

    lengths = [n for n in _SCORED if n[0] == n[1] or (asked[0].short and asked[1].short)]
    two.difference.inputs = " of random q and k"
    _judge_logits(two, ask, [n for n in lengths if n[1] * dim * heads <= _MOST], unit)


def _judge_logits(
    two: Two,
    ask: Callable[[Side, int, int], np.ndarray],
    lengths: Sequence[tuple[int, int]],
    unit: Callable[[int, int], Callable[[np.ndarray], Truth]],
) -> None:
    """Judge numbers (H, Q, K) that are added to logits, or are logits."""
    d, up_to_constant = two.difference, True
    most = two.run.settings.up_to(2**40) + 1
    for q_len, k_len in (pair for pair in lengths if pair[1] <= most):
        case = f"q_len {q_len}, k_len {k_len}"
        found = two.called(lambda s, n=(q_len, k_len): ask(s, *n), case, (q_len, k_len) == (5, 5))  # type: ignore[misc]
        if found is None:
            if two.run.report.codes:
                return
            continue
        actual, expected = found
        live = np.isfinite(expected) & (expected > _MASK)
        if not live.any():
            continue
        got, wanted = np.where(live, actual, 0.0), np.where(live, expected, 0.0)
        truth = unit(q_len, k_len)(wanted)
        two.run.reached(k_len - 1)
        after = np.arange(k_len) > np.arange(k_len - q_len, k_len)[:, None]
        if two.judge_values(case, np.where(after, wanted, got), truth, live):
            _judge_later(two, case, got, truth, live & after)
        off = np.where(live, got - wanted, np.nan)
        middle = np.nanmedian(off, axis=-1, keepdims=True)
        moved = np.where(live, got - np.nan_to_num(middle), 0.0)
        size = Truth(wanted, truth.terms + np.abs(np.nan_to_num(middle)), truth.angle)
        size = two.widened(size)
        up_to_constant = up_to_constant and bool(
            (np.where(live, two.run.scores(moved, size), 0.0) <= two.run.budget).all()
        )
        seen = np.abs(np.nan_to_num(off[:, -1])).max(axis=0)  # by the last query
        if q_len == 1 and k_len in CONTEXTS:
            d.errors[k_len] = float(seen.max())
        over = np.flatnonzero(~(seen[::-1] <= two.visible))
        if over.size and (d.first is None or over[0] < d.first):
            d.first, d.every = int(over[0]), True
    d.what = "distance"
    d.logits = up_to_constant
    d.constant = bool(two.run.failures) and up_to_constant


def _judge_later(two: Two, case: str, actual: np.ndarray, truth: Truth, later: np.ndarray) -> None:
    """Judge the keys after the query."""
    if not two.judge_values(f"{case}, keys after the query", actual, truth, later):
        masked = not (np.isfinite(actual[later]) & (actual[later] > _MASK)).any()
        two.run.add(
            "future-keys",
            f"keys after the query {'are masked' if masked else 'get another bias'}, but B gives "
            "them a bias",
            case,
        )


def compare_slopes(two: Two) -> None:
    """Compare ``fn(num_heads) -> (H,)`` for every number of heads that both functions accept."""
    d, worst = two.difference, 0.0
    tried: set[int] = set()
    for n in sorted({*HEADS, *MORE_HEADS}):
        found = two.called(lambda s, n=n: s.run.driver.array(s.run.driver.call(n)), f"{n} heads")  # type: ignore[misc]
        if found is None:
            continue
        actual, expected = found
        two.judge_values(f"{n} heads", actual, exactly(expected))
        off = float(np.abs(actual - expected).max())
        worst = max(worst, off)
        if off > two.visible and d.first is None:
            d.first, d.every = n, tried.issuperset(range(1, n))
        tried.add(n)
    if not d.calls:
        raise ValueError(
            "A and B accept no number of heads in common, of those that were tried (1 .. 257): "
            "compare them on surface 'bias'"
        )
    d.what = "number of heads"
    d.inputs = " (difference of slopes times the distance)"
    d.errors = {n: worst * (n - 1) for n in CONTEXTS}
    d.logits = not two.run.failures


def compare_buckets(two: Two) -> None:
    """Compare ``fn(key - query) -> integers``."""
    at = _OFFSETS[np.abs(_OFFSETS) <= two.run.settings.up_to(2**40)]
    for reach in (int(np.abs(at).max()), 512, 64, 8):
        r = at[np.abs(at) <= reach]
        case = f"relative positions {r[0]} .. {r[-1]}"
        call = lambda s, r=r: s.run.driver.array(s.run.driver.call(r))  # noqa: E731
        found = two.called(call, case, reach == 8)
        if found is not None:
            break
    else:
        return
    actual, expected = found
    two.judge_values(case, actual.astype(np.float64), identical(expected))
    off = np.abs(r[actual != expected])
    d = two.difference
    d.what, d.first = "distance", int(off.min()) if off.size else None
    d.every = d.first is not None and bool(np.isin(np.arange(d.first), np.abs(r)).all())
    two.run.reached(int(np.abs(r).max()))
