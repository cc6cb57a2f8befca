"""Known mistakes of caches of rotated keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake, each_part, mistakes, with_value
from posenc_ref.conformance.rotary.length_rules import Rule, length_rules

from .chunk_mistakes import chunk_mistakes, with_lengths
from .chunked import Chunked, ChunkTokens
from .kept_lengths import rotated_anew
from .rotated_again import rotated_again

ROTATE_ONCE = "Rotate each key once: keep either rotated keys or raw keys in the cache."
#: What is right where the frequencies depend on the length: old keys follow it too.
LENGTH_OF_CACHE = (
    "Choose the frequencies of all keys by the number of tokens in the whole cache, the last chunk "
    "included, and rotate all raw keys anew when they change: keys of earlier chunks must not keep "
    "the frequencies of a shorter cache."
)


def _turned(times: Callable[[ChunkTokens], np.ndarray]) -> Callable[[Chunked], Truth]:
    """Return ``Mistake.predict`` for keys that are rotated several times.

    ``times`` returns the number of rotations of each key. Every rotation multiplies the rotated
    channels by the attention factor again.
    """

    def predict(call: Chunked) -> Truth:
        t = call.tokens()
        n = times(t)
        offset = call.encoding.offset
        truth = call.at(n * (t.position + offset) - offset)
        m = call.encoding.attention_factor(call.lengths[-1])
        return scaled_again(truth, n[call.tail, None], m)

    return predict


def scaled_again(truth: Truth, times: np.ndarray, factor: float) -> Truth:
    """Return the truth of keys at ``times`` their angle, whose factor is applied each time too."""
    size = np.abs(factor) ** (times - 1.0)
    value = np.where(truth.terms > 0, size * truth.value, truth.value)
    return Truth(value, size * truth.terms, times * size * truth.angle, size)


def _unrotated(which: Callable[[ChunkTokens], np.ndarray]) -> Callable[[Chunked], Truth]:
    def predict(call: Chunked) -> Truth:
        truth, raw = call.truth(), which(call.tokens())[call.tail, None]
        return with_value(truth, np.where(raw, call.x[:, :, call.tail], truth.value))

    return predict


def cache_mistakes() -> Iterator[Mistake]:
    """Yield known mistakes of caches of rotated keys, likely ones first."""
    yield Mistake(
        "stale-cache",
        "cached keys keep the frequencies of the length at which they were inserted",
        with_lengths(lambda call: call.ends),
        "Rotate all keys anew when the frequencies change (or fix the frequencies before the first "
        "key is cached).",
    )
    for text, length in (
        ("the length before the last chunk", lambda call: call.starts[-1] or call.ends[-1]),
        ("the length of the last chunk alone", lambda call: call.chunks[-1]),
    ):
        yield Mistake(
            "scaling-parameter",
            f"the frequencies of all keys are those for {text}",
            with_lengths(lambda call, of=length: [of(call)] * len(call.chunks)),  # type: ignore[misc]
            LENGTH_OF_CACHE,
        )
    for n in (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096):
        yield Mistake(
            "scaling-parameter",
            f"the frequencies of all keys are those for the number of keys rounded up to a "
            f"multiple of {n}, as by the size of the allocated cache",
            with_lengths(lambda call, n=n: [-(-call.ends[-1] // n) * n] * len(call.chunks)),  # type: ignore[misc]
            "Choose the frequencies by the number of keys in the cache, not by the space for them.",
        )
    yield Mistake(
        "scaling-parameter",
        "the frequencies of all keys are those for the number of keys rounded up to a power of 2",
        with_lengths(lambda call: [1 << (call.ends[-1] - 1).bit_length()] * len(call.chunks)),
        "Choose the frequencies by the number of keys in the cache, not by the space for them.",
    )
    for message, times in (
        ("the whole cache is rotated again with every chunk", lambda t: t.count - t.chunk),
        (
            "keys are rotated when they are inserted, and the whole cache again with every chunk",
            lambda t: t.count - t.chunk + 1,
        ),
        ("every key is rotated twice", lambda t: 0 * t.chunk + 2),
        (
            "keys are rotated again when the next chunk arrives",
            lambda t: 1 + (t.chunk < t.count - 1),
        ),
        (
            "the first chunk is not rotated; every later chunk rotates the whole cache",
            lambda t: np.minimum(t.count - t.chunk, t.count - 1),
        ),
    ):
        yield Mistake("stale-cache", message, _turned(times), ROTATE_ONCE)
    yield from mistakes(
        "stale-cache",
        _unrotated,
        (
            "only the keys of the last chunk are rotated",
            lambda t: t.chunk < t.count - 1,
            "Rotate the keys of every chunk, each to its own position; earlier ones are raw now.",
        ),
        (
            "only the keys of the first chunk are rotated",
            lambda t: t.later,
            "Rotate the keys of every chunk, each to its own position; later ones are raw now.",
        ),
    )
    yield from rotated_again()
    yield from _in_other_slots()
    yield from chunk_mistakes(LENGTH_OF_CACHE)


def _in_other_slots() -> Iterator[Mistake]:
    """Yield keys that are right, but written into wrong places of the cache."""
    remedy = "Write the keys of a chunk behind those of all earlier chunks, from slot `start` on."
    for by, words in (
        (-1, "one slot early, over the last key of the chunk before"),
        (1, "one slot late, and the last one is lost"),
    ):
        for since, which in (
            (1, "chunks after the first"),
            (2, "the third chunk and later ones"),
        ):
            text = f"the keys of {which} are written {words}: a slot stays empty"
            yield Mistake("stale-cache", text, partial(_moved, by=by, since=since), remedy)


def _moved(call: Chunked, by: int, since: int) -> Truth:
    """Return the cache if the chunks from number ``since`` on are written ``by`` slots later."""
    count = call.x.shape[2]
    of_slot = np.full(count, -1)
    for j, (a, b) in enumerate(zip(call.starts, call.ends, strict=True)):
        to = np.arange(a, b) + (by if j >= since else 0)
        kept = (to >= 0) & (to < count)
        of_slot[to[kept]] = np.arange(a, b)[kept]
    of_slot = of_slot[call.tail]
    whole = replace(call, judged=None).truth()

    def slots(part: np.ndarray) -> np.ndarray:
        every = np.broadcast_to(part, call.x.shape)[:, :, of_slot]
        return np.where(of_slot[:, None] < 0, 0.0, every)

    return each_part(whole, slots)


def length_mistakes(encoding: Rotary, cache: bool) -> Iterator[Mistake]:
    """Yield wrong ways in which the frequencies of a sequence depend on its length."""
    for rule in length_rules(encoding, []) if encoding.depends_on_length else ():
        remedy = rule.remedy
        if cache and "call" in remedy:
            remedy += (
                " For cached keys the length is that of the whole cache: rotate all raw keys anew "
                "when the frequencies change."
            )
        yield Mistake(rule.code, rule.message, partial(_by_rule, rule), remedy)
    if cache and encoding.depends_on_length:
        yield from rotated_anew(encoding)


def _by_rule(rule: Rule, call: Chunked) -> Truth | None:
    """Return the result of a call whose frequencies follow a rule; None if it has none."""
    lengths = [max(rule.seen(n), 1) for n in call.lengths]
    encoding = rule.encoding
    if rule.at is not None:  # one encoding for all chunks
        found = rule.at(call.lengths[-1])
        if found is None or len(set(call.lengths)) > 1:
            return None
        encoding = found
    return replace(call, encoding=encoding).at(np.arange(call.x.shape[2]), lengths)
