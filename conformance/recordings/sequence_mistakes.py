"""Known mistakes of decoding steps: packed sequences, chunks, and keys in a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from posenc_ref import XPos
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake, mistakes, with_value
from posenc_ref.conformance.diagnosis.position_mistakes import at, of_any_start
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.sequences.cache_mistakes import ROTATE_ONCE, scaled_again
from posenc_ref.conformance.sequences.offset_mistakes import HALVES

from .call import Recorded

#: The most rotations of a key that are tried, and the most of them that may fit.
_MOST, _TRIED = 4096, 8


def sequence_mistakes(calls: list[Recorded]) -> Iterator[Mistake]:
    """Yield mistakes of calls with several sequences, or pieces of them, in a row."""
    if any(call.part.positions.ndim > 2 for call in calls) or all(c.contiguous for c in calls):
        return
    yield from mistakes(
        "decode-offset",
        at,
        ("positions restart at 0 in every sequence and chunk", lambda t: t.index),
        (
            "single tokens of a sequence are rotated as if they stood at 0",
            lambda t: np.where(t.size == 1, 0, t.position),
        ),
        (
            "several tokens of a sequence are rotated as if the first one stood at 0",
            lambda t: np.where(t.size > 1, t.index, t.position),
        ),
        ("the offset counts the new tokens of the sequence too", lambda t: t.position + t.size),
        (
            "tokens after earlier ones of their sequence start one position late",
            lambda t: t.position + (t.start > 0),
        ),
        (
            "tokens after earlier ones of their sequence start one position early",
            lambda t: t.position - (t.start > 0),
        ),
    )
    yield from of_any_start("the offset of a sequence", HALVES)


def cache_mistakes(run: Run, calls: list[Recorded]) -> Iterator[Mistake]:
    """Yield mistakes of the keys of a cache, which are recorded as they stand in it."""
    keys = [call for call in calls if call.part.name == "k" and call.part.positions.ndim == 2]
    if len(keys) < len(calls) or isinstance(run.encoding, XPos):
        return
    if min(call.x.shape[2] for call in keys) == 1:
        return
    twice = "every key is rotated twice"
    yield Mistake("stale-cache", twice, _turned(lambda i, n: 0 * i + 2), ROTATE_ONCE)
    text = "all keys but the last one are rotated twice"
    yield Mistake("stale-cache", text, _turned(lambda i, n: 1 + (i < n - 1)), ROTATE_ONCE)
    text = "the whole cache is rotated again at every step"
    for prompt in _prompts(run, keys[0]):
        yield Mistake(
            "stale-cache",
            text,
            _turned(lambda i, n, prompt=prompt: n - np.maximum(i, prompt - 1)),  # type: ignore[misc]
            ROTATE_ONCE,
        )
    text = "only the last key is rotated"
    yield Mistake("stale-cache", text, _raw)


def _turned(
    times: Callable[[np.ndarray, int], np.ndarray],
) -> Callable[[Recorded], Truth]:
    """Return ``Mistake.predict`` for keys that are rotated ``times(index, length)`` times."""

    def predict(call: Recorded) -> Truth:
        n = times(np.arange(call.x.shape[2]), call.length)
        return _rotated(call, n)

    return predict


def _rotated(call: Recorded, n: np.ndarray) -> Truth:
    """Return the truth of keys that are rotated ``n`` times, a number for each token."""
    offset = call.encoding.offset
    truth = call.at((n * (call.part.positions + offset) - offset)[:, None])
    return scaled_again(truth, n[:, None], call.encoding.attention_factor(call.length))


def _raw(call: Recorded) -> Truth:
    """Return the truth of a cache in which all keys but the last one are not rotated."""
    truth, last = call.truth(), np.arange(call.x.shape[2])[:, None] == call.length - 1
    return with_value(truth, np.where(last, truth.value, call.x))


def _prompts(run: Run, call: Recorded) -> list[int]:
    """Return the lengths of a prompt, after which every step rotates the whole cache again.

    They follow from the number of times that the first key was rotated whose rotation shows it.
    """
    p = call.part.positions[0] + call.encoding.offset
    told = np.flatnonzero((p > 0) & call.part.telling[0])[:1]
    n = np.arange(1, min(call.length, _MOST) + 1)
    x, y = (np.repeat(t[:1, :, told], n.size, axis=2) for t in (call.x, call.part.y))
    if not told.size:
        return []
    part = replace(call.part, x=x, y=y, positions=np.repeat(call.part.positions[:1, told], n.size))
    repeated = replace(call, part=replace(part, positions=part.positions[None]))
    score = run.scores(y, _rotated(repeated, n))
    fitting = n[(score <= run.budget).all(axis=(0, 1, 3))]
    return [int(call.length - times + 1) for times in fitting[:_TRIED]]
