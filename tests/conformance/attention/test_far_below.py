"""Attentions that are wrong only where the logits of a query are far below 0."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check

ROPE = RoPE(8, layout="half")


def attention(fill=-np.inf, start=-np.inf):
    """A float32 attention whose hidden keys have the logit ``fill``, its maximum from ``start``."""

    def fn(q, k, v, q_at, k_at):
        k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
        q, k = ROPE.apply(q, q_at), ROPE.apply(k, k_at)
        logits = q @ k.swapaxes(-1, -2) / np.float32(8**0.5)
        logits = np.where(k_at[None, :] > q_at[:, None], np.float32(fill), logits)
        weights = np.exp(logits - np.maximum(logits.max(-1, keepdims=True), np.float32(start)))
        with np.errstate(invalid="ignore"):
            return weights / weights.sum(-1, keepdims=True) @ v

    return fn


@pytest.mark.parametrize("fill", [-np.inf, -1e9])
def test_masks_below_all_logits_conform(fill):
    report = check(attention(fill), ROPE, "attention")
    assert report.verdict == "conforms", report


@pytest.mark.parametrize(
    ("wrong", "code", "words"),
    [
        ({"fill": -100.0}, "future-keys", "the mask is a finite number, not -inf"),
        ({"start": 0.0}, "softmax-scale", "consistent with a largest logit that starts at 0"),
    ],
)
def test_what_shows_far_below_0_only(wrong, code, words):
    (finding,) = check(attention(**wrong), ROPE, "attention").findings
    assert finding.code == code
    assert words in finding.message
