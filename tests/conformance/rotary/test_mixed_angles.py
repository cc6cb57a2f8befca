"""RoPE-Mixed whose cosine or sine is not that of the sum of the angles of all axes."""

import numpy as np
import pytest

from posenc_ref import MixedRoPE
from posenc_ref.conformance import check

WEIGHT = np.array([[0.9, 0.31, 0.11, 0.04], [-0.2, 0.47, 0.07, -0.13]])
MIXED = MixedRoPE(8, WEIGHT, layout="interleaved")


@pytest.mark.parametrize(
    ("cosine", "sine", "words"),
    [
        (
            lambda a, b: np.cos(a) * np.cos(b), lambda a, b: np.sin(a) * np.sin(b),
            "the product of the cosines and the product of the sines",
        ),
        (
            lambda a, b: np.cos(a + b), lambda a, b: np.sin(a) * np.cos(b),
            "the cosine of the sum and the sine of the first axis times the cosines of the others",
        ),
        (
            lambda a, b: (np.cos(a) + np.cos(b)) / 2, lambda a, b: (np.sin(a) + np.sin(b)) / 2,
            "the mean of the cosines and the mean of the sines",
        ),
    ],
    ids=["products", "half a theorem", "means"],
)  # fmt: skip
def test_cosine_and_sine_of_two_angles(cosine, sine, words):
    def fn(x, positions):
        p = np.asarray(positions, np.float64)
        p = np.broadcast_to(p, (2, *p.shape)) if p.ndim == 1 else p
        one, two = (q[..., None] * w for q, w in zip(p, WEIGHT, strict=True))
        cos, sin = (t if t.ndim == 2 else t[:, None] for t in (cosine(one, two), sine(one, two)))
        first, second = x[..., 0::2], x[..., 1::2]
        y = np.stack([first * cos - second * sin, second * cos + first * sin], -1)
        return y.reshape(x.shape).astype(x.dtype)

    found = check(fn, MIXED, "apply").findings[0]
    assert found.code == "not-a-rotation"
    assert words in found.message
