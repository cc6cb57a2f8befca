"""Identify a bucket function: where buckets start on both sides, and T5's parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from posenc_ref import T5Bias
from posenc_ref.conformance.bias.bucket_model import starts
from posenc_ref.conformance.bias.cases import Answer, ask
from posenc_ref.conformance.harness.run import Run

from .card import Card

#: Every relative position up to it is called, and some beyond it.
_NEAR = 2100
_FAR = np.array([4096, 8191, 16384, 32768, 65536, 131071])
#: Usual values of max_distance, tried first.
_MOST = 2**31
#: The most buckets of one direction.
_LARGEST = 512
_USUAL = (128, 256, 64, 512, 1024, 20, 32, 48, 96, 160, 320, 800, 2048, 100, 200, 1000)


@dataclass(frozen=True)
class Rule:
    """T5's parameters, and every max_distance that gives the same buckets."""

    num_buckets: int
    max_distance: int
    bidirectional: bool
    alike: tuple[int, int]

    def encoding(self, table: np.ndarray) -> T5Bias:
        """Return the bias with that table."""
        return T5Bias(
            table,
            num_buckets=self.num_buckets,
            max_distance=self.max_distance,
            bidirectional=self.bidirectional,
        )

    def relations(self) -> tuple[str, ...]:
        """Return what the buckets do not tell."""
        low, high = self.alike
        if low == high:
            return ()
        upto = f"from {low} to {high}" if high < _MOST else f"from {low} on"
        return (f"any max_distance {upto} gives the same buckets",)


def identify(run: Run, card: Card) -> None:
    """Fill in the card of ``fn(key minus query) -> integers``."""
    r, b = _ask(run, card)
    if r.size == 0:
        return
    near = dict(zip(r.tolist(), b.tolist(), strict=True))
    past = {-n: v for n, v in sorted(near.items(), reverse=True) if n < 0}
    later = {n: v for n, v in near.items() if n > 0}
    card.facts["buckets"] = (
        f"{np.unique(b).size} in use, {b.min()} .. {b.max()}; bucket(0) = {near[0]}"
    )
    card.facts["earlier keys"], card.facts["later keys"] = _words(past), _words(later)
    if len(set(past.values())) == 1 < len(set(later.values())):
        card.facts["direction"] = "distances are counted towards later keys: query minus key?"
        past, later = later, past
    rule = next(rules(past, later, near[0]), None)
    if rule is None:
        card.unknown.append("by which rule buckets grow: T5's gives none of these thresholds")
        return
    card.encoding = rule.encoding(np.zeros((rule.num_buckets, 1)))
    card.relations += rule.relations()
    card.unknown.append("the table: buckets do not show it, so it stands as zeros")


def _ask(run: Run, card: Card) -> tuple[np.ndarray, np.ndarray]:
    """Return relative positions and their buckets; both empty if there are none.

    Functions that have only so many distances are asked for fewer.
    """
    nothing = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    answer = Answer(None, problem="nothing was asked")
    for reach in (_NEAR, 512, 64, 8):
        reach = run.settings.up_to(reach)
        r = np.arange(-reach, reach + 1)
        if reach == _NEAR:
            r = np.concatenate([-_FAR[::-1], r, _FAR])
        answer = ask(run.driver, r)
        if answer.values is None:
            continue
        b = answer.values
        if b.shape != r.shape:
            card.unknown.append(f"it cannot be driven: expected shape {r.shape}, got {b.shape}")
            return nothing
        if not np.array_equal(b, np.trunc(b)) or not np.isfinite(b).all():
            card.unknown.append("what comes out are no integers")
            return nothing
        again = ask(run.driver, r)
        if again.values is None or not np.array_equal(again.values, b):
            card.unknown.append("the same call gives other values at once: it is no function of r")
            return nothing
        run.ledger.highest = int(np.abs(r).max())
        return r, b.astype(np.int64)
    card.unknown.append(f"it cannot be driven: {answer.problem}")
    return nothing


def _words(side: dict[int, int]) -> str:
    """Return the distances at which the bucket changes, in words."""
    levels = list(side.values())
    if len(set(levels)) == 1:
        return f"all in bucket {levels[0]}"
    at = [n for (_, a), (n, b) in pairwise(side.items()) if a != b]
    exact = next((k for k, n in enumerate(at) if n != k + 2), len(at))
    text = f"buckets {min(levels)} .. {max(levels)}; "
    if exact:
        text += f"distances 1..{exact + 1} have their own"
    rest = at[exact:]
    if rest:
        shown = ", ".join(map(str, rest[:16])) + (", ..." if len(rest) > 16 else "")
        text += f"{', others' if exact else 'they'} start at {shown}"
    return text


def thresholds(side: dict[int, int], low: int) -> tuple[int, ...]:
    """Return the first distance of bucket low + 1, low + 2, ..., if they grow."""
    found: list[int] = []
    before = 0
    for n, bucket in side.items():
        level = bucket - low
        if level < before or (n == 1 and level > 1):
            return ()
        found += [n] * (level - before)
        before = level
    return tuple(found)


def rules(past: dict[int, int], later: dict[int, int], own: int) -> Iterator[Rule]:
    """Yield T5 parameters that give these buckets, by distance on both sides."""
    seen = thresholds(past, 0)
    if not seen or own != 0:
        return
    size = len(seen) + 1
    both = bool(later) and min(later.values()) >= size
    if both:
        ahead = thresholds(later, size)
        if ahead != seen[: len(ahead)] or (max(later) >= seen[-1] and len(ahead) < len(seen)):
            return
    elif any(later.values()):
        return
    for distance, alike in _max_distances(seen, size):
        yield Rule(2 * size if both else size, distance, both, alike)


def _max_distances(seen: tuple[int, ...], size: int) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the likeliest max_distance, and the whole range that gives the same thresholds."""
    exact = size // 2

    def same(distance: Any) -> bool:
        return distance > exact and starts(size, exact, int(distance)) == seen

    if not 2 <= size <= _LARGEST or seen[:exact] != tuple(range(1, exact + 1)):
        return
    if size - exact < 2:  # every distance has its own bucket: any max_distance will do
        yield max(exact + 1, 128), (exact + 1, _MOST)
        return
    power = (size - exact) / (size - 1 - exact)
    guess = int(exact * (seen[-1] / exact) ** power)
    tried = (*_USUAL, *range(guess + 2, max(guess // 2, exact), -1))
    inside = next((d for d in tried if same(d)), None)
    if inside is None:
        return
    low = high = inside
    while same(low - 1):
        low -= 1
    while high < 4 * inside and same(high + 1):
        high += 1
    yield inside, (low, high)
