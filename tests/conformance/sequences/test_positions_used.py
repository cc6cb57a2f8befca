"""The positions that wrong calls use are decoded, and one rule gives all of them."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check

ROPE = RoPE(16, layout="half")


def decode(positions):
    """Return a ``decode`` that rotates chunk n from ``start`` on to positions(n, start, index)."""

    def fn(x, chunks):
        starts = np.cumsum([0, *chunks[:-1]])
        each = [positions(n, a, np.arange(c)) for n, (a, c) in enumerate(zip(starts, chunks))]  # noqa: B905
        at = np.concatenate(each) if each else np.arange(0)
        return ROPE.apply(x, at.astype(np.int64)).astype(np.float32)

    return fn


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("positions", "words"),
    [
        (
            lambda n, start, i: start + (i % 8 if n else i),
            "the position used is the start of the chunk + the index in the chunk modulo 8, where "
            "the number of earlier chunks is at least 1",
        ),
        # The first chunks alone would also fit "where the start of the chunk is at least 1".
        (
            lambda n, start, i: start + i - (n >= 2),
            "the position used is the declared position - 1, where the number of earlier chunks is "
            "at least 2",
        ),
    ],
)
def test_a_rule_names_the_positions_of_chunks(positions, words):
    first = check(decode(positions), ROPE, "decode").findings[0]
    assert words in first.message, first
    assert "further call" in first.evidence


@pytest.mark.nightly
def test_positions_without_a_rule_are_listed():
    def scattered(n, start, i):
        return start + i + (n > 0) * ((start * 7919) % 13)

    first = check(decode(scattered), ROPE, "decode").findings[0]
    assert "another position than declared" in first.message
    assert " for " in first.message


def test_the_mistake_of_single_tokens_alone_says_so():
    def fn(x, p):
        return ROPE.replace(sign=-1 if x.shape[2] == 1 else 1).apply(x, p).astype(np.float32)

    first = check(fn, ROPE, "apply").findings[0]
    assert "-angle, only in calls with S = 1" in first.message, first
