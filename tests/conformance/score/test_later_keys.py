"""Mistakes in the logits of keys after the query only."""

import numpy as np
import pytest

from posenc_ref import XPos
from posenc_ref.conformance import check

D = 8
PAIRS = np.arange(D // 2)
ZETA = (2 * PAIRS / D + 0.4) / 1.4


def logits(distance):
    """Return xPos logits in which pair k decays by ``zeta_k ** (distance(i - j) / 512)``."""

    def fn(q, k):
        n_q, n_k = q.shape[2], k.shape[2]
        apart = np.arange(n_k - n_q, n_k)[:, None] - np.arange(n_k)
        turn = np.exp(1j * apart[..., None] * 10000.0 ** (-2 * PAIRS / D))
        decay = ZETA ** (distance(apart)[..., None] / 512)
        pairs = [x[..., : D // 2] + 1j * x[..., D // 2 :] for x in (q, k)]
        each = np.einsum("bhik,bhjk->bhijk", pairs[0], np.conj(pairs[1]))
        return ((each * turn * decay).real.sum(-1) / np.sqrt(D)).astype(np.float32)

    return fn


def test_the_declared_sign_of_the_distance_is_right():
    assert check(logits(lambda d: d), XPos(D, layout="half"), "scores").passed


@pytest.mark.parametrize(
    ("distance", "words"),
    [
        (np.abs, "keys after the query decay as those before it"),
        (np.negative, "the decay has the opposite sign"),
    ],
)
def test_another_distance_is_named(distance, words):
    report = check(logits(distance), XPos(D, layout="half"), "scores")
    assert words in report.findings[0].message, report
