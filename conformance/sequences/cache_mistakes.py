"""Known mistakes of caches of rotated keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake, mistakes, with_value

from .chunk_mistakes import Chunked, ChunkTokens, chunk_mistakes


def _turned(times: Callable[[ChunkTokens], np.ndarray]) -> Callable[[Chunked], Truth]:
    """Return a prediction of keys that are rotated several times, with m applied each time.

    ``times`` returns the number of rotations of each token.
    """

    def predict(call: Chunked) -> Truth:
        t = call.tokens()
        n = times(t)[call.tail, None]
        m = call.encoding.attention_factor(call.lengths[-1])
        size = np.abs(m) ** (n - 1.0)
        offset = call.encoding.offset
        truth = call.at(times(t) * (t.position + offset) - offset)
        value = np.where(truth.terms > 0, size * truth.value, truth.value)
        return Truth(value, size * truth.terms, n * size * truth.angle, size)

    return predict


def _unrotated(which: Callable[[ChunkTokens], np.ndarray]) -> Callable[[Chunked], Truth]:
    def predict(call: Chunked) -> Truth:
        truth, raw = call.truth(), which(call.tokens())[call.tail, None]
        return with_value(truth, np.where(raw, call.x[:, :, call.tail], truth.value))

    return predict


def _as_inserted(call: Chunked) -> Truth | None:
    if not call.encoding.depends_on_length:
        return None
    ends = [a + c for a, c in zip(call.starts, call.chunks, strict=True)]
    return call.at(np.arange(call.x.shape[2]), ends)


def cache_mistakes() -> Iterator[Mistake]:
    """Yield known mistakes of caches of rotated keys, likely ones first."""
    yield Mistake(
        "stale-cache",
        "keys stay rotated as at the length when they were inserted",
        _as_inserted,
        "Rotate all keys anew when the frequencies change (or fix the frequencies before the first "
        "key is cached).",
    )
    again = "Rotate each key once: cache either rotated or raw keys, and say which."
    for message, times in (
        ("the whole cache is rotated again with every chunk", lambda t: t.count - t.chunk),
        (
            "keys are rotated when they are inserted, and the whole cache again with every chunk",
            lambda t: t.count - t.chunk + 1,
        ),
        ("every key is rotated twice", lambda t: 0 * t.chunk + 2),
        (
            "keys are rotated once more when the next chunk arrives",
            lambda t: 1 + (t.chunk < t.count - 1),
        ),
        (
            "the first chunk is inserted unrotated, and every later one rotates the whole cache",
            lambda t: np.minimum(t.count - t.chunk, t.count - 1),
        ),
    ):
        yield Mistake("stale-cache", message, _turned(times), again)
    yield from mistakes(
        "stale-cache",
        _unrotated,
        ("only the keys of the last chunk are rotated", lambda t: t.chunk < t.count - 1),
        ("only the keys of the first chunk are rotated", lambda t: t.later),
    )
    yield from chunk_mistakes()
