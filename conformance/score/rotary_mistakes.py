"""Known mistakes of scores with a rotation for each pair: dual chunks, Self-Extend, ReRoPE."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posenc_ref import DualChunk, ReRoPE, SelfExtend
from posenc_ref.conformance.diagnosis.mistake import each_part
from posenc_ref.conformance.functions.layouts import rotary_variants
from posenc_ref.conformance.oracle.scores import Parts, Scored
from posenc_ref.rotary_score import RotaryScore

from .changed import Change, OfCall
from .registered import mistakes

#: Returns the positions i' of the queries and j' of the keys, for their positions i and j.
Places = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


class Moved(RotaryScore, abstract=True):
    """The declared encoding with other positions i' and j'."""

    def __init__(self, declared: RotaryScore, places: Places) -> None:
        self._set(rope=declared.rope, places=places, factor=declared._temperature)

    def _places(self, q_at: np.ndarray, k_at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.places(*np.broadcast_arrays(q_at, k_at))  # type: ignore[attr-defined,no-any-return]

    def _temperature(self, q_at: np.ndarray, k_at: np.ndarray) -> float:
        return self.factor(q_at, k_at)  # type: ignore[attr-defined,no-any-return]


def _placed(declared: RotaryScore, places: Places) -> OfCall:
    return lambda call: call.replace(encoding=Moved(declared, places)).parts()


def _plain(declared: RotaryScore, rule: str) -> Change:
    text = f"far keys are rotated as near ones: this is plain RoPE, without {rule}"
    return "far-keys", text, _placed(declared, lambda i, j: (i, j))


@mistakes(RotaryScore)
def rotation(declared: RotaryScore) -> Iterator[Change]:
    """Yield the known mistakes of the rotation itself."""
    for code, message, rope in rotary_variants(declared.rope):
        yield code, message, {"rope": rope}


@mistakes(DualChunk)
def dual_chunk(declared: DualChunk) -> Iterator[Change]:
    """Yield the known mistakes of dual chunk attention."""
    c, size, local = declared.chunk_length, declared.chunk_size, declared.local_size
    far = min(2 * c - 1, size)

    def other(after: Callable[[np.ndarray], Any], beyond: Any = far, period: int = c) -> OfCall:
        """Return the logits with other i' for the chunk before, and for the chunks before that.

        ``after`` takes ``i mod C``; ``beyond`` is a number or such a function as well.  Keys are at
        j modulo ``period``.
        """

        def places(i: np.ndarray, j: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            apart, query = i // c - j // c, i % c
            last = beyond(query) if callable(beyond) else beyond
            i_place: np.ndarray = np.select([apart < 1, apart < 2], [query, after(query)], last)
            return i_place, j % period

        return _placed(declared, places)

    def capped(query: np.ndarray) -> np.ndarray:
        return np.asarray(np.minimum(query + c, size))

    yield *_plain(declared, "chunks"), f"Take the positions of keys modulo C = {c}."
    text = "keys have their own positions in every chunk: they are not taken modulo C"
    remedy = f"Rotate keys by j mod {c}, before they are stored in a cache."
    yield "far-keys", text, other(capped, period=2**40), remedy
    remedy = f"Cut chunks of C = chunk_size - local_size = {c} tokens."
    if local:
        text = f"chunks have chunk_size = {size} tokens, declared {c}: local_size is ignored"
        yield "window-edge", text, {"local_size": 0}, remedy
        text = f"positions end at chunk_size - 1 = {size - 1}, as in the paper, declared {size}"
        yield (
            "far-keys",
            text,
            {"chunk_size": size - 1, "local_size": local - 1},
            f"Limit the positions of queries to chunk_size = {size}, as the released code does.",
        )
    for by, words in ((-1, "one too few"), (1, "one too many")):
        if size > 1 and 0 < c + by <= size:
            text = f"chunks have {c + by} tokens, {words}, declared {c}"
            yield "window-edge", text, {"local_size": local - by}, remedy
    limit = f"Rotate queries for the chunk before by min(i mod {c} + {c}, {size})."
    text = f"the limit {size} of positions is missing for the chunk before"
    yield "far-keys", text, other(lambda query: query + c), limit
    text = f"keys of the chunk before are rotated as those further back: from position {far}"
    yield "far-keys", text, other(lambda query: far), limit
    text = "keys of the chunk before are rotated as those of the query's own chunk"
    yield "far-keys", text, other(lambda query: query), limit
    text = f"keys of the chunk before are rotated from i mod C + {size}, not from i mod C + {c}"
    yield "far-keys", text, other(lambda query: query + size), limit
    remedy = f"Rotate queries for chunks further back by {far}, whatever their own position."
    text = "keys of chunks further back are rotated as those of the chunk before"
    yield "far-keys", text, other(capped, capped), remedy
    for value, words in {
        size: f"{size}, the chunk size",
        2 * c - 1: f"2C - 1 = {2 * c - 1}, without the limit {size}",
        c: f"C = {c}",
        size - 1: f"chunk_size - 1 = {size - 1}",
    }.items():
        if value != far:
            text = f"queries have position {words}, for chunks further back, declared {far}"
            yield "far-keys", text, other(capped, value), remedy
    text = f"queries have position i mod C + {size} for chunks further back, declared {far}"
    yield "far-keys", text, other(capped, lambda query: query + size), remedy
    if declared.original_max_position is not None:
        once = "Multiply keys by t, and the softmax scale by t: the logits have t squared."
        text = "the factor t of sequences longer than the trained length is missing"
        yield "softmax-scale", text, {"original_max_position": None}, once
        for power, words in ((0.5, "once, not twice"), (2.0, "four times, not twice")):
            text = f"the factor t of sequences longer than the trained length is applied {words}"
            yield "softmax-scale", text, _tempered(declared, power), once


def _tempered(declared: DualChunk, power: float) -> OfCall:
    """Return the logits with the temperature ``t ** 2`` raised to a power."""

    def parts(call: Scored) -> Parts:
        factor: float = declared._temperature(*call.grid) ** (power - 1)
        return {name: each_part(t, lambda p: p * factor) for name, t in call.parts().items()}

    return parts


@mistakes(SelfExtend)
def self_extend(declared: SelfExtend) -> Iterator[Change]:
    """Yield the known mistakes of Self-Extend."""
    g, w = declared.group, declared.window
    shift = w - w // g
    floors = f"Rotate far queries by i // {g} + {shift} and far keys by j // {g}."

    def far(
        of_q: Callable[[np.ndarray], Any],
        of_k: Callable[[np.ndarray], Any] = lambda j: j // g,
        edge: int = w,
    ) -> OfCall:
        """Return the logits with other i' and j' of far keys, those with i - j >= edge."""

        def places(i: np.ndarray, j: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            near = i - j < edge
            return np.where(near, i, of_q(i)), np.where(near, j, of_k(j))

        return _placed(declared, places)

    def offset(of: Callable[[np.ndarray], np.ndarray]) -> OfCall:
        """Return the logits with ``of(i - j)`` as the distance of far keys."""
        return _placed(
            declared, lambda i, j: (np.where(i - j < w, i - j, of(i - j)), np.zeros_like(j))
        )

    yield *_plain(declared, "groups"), floors
    text = "the floor is taken of the offset, (i - j) // group, not of both positions"
    yield "far-keys", text, offset(lambda r: r // g + shift), floors
    for up_q, up_k, words in (
        (g - 1, 0, "far queries are rounded up, not down"),
        (0, g - 1, "far keys are rounded up, not down"),
        (g - 1, g - 1, "far queries and far keys are rounded up, not down"),
        (g // 2, g // 2, "far queries and far keys are rounded to the nearest, not down"),
    ):
        text = f"the groups of {words}"
        rounded = far(
            lambda i, n=up_q: (i + n) // g + shift,  # type: ignore[misc]
            lambda j, n=up_k: (j + n) // g,  # type: ignore[misc]
        )
        yield "far-keys", text, rounded, floors
    text = "positions are divided by the group size without rounding down"
    yield "far-keys", text, far(lambda i: i / g + shift, lambda j: j / g), floors
    for number, words in (
        (0, "is missing"),
        (w, f"is window = {w}, declared window - window // group = {shift}"),
        (w // g, f"is window // group = {w // g}, declared window - window // group = {shift}"),
        (-shift, "is subtracted"),
        (w - w / g, f"is {w - w / g:.6g}, not rounded, as in LongLM's code; declared {shift}"),
    ):
        if number != shift:
            text = f"the shift of far queries {words}"
            yield "far-keys", text, far(lambda i, n=number: i // g + n), floors  # type: ignore[misc]
    remedy = f"Take a key as near if i - j < {w}; the key at i - j = {w} is a far one."
    for by, words in (
        (1, f"keys with i - j <= {w} are"),
        (-1, f"only keys with i - j < {w - 1} are"),
    ):
        text = f"{words} near keys, declared i - j < {w}"
        yield "window-edge", text, far(lambda i: i // g + shift, edge=w + by), remedy
    text = "all keys are grouped, also those in the window"
    yield "far-keys", text, far(lambda i: i // g + shift, edge=-(2**40)), floors


@mistakes(ReRoPE)
def rerope(declared: ReRoPE) -> Iterator[Change]:
    """Yield the known mistakes of ReRoPE and Leaky ReRoPE."""
    w, k = declared.window, declared.factor
    rule = f"{w}" if k is None else f"{w} + (i - j - {w}) / {k:g}"
    remedy = f"Rotate keys with i - j >= {w} by the distance {rule}."

    def beyond(of: Callable[[np.ndarray], np.ndarray]) -> OfCall:
        """Return the logits with ``of(i - j)`` as the distance of far keys."""
        return _placed(
            declared, lambda i, j: (np.where(i - j < w, i - j, of(i - j)), np.zeros_like(j))
        )

    yield *_plain(declared, "the window"), remedy
    for by, words in ((1, "large"), (-1, "small")):
        if w + by > 0:
            text = f"the window is {w + by}, one too {words}, declared {w}"
            yield "window-edge", text, {"window": w + by}, f"Use the window {w}."
    text = "all keys have the distance of the window"
    yield "far-keys", text, _placed(declared, lambda i, j: (w + 0 * i, 0 * j)), remedy
    text = "far keys have distance 0"
    yield "far-keys", text, beyond(lambda r: 0 * r), remedy
    if k is None:
        return
    text = f"the offset is clipped at {w}, as in ReRoPE; declared Leaky ReRoPE"
    yield "far-keys", text, {"factor": None}, remedy
    text = f"the distance of far keys is (i - j) / {k:g}: it jumps at the window"
    yield "far-keys", text, beyond(lambda r: r / k), remedy
    text = f"the distance of far keys grows by the factor {k:g}, not by 1 / {k:g}"
    yield "far-keys", text, beyond(lambda r: w + (r - w) * k), remedy
    text = f"the distance of far keys is {w} + (i - j) / {k:g}"
    yield "far-keys", text, beyond(lambda r: w + r / k), remedy
