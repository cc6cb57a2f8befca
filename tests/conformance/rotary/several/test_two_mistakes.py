"""Both of two mistakes that a rotation makes at once are named, and together predict all calls."""

import numpy as np
import pytest

from posenc_ref import LinearScaling, RoPE
from posenc_ref.conformance import check

HALF = RoPE(16, layout="half")
LAYOUT, SIGN, BASE = (
    HALF.replace(layout="interleaved"), HALF.replace(sign=-1), HALF.replace(base=500000.0),
)  # fmt: skip
LINEAR = HALF.replace(scaling=LinearScaling(4.0))
INTERLEAVED, BACKWARDS = "pairs are interleaved", "the rotation turns the other way"
OTHER_BASE, OF_ROW_0 = "the base is 500000", "the position of the same token of row 0"


def of_row_0(p, x):
    return np.broadcast_to(p[:1], p.shape) if p.ndim > 1 else p


def of_single_tokens(p, x):
    return of_row_0(p, x) if p.shape[-1] == 1 else p


def index(p, x):
    return np.arange(x.shape[2])


def halved(p, x):
    return p // 2


def from_the_first(p, x):
    return p[..., :1] + np.arange(x.shape[2])


def turned(encoding, used):
    """Return a function that rotates by ``encoding`` at the positions ``used`` of the declared."""
    return lambda x, p: encoding.apply(x, used(np.asarray(p), x)).astype(np.float32)


def per_head(x, p):
    heads = [LAYOUT.apply(x[:, [h]], np.asarray(p) + h) for h in range(x.shape[1])]
    return np.concatenate(heads, axis=1).astype(np.float32)


def first_head_alone(x, p):
    y = BASE.apply(x, p).astype(np.float32)
    y[:, 1:] = x[:, 1:]
    return y


CASES = {
    "base-row-0": (turned(BASE, of_row_0), HALF, (OTHER_BASE, OF_ROW_0)),
    "layout-row-0": (turned(LAYOUT, of_row_0), HALF, (INTERLEAVED, OF_ROW_0)),
    "sign-row-0": (turned(SIGN, of_row_0), HALF, (BACKWARDS, OF_ROW_0)),
    "scaling-row-0": (turned(HALF, of_row_0), LINEAR, ("scaling by 4 is missing", OF_ROW_0)),
    "base-one-token": (turned(BASE, of_single_tokens), HALF, (OTHER_BASE, OF_ROW_0)),
    "base-index": (turned(BASE, index), HALF, (OTHER_BASE, "the index in the call")),
    "sign-index": (turned(SIGN, index), HALF, (BACKWARDS, "is the index in the call")),
    "sign-halved": (turned(SIGN, halved), HALF, (BACKWARDS, "the declared position // 2")),
    "layout-first": (
        turned(LAYOUT, from_the_first), HALF, (INTERLEAVED, "the first position of the row"),
    ),
    "layout-heads": (per_head, HALF, (INTERLEAVED, "the declared position + the head")),
    "base-heads": (first_head_alone, HALF, (OTHER_BASE, "only in heads from 1 on")),
}  # fmt: skip


@pytest.mark.parametrize(("fn", "encoding", "words"), CASES.values(), ids=CASES)
def test_both_are_named(fn, encoding, words):
    found = [f.message for f in check(fn, encoding, "apply").findings]
    assert len(found) == len(words)
    assert all(text in message for text, message in zip(words, found, strict=True)), found


def test_what_no_second_mistake_explains_is_called_a_part():
    def fn(x, p):  # every row but the first is rotated to a position that no rule gives
        p = np.asarray(p)
        p = (p + (p * p % 7) * (np.arange(len(p)) > 0)[:, None]) if p.ndim > 1 else p
        return BASE.apply(x, p).astype(np.float32)

    first = check(fn, HALF, "apply").findings[0].message
    assert first.startswith("consistent with a part of the results: the base is 500000"), first
