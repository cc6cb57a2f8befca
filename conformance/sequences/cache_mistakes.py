"""What caches of rotated keys are known to get wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake

from .chunk_mistakes import Chunked, Tokens, decode_suspects, judged_input


def cache_suspects() -> Iterator[Mistake]:
    """What is known to go wrong in caches of rotated keys, the likelier first."""

    def turned(times: Callable[[Tokens], np.ndarray]) -> Callable[[Chunked], Truth]:
        """Keys that were rotated to their positions that many times; m enters each time."""

        def predict(call: Chunked) -> Truth:
            t = call.tokens()
            n = times(t)[call.tail, None]
            m = call.encoding.attention_factor(call.lengths[-1])
            size = np.abs(m) ** (n - 1.0)
            offset = call.encoding.offset
            truth = call.at(times(t) * (t.position + offset) - offset)
            rotated = truth.terms > 0
            value = np.where(rotated, size * truth.value, truth.value)
            return Truth(value, size * truth.terms, n * size * truth.angle, size)

        return predict

    def as_inserted(call: Chunked) -> Truth | None:
        if not call.encoding.depends_on_length:
            return None
        ends = [a + c for a, c in zip(call.starts, call.chunks, strict=True)]
        return call.at(np.arange(call.x.shape[2]), ends)

    yield Mistake(
        "stale-cache",
        "keys stay rotated as at the length when they were inserted",
        as_inserted,
        remedy="Rotate all keys anew when the frequencies change (or fix the frequencies before "
        "the first key is cached).",
    )
    again = "Rotate each key once: cache either rotated or raw keys, and say which."
    for message, times in (
        (
            "the whole cache is rotated again with every chunk",
            lambda t: t.count - t.chunk,
        ),
        (
            "keys are rotated when they are inserted, and the whole cache again with every chunk",
            lambda t: t.count - t.chunk + 1,
        ),
        ("every key is rotated twice", lambda t: 0 * t.chunk + 2),
        ("keys are rotated again by the chunk after theirs", lambda t: 1 + (t.chunk < t.count - 1)),
        (
            "only keys of chunks after the first are rotated, the cache again with each of them",
            lambda t: np.minimum(t.count - t.chunk, t.count - 1),
        ),
    ):
        yield Mistake("stale-cache", message, turned(times), remedy=again)

    def unrotated(which: Callable[[Tokens], np.ndarray]) -> Callable[[Chunked], Truth]:
        def predict(call: Chunked) -> Truth:
            truth, raw = call.truth(), which(call.tokens())[call.tail, None]
            value = np.where(raw, judged_input(call), truth.value)
            return Truth(value, truth.terms, truth.angle, truth.amplitude)

        return predict

    yield Mistake(
        "stale-cache",
        "only the keys of the last chunk are rotated",
        unrotated(lambda t: t.chunk < t.count - 1),
    )
    yield Mistake(
        "stale-cache",
        "only the keys of the first chunk are rotated",
        unrotated(lambda t: t.chunk > 0),
    )
    yield from decode_suspects()
