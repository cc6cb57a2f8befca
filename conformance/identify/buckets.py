"""Identify a bucket function: the first distance of each bucket, and T5's parameters."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from posenc_ref import DeBERTa, T5Bias
from posenc_ref.conformance.bias.bucket_model import starts
from posenc_ref.conformance.bias.cases import ask
from posenc_ref.conformance.harness.run import Run

from .card import Card, Unidentified, require_same
from .fit.measurement import equal_range

#: Increasing distances and the bucket of each.
Side = tuple[np.ndarray, np.ndarray]

#: Up to this distance, identify tries every relative position; beyond it, only some.
_NEAR = 2100
_FAR = np.array([4096, 8191, 16384, 32768, 65536, 131071])
#: The largest max_distance to report.
_MOST = 2**31
#: The share of the distances that a rule with one wrong boundary gets wrong at most.
_FEW = 0.05
_NO_TABLE = "the function returns no biases: the table of the encoding is set to zeros"
#: Values of DeBERTa's max_position to try, if no bucket shows it.
_POSITIONS = (512, 256, 1024, 2048, 128, 4096, 384, 768)
#: The most buckets of one direction.
_LARGEST = 512
#: Usual values of max_distance, tried first.
_USUAL = (128, 256, 64, 512, 1024, 20, 32, 48, 96, 160, 320, 800, 2048, 100, 200, 1000)


def identify(run: Run, card: Card) -> None:
    """Fill in the identity card of ``fn(key - query) -> integers``."""
    r, b = _ask(run)
    own = int(b[r == 0][0])
    past, later = (-r[r < 0][::-1], b[r < 0][::-1]), (r[r > 0], b[r > 0])
    card.facts["buckets"] = f"{np.unique(b).size} in use, {b.min()} .. {b.max()}; bucket(0) = {own}"
    card.facts["earlier keys"], card.facts["later keys"] = _words(*past), _words(*later)
    if not np.ptp(past[1]) and np.ptp(later[1]):
        card.facts["direction"] = (
            "the bucket grows with the distance of later keys: is the argument query minus key?"
        )
        past, later = later, past
    found = t5_rule(past, later) if own == 0 else None
    if found is None:
        card.function = _deberta(r, b, card)
        if card.function:
            return
        near = _near_miss(r, b)
        if near is not None:
            card.encoding = near
            card.unknown.append(_NO_TABLE)
            return
        raise Unidentified("T5's rule does not give these buckets, whatever its max_distance")
    card.encoding, relations = found
    card.relations += relations
    card.unknown.append(_NO_TABLE)


def _deberta(r: np.ndarray, b: np.ndarray, card: Card) -> str:
    """Return DeBERTa's log buckets with the measured sizes, or an empty string."""
    sign = int(b[r == 1][0])
    if abs(sign) != 1 or (b[::-1] != -b).any():
        return ""
    e = log_rule(r, sign * b)
    if e is None or e.max_position is None:
        return ""
    way = "query minus key" if sign > 0 else "key minus query"
    if np.abs(r).max() >= e.max_position:
        clipped = np.array_equal(e.bucket(r), sign * b)
        card.facts["beyond"] = (
            f"distances from {e.max_position} on share a bucket" if clipped
            else f"buckets go on past {e.buckets}: the caller has to clip them"
        )  # fmt: skip
    return (
        f"DeBERTa's bucket, with buckets={e.buckets} and max_position={e.max_position}, of its "
        f"argument (DeBERTa passes {way})"
    )


def log_rule(r: np.ndarray, b: np.ndarray) -> DeBERTa | None:
    """Return DeBERTa with the log buckets ``b`` of query minus key, or None.

    Beyond its ``max_position``, buckets may be anything. Its table is of zeros.
    """
    later = np.flatnonzero((r > 0) & (b != r))
    if not later.size:
        return None
    last = int(r[later].min()) - 1
    for mid in (m for m in (last, *range(last, 1, -1)) if m & (m - 1) == 0 or m == last):
        table = np.zeros((1, 4 * mid, 1))
        ends = np.abs(r)[np.abs(b) == 2 * mid]  # the first one is max_position
        for most in (*ends[ends.argsort()][:1].tolist(), *_POSITIONS):
            near = np.abs(r) < most
            if most < mid + 2 or np.abs(r[near]).max() <= last:
                continue
            e = DeBERTa(table, None, buckets=2 * mid, max_position=most)
            if np.array_equal(e.bucket(r[near]), b[near]):
                return e
    return None


