"""TUPE against a double loop in 50 digits."""

import numpy as np
import pytest

from posenc_ref import TUPE, T5Bias, from_dict
from posenc_ref.conformance.exact.digits import DIGITS, exact_bucket, mpmath

from .naive import D, H, check_terms, dot, k, numbers, q

mp = mpmath().mp
RNG = np.random.default_rng(105)
PQ, PK, TABLE = numbers(RNG, 12, H, D), numbers(RNG, 12, H, D), numbers(RNG, 32, H)
FIRST, LAST = numbers(RNG, H), numbers(RNG, H)
Q_AT, K_AT = np.array([7, 0, 11, 3]), np.array([0, 9, 2, 11, 7])


def summands(untied, biased):
    def product(b, h, i, j):
        if untied and 0 in (Q_AT[i], K_AT[j]):
            return [mp.mpf(0)]
        return dot(PQ[Q_AT[i], h], PK[K_AT[j], h])

    def bias(b, h, i, j):
        if untied and 0 in (Q_AT[i], K_AT[j]):
            return [mp.mpf(0)]
        return [mp.mpf(float(TABLE[exact_bucket(int(K_AT[j] - Q_AT[i]), 32, 128, True), h]))]

    def cls(b, h, i, j):
        theta = FIRST[h] if Q_AT[i] == 0 else LAST[h] if K_AT[j] == 0 else 0.0
        return [mp.mpf(float(theta))]

    found = {
        "content-content": lambda b, h, i, j: dot(q[b, h, i], k[b, h, j]),
        "position-position": product,
    }
    found |= {"bias": bias} if biased else {}
    return found | ({"cls": cls} if untied else {})


@pytest.mark.parametrize("biased", [False, True], ids=["TUPE-A", "TUPE-R"])
@pytest.mark.parametrize("untied", [False, True])
def test_terms_against_a_double_loop(untied, biased):
    encoding = TUPE(
        PQ,
        PK,
        bias=T5Bias(TABLE) if biased else None,
        cls_to_others=FIRST if untied else None,
        others_to_cls=LAST if untied else None,
    )
    with mp.workdps(DIGITS):
        scale = 1 / mp.sqrt(2 * D)
        scales = {"content-content": scale, "position-position": scale, "bias": 1, "cls": 1}
        check_terms(encoding, summands(untied, biased), scales, Q_AT, K_AT)
    assert from_dict(encoding.to_dict()) == encoding


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"position_keys must have shape \(12, 2, 6\)"):
        TUPE(PQ, PK[:3])
    with pytest.raises(TypeError, match="bias must be a T5Bias"):
        TUPE(PQ, PK, bias=TABLE)
    with pytest.raises(ValueError, match="bias must have 2 heads, got 1"):
        TUPE(PQ, PK, bias=T5Bias(TABLE[:, :1]))
    with pytest.raises(ValueError, match="must both be given"):
        TUPE(PQ, PK, cls_to_others=FIRST)
    with pytest.raises(ValueError, match=r"positions must lie in 0 \.\. 11.*got 12"):
        TUPE(PQ, PK).terms(q, k, Q_AT, K_AT + 1)
