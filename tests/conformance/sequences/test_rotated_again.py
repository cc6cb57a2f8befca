"""Cached keys that are rotated again, and remedies for frequencies of another length."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance import check
from posenc_ref.conformance.sequences.cache_mistakes import cache_mistakes, length_mistakes
from posenc_ref.conformance.sequences.chunk_mistakes import chunk_mistakes
from posenc_ref.conformance.sequences.chunked import Chunked

ROPE = pr.RoPE(8, layout="half")
GROWING = pr.RoPE(8, layout="half", scaling=pr.DynamicNTK(4.0, 24))


def _at(k, start, length):
    return GROWING.apply(k, start + np.arange(k.shape[2]), seq_len=length)


def _with_every_later_chunk(k, chunks):
    """Rotate new keys when they come, and all old keys again once the sequence is long."""
    k, end = k.copy(), 0
    for n in chunks:
        start, end = end, end + n
        k[:, :, start:end] = _at(k[:, :, start:end], start, max(end, 1))
        if end > 24:
            k[:, :, :start] = _at(k[:, :, :start], 0, end)
    return k


def _with_the_last_chunk(k, chunks):
    """Rotate old keys for the length before the last chunk, then again for the final one."""
    length, new = sum(chunks), chunks[-1]
    old = k.shape[2] - new
    k = k.copy()
    k[:, :, :old] = _at(k[:, :, :old], 0, max(length - new, 1))
    return _at(k, 0, length)


WORDS = [
    (_with_every_later_chunk, "with every later chunk that changes the frequencies"),
    (_with_the_last_chunk, "with the last chunk only (before it,"),
]


@pytest.mark.parametrize(("fn", "words"), WORDS)
@pytest.mark.parametrize("chunks", [(5, 1, 1), (20, 9, 1, 4), (30,)])
def test_the_angle_is_the_sum_of_all_rotations(fn, words, chunks):
    x = np.random.default_rng(0).standard_normal((2, 2, sum(chunks), 8))
    mistake = next(m for m in cache_mistakes() if f"rotated again {words}" in m.message)
    predicted = mistake.predict(Chunked(GROWING, x, chunks, cache=True))
    error = np.abs(predicted.value - fn(x, chunks)).max()
    assert error <= BUDGET["float64"] * ROUNDOFF["float64"]


@pytest.mark.nightly
@pytest.mark.parametrize(("fn", "words"), WORDS)
def test_the_old_rotation_is_not_undone(fn, words):
    found = check(fn, GROWING, "key_cache").findings[0]
    assert found.code == "stale-cache"
    assert found.message.startswith(f"cached keys are rotated again {words}")
    assert found.message.endswith("the angle of a key is the sum of both")


def test_the_remedy_for_keys_includes_old_ones():
    # Frequencies of "the tokens up to the end of the chunk" would leave old keys stale.
    text = "the frequencies of every chunk are those for the length of the longest chunk"
    keys = next(m.remedy for m in cache_mistakes() if m.message == text)
    assert "rotate all raw keys anew" in keys
    assert "up to the end of the chunk" not in keys
    chunks = next(m.remedy for m in chunk_mistakes() if m.message == text)
    assert "up to the end of the chunk" in chunks  # in decode, results are not cached


def test_rules_for_lengths_speak_of_the_whole_cache():
    of_keys, of_chunks = (list(length_mistakes(GROWING, cache)) for cache in (True, False))
    assert any("the length is that of the whole cache" in m.remedy for m in of_keys)
    assert not any("the length is that of the whole cache" in m.remedy for m in of_chunks)


def test_a_gradient_that_rotates_the_saved_x():
    def fn(x, positions, dy):
        return ROPE.replace(sign=-1).apply(x, positions)

    found = check(fn, ROPE, "apply_vjp").findings[0]
    assert found.message == "x is rotated by -angle, in place of dy"


@pytest.mark.nightly
def test_lines_with_another_x_are_not_printed():
    def fn(x, positions, dy):
        return ROPE.replace(sign=-1).apply(dy + 0.5 * x**2, positions)

    found = check(fn, ROPE, "apply_vjp").findings[0]
    assert found.message == "dx depends on x, not on dy alone"
    assert not found.reproduce