def _near_miss(r: np.ndarray, b: np.ndarray) -> T5Bias | None:
    """Return the T5 rule with as many buckets that gives nearly all of them, or None."""
    rated: list[tuple[float, int, T5Bias]] = []
    for number in {32, 64, 16, 128, int(b.max()) + 1}:
        for both in (False, True):
            for distance in _USUAL:
                with suppress(ValueError):
                    e = T5Bias(
                        np.zeros((number, 1)), num_buckets=number, max_distance=distance,
                        bidirectional=both,
                    )  # fmt: skip
                    rated.append((float((np.asarray(e.bucket(r)) != b).mean()), len(rated), e))
    share, _, found = min(rated)
    return found if share <= _FEW else None


def _ask(run: Run) -> Side:
    """Return relative positions and their buckets, in a shorter range if a call fails."""
    for reach in (_NEAR, 512, 64, 8):
        reach = run.settings.up_to(reach)
        r = np.arange(-reach, reach + 1)
        if reach == _NEAR:
            r = np.concatenate([-_FAR[::-1], r, _FAR])
        answer = ask(run.driver, r)
        if answer.values is not None:
            break
    b = answer.values
    if b is None:
        raise Unidentified(f"every call fails: {answer.problem}")
    if b.shape != r.shape:
        raise Unidentified(f"expected buckets of shape {r.shape}, got {b.shape}")
    if not np.array_equal(b, np.trunc(b)) or not np.isfinite(b).all():
        raise Unidentified("the buckets are not integers")
    require_same(b, ask(run.driver, r).values)
    run.ledger.highest = int(np.abs(r).max())
    return r, b.astype(np.int64)


def _words(n: np.ndarray, b: np.ndarray) -> str:
    if not np.ptp(b):
        return f"all in bucket {b[0]}"
    at = n[1:][np.diff(b) != 0].tolist()
    exact = next((k for k, n in enumerate(at) if n != k + 2), len(at))
    rest = ", ".join(map(str, at[exact : exact + 16])) + (", ..." if len(at) > exact + 16 else "")
    parts = [f"buckets {b.min()} .. {b.max()}"]
    if exact:
        parts.append(f"distances 1 .. {exact + 1} have one bucket each")
    if rest:
        parts.append(f"{'further ' if exact else ''}buckets start at distance {rest}")
    return "; ".join(parts)


def _thresholds(n: np.ndarray, b: np.ndarray) -> tuple[int, ...]:
    """Return the first distance of bucket 1, 2, ..., or () if buckets fall or start above 1."""
    steps = np.diff(b, prepend=0)
    if (steps < 0).any() or (b[n == 1] > 1).any():
        return ()
    return tuple(np.repeat(n, steps).tolist())


def t5_rule(past: Side, later: Side) -> tuple[T5Bias, tuple[str, ...]] | None:
    """Return T5's parameters and the range of max_distance, or None if the rule is not T5's."""
    seen = _thresholds(*past)
    if not seen:
        return None
    size = len(seen) + 1
    distances, b = later
    both = bool(b.size) and bool(b.min() >= size)
    if both:
        ahead = _thresholds(distances, b - size)
        if ahead != seen[: len(ahead)] or (distances[-1] >= seen[-1] and len(ahead) < len(seen)):
            return None
    elif b.any():
        return None
    found = _max_distance(seen, size)
    if found is None:
        return None
    usual, low, high = found
    number = 2 * size if both else size
    upto = f"from {low} to {high}" if high < _MOST else f"from {low} on"
    relations = (f"any max_distance {upto} gives the same buckets",) if low < high else ()
    table = np.zeros((number, 1))
    return T5Bias(table, num_buckets=number, max_distance=usual, bidirectional=both), relations


def _max_distance(seen: tuple[int, ...], size: int) -> tuple[int, int, int] | None:
    """Return the likeliest max_distance, and the lowest and highest with thresholds ``seen``."""
    exact = size // 2

    def same(distance: int) -> bool:
        return distance > exact and starts(size, exact, distance) == seen

    if not 2 <= size <= _LARGEST or seen[:exact] != tuple(range(1, exact + 1)):
        return None
    if size - exact < 2:  # one bucket per distance
        return max(exact + 1, 128), exact + 1, _MOST
    power = (size - exact) / (size - 1 - exact)
    guess = int(exact * (seen[-1] / exact) ** power)
    inside = next(filter(same, (*_USUAL, *range(guess + 2, max(guess // 2, exact), -1))), None)
    if inside is None:
        return None
    return inside, *equal_range(inside, same)
