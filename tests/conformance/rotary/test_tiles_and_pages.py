"""Positions that a tile makes from one of its tokens, and chunks that the pages of a cache cut."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check

ROPE = RoPE(8, layout="half")


@pytest.mark.parametrize(
    ("tile", "used", "words"),
    [
        (32, lambda first, last, index: first + index % 32,
         "in every tile of 32 tokens, positions are counted on from that of the first"),
        (8, lambda first, last, index: first, "all tokens of a tile of 8 have the position of its "
         "first"),
        (64, lambda first, last, index: last, "all tokens of a tile of 64 have the position of its "
         "last"),
    ],
)  # fmt: skip
def test_a_tile_loads_one_position(tile, used, words):
    def fn(x, positions):
        p, index = np.asarray(positions), np.arange(x.shape[2])
        first = p[..., index // tile * tile]
        last = p[..., np.minimum(index // tile * tile + tile, index.size) - 1]
        return ROPE.apply(x, used(first, last, index))

    found = check(fn, ROPE, "apply").findings[0]
    assert (found.code, found.message) == ("wrong-row", words)
    assert "further calls agree" in found.evidence


def test_positions_counted_on_from_the_first_of_a_call_are_no_tile():
    def fn(x, positions):
        return ROPE.apply(x, np.asarray(positions)[..., :1] + np.arange(x.shape[2]))

    found = check(fn, ROPE, "apply").findings[0]
    assert "tile" not in found.message


@pytest.mark.parametrize("surface", ["decode", "key_cache"])
@pytest.mark.parametrize(
    ("place", "words"),
    [
        (lambda start, at, own: start + own, "tokens after the end of a page of 8 are numbered "
         "from the start of a chunk again"),
        (lambda start, at, own: at // 8 * 8 + own, "tokens before the end of a page of 8 are "
         "numbered from its first place"),
        (lambda start, at, own: 2 * at - start + own, "tokens after the end of a page of 8 have "
         "the tokens before it counted twice"),
    ],
)  # fmt: skip
def test_a_chunk_is_cut_at_the_end_of_a_page(place, words, surface):
    def fn(x, chunks):
        used, start = [], 0
        for n in chunks:
            at = start
            while at < start + n:
                part = min(8 - at % 8, start + n - at)
                used.extend(place(start, at, i) for i in range(part))
                at += part
            start += n
        return ROPE.apply(x, np.array(used, int))

    found = check(fn, ROPE, surface).findings[0]
    assert (found.code, found.message) == ("decode-offset", words)
