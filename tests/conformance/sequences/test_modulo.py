"""Positions modulo a number are told from the rows of a table that grows from 0 again."""

import numpy as np

from posenc_ref import RoPE
from posenc_ref.conformance import check

ROPE = RoPE(8, layout="half")


def in_chunks(positions):
    def fn(x, chunks):
        ends = np.cumsum(chunks)
        spans = [(int(end) - n, int(end)) for n, end in zip(chunks, ends, strict=True)]
        parts = [ROPE.apply(x[:, :, a:b], positions(np.arange(a, b))) for a, b in spans]
        return np.concatenate(parts, axis=2)

    return fn


def test_modulo():
    (finding,) = check(in_chunks(lambda at: at % 32), ROPE, "decode").findings
    assert finding.code == "position-range"
    assert "modulo 32" in finding.message
