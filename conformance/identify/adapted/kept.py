"""Describe what a function keeps between its calls: positions, rotated keys, a cache of tables."""

from __future__ import annotations

import numpy as np

from posenc_ref.conformance.bias.cases import Ruler
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.identify.card import Card

#: The chunks of a sequence whose results are compared with those of one chunk.
_CHUNKS = (5, 1, 1, 3)
#: The first position of the calls that are repeated.
_OFFSET = 7


def describe(run: Run, card: Card) -> None:
    """Note on the card what the function keeps between chunks, or between calls."""
    words = {"decode": _chunks, "key_cache": _chunks, "calls": _calls}.get(run.report.surface)
    try:
        found = words(run) if words else ""
    except (Refused, Malformed, IndexError) as error:
        card.unknown.append(f"what is kept between calls: a call fails ({error})")
        return
    if found:
        card.facts["keeps"] = found


def _chunks(run: Run) -> str:
    """Say where a chunk starts, by comparing a sequence in chunks with the sequence at once."""
    driver, ruler = run.driver, Ruler.of(run)
    dim, length = run.settings.head_dim or 0, sum(_CHUNKS)
    x = run.random((1, 2, length, dim))

    def fed(chunks: tuple[int, ...]) -> np.ndarray:
        return driver.array(driver.call(x, list(chunks)))

    whole, parts = fed((length,)), fed(_CHUNKS)
    size = np.abs(x).max()

    def same(a: np.ndarray, b: np.ndarray) -> bool:
        return not ruler.differ(a, b, size).any()

    if parts.shape != whole.shape:
        return f"a sequence in chunks {list(_CHUNKS)} has another shape than at once"
    if same(parts, whole):
        if run.report.surface == "key_cache":
            return (
                "the keys, in the cache: keys of earlier chunks stay as one long call rotates them"
            )
        return "the position: each chunk continues where the last one ended"
    first = _CHUNKS[0]
    again = driver.array(driver.call(x[:, :, first:].copy(), [length - first]))
    if same(parts[:, :, :first], whole[:, :, :first]) and same(
        parts[:, :, first : first + 1], again[:, :, :1]
    ):
        return "no position: every chunk starts at position 0"
    return "other positions than those of the sequence at once"


def _calls(run: Run) -> str:
    """Say whether calls of one instance change the results of later calls."""
    driver, dim = run.driver, run.settings.head_dim or 0
    x = run.random((1, 2, 3, dim))
    once = driver.array(driver.call([(_sent(run, x), _OFFSET)])[0])
    calls = [(_sent(run, x), 0), (_sent(run, x), 100), (_sent(run, x), _OFFSET)]
    last = driver.array(driver.call(calls)[-1])
    if np.array_equal(once, last, equal_nan=True):
        return "nothing: earlier calls do not change later ones"
    six = np.concatenate([x, x], axis=_axis(run))  # as many tokens in one call, at other offsets
    tokens = driver.array(driver.call([(_sent(run, six), 30), (_sent(run, x), 50)])[-1])
    one = np.take(x, [0], axis=_axis(run))
    count = driver.array(driver.call([(_sent(run, one), 30)] * 2 + [(_sent(run, x), 50)])[-1])
    if np.array_equal(tokens, last) and not np.array_equal(count, last):
        return "the number of tokens of earlier calls, in place of the offset, which is ignored"
    if np.array_equal(count, last) and not np.array_equal(tokens, last):
        return "the number of earlier calls, in place of the offset, which is ignored"
    return "state: earlier calls change the results of later ones"


def _sent(run: Run, x: np.ndarray) -> object:
    return run.driver.backend.asarray(x, run.driver.dtype, run.driver.device)


def _axis(run: Run) -> int:
    """Return the axis of the tokens."""
    return {"bhsd": 2, "sbhd": 0}.get(run.driver.tensor_layout, 1)
