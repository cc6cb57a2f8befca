"""Causes in lengths that are kept: when cached keys are rotated anew."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check

SHORT, LONG = (1.0, 1.1, 1.2, 1.3), (1.0, 3.0, 5.0, 9.0)
GROWING = pr.RoPE(8, layout="half", scaling=pr.LongRoPE(SHORT, LONG, 24, factor=2.0))


def cache(anew, encoding=GROWING):
    """Return a cache whose keys are rotated anew if ``anew(before, after)``."""

    def fn(k, chunks):
        at, parts = 0, []
        for n in chunks:
            first, at = at, at + n
            if anew(first, at):
                first, parts = 0, []
            parts.append(encoding.apply(k[:, :, first:at], np.arange(first, at), seq_len=at))
        return np.concatenate(parts, axis=2)

    return fn


@pytest.mark.parametrize(
    ("anew", "words"),
    [
        (
            lambda a, b: a < 24 < b,
            "only by a chunk that begins at fewer than 24 keys and ends at more (never, if one "
            "ends at exactly 24)",
        ),
        (lambda a, b: b == 25, "only when their number is exactly 25"),
        (lambda a, b: b - a == 1, "only by chunks of one token"),
        (lambda a, b: b // 16 > a // 16, "only when their number reaches a multiple of 16"),
    ],
)
def test_keys_that_are_rotated_anew_after_some_chunks_only(anew, words):
    (found,) = check(cache(anew), GROWING, "key_cache").findings
    assert found.code == "stale-cache"
    assert found.message == (
        f"cached keys are rotated again {words}; keys inserted between have the frequencies of "
        "their own length"
    )
    assert "further calls agree" in found.evidence


def test_keys_that_are_rotated_anew_past_the_trained_length_are_right():
    assert check(cache(lambda a, b: a <= 24 < b), GROWING, "key_cache").verdict == "conforms"
