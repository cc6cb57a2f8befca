"""Logits of all five encodings against a plain double loop over queries and keys."""

import numpy as np
import pytest

from posenc_ref import ALiBi, Learned, LinearScaling, RoPE, Sinusoidal, T5Bias, scores
from posenc_ref.accuracy import Truth, budget
from posenc_ref.conformance.exact.digits import exact_bucket

B, H, Q, K, D = 2, 3, 4, 5, 8
RNG = np.random.default_rng(11)
WEIGHT = RNG.standard_normal((60, D))
BUCKETS = RNG.standard_normal((32, H))
SLOPES = [2.0**-4, 2.0**-8, 2.0**-2]  # of three heads
q_positions, k_positions = np.array([7, 3, 41, 0]), np.array([0, 9, 2, 41, 12])
q, k = RNG.standard_normal((B, H, Q, D)), RNG.standard_normal((B, H, K, D))


def turn(x, p, factor=1.0, half=D // 2):
    """RoPE in half layout by Python complex numbers."""
    out = list(x)
    for i in range(half):
        angle = p * 10000.0 ** (-i / half) / factor
        z = complex(x[i], x[i + half]) * complex(np.cos(angle), np.sin(angle))
        out[i], out[i + half] = z.real, z.imag
    return out


def sinusoid(x, p):
    waves = [10000.0 ** (-(c // 2) / (D // 2)) for c in range(D)]
    return [
        v + (np.cos if c % 2 else np.sin)(p * w)
        for c, (v, w) in enumerate(zip(x, waves, strict=True))
    ]


# encoding, what happens to q and k, what is added, the scale of its own
CASES = {
    "Sinusoidal": (Sinusoidal(D), sinusoid, None, D**-0.5),
    "Learned": (
        Learned(WEIGHT, offset=2),
        lambda x, p: [v + WEIGHT[p + 2, c] for c, v in enumerate(x)],
        None,
        D**-0.5,
    ),
    "RoPE": (RoPE(D, layout="half"), turn, None, D**-0.5),
    "RoPE, linear": (
        RoPE(D, layout="half", scaling=LinearScaling(4)),
        lambda x, p: turn(x, p, 4.0),
        None,
        D**-0.5,
    ),
    "ALiBi": (ALiBi(H), None, lambda h, i, j: -SLOPES[h] * abs(i - j), D**-0.5),
    "T5Bias": (
        T5Bias(BUCKETS),
        None,
        lambda h, i, j: BUCKETS[exact_bucket(j - i, 32, 128, True), h],
        1.0,
    ),
}


def naive(change, bias, scale):
    """Logits (B, H, Q, K), one number at a time, and the sum of the sizes of what is added."""
    logits, terms = np.zeros((B, H, Q, K)), np.zeros((B, H, Q, K))
    change = change or (lambda x, p: list(x))
    for b, h, i, j in np.ndindex(B, H, Q, K):
        one, two = change(q[b, h, i], q_positions[i]), change(k[b, h, j], k_positions[j])
        products = [u * v * scale for u, v in zip(one, two, strict=True)]
        extra = bias(h, int(q_positions[i]), int(k_positions[j])) if bias else 0.0
        logits[b, h, i, j] = sum(products) + extra
        size = sum(abs(u) for u in one) * sum(abs(v) for v in two) * abs(scale)
        terms[b, h, i, j] = size + abs(extra)
    return Truth(logits, terms, np.full((), 41.0) * terms)


@pytest.mark.parametrize("scale", [None, 0.25, 1.0])
@pytest.mark.parametrize("name", CASES)
def test_scores_against_a_double_loop(name, scale):
    encoding, change, bias, own = CASES[name]
    truth = naive(change, bias, own if scale is None else scale)
    logits = scores(encoding, q, k, q_positions, k_positions, scale=scale)
    assert logits.shape == (B, H, Q, K)
    assert truth.score(logits).max() <= budget("float64")


@pytest.mark.parametrize("name", CASES)
def test_narrow_scores_are_rounded_once(name):
    encoding = CASES[name][0]
    for dtype in (np.float32, np.float16):
        narrow = [a.astype(dtype) for a in (q, k)]
        logits = scores(encoding, *narrow, q_positions, k_positions)
        wide = [a.astype(np.float64) for a in narrow]
        assert logits.dtype == dtype
        assert (logits == scores(encoding, *wide, q_positions, k_positions).astype(dtype)).all()


@pytest.mark.parametrize("name", CASES)
def test_a_batch_of_positions_is_row_by_row(name):
    encoding = CASES[name][0]
    qp = np.stack([q_positions, q_positions[::-1]])
    kp = np.stack([k_positions, k_positions[::-1]])
    logits = scores(encoding, q, k, qp, kp)
    grouped = scores(encoding, q[:, None], k[:, None], qp, kp)  # (B, 1, H, Q, d)
    for b in range(B):
        assert (logits[b] == scores(encoding, q[b], k[b], qp[b], kp[b])).all()
    assert (grouped[:, 0] == logits).all()


@pytest.mark.parametrize("wrong", ["RoPE", "ALiBi", "T5Bias", "Sinusoidal", "Learned"])
def test_scores_of_another_encoding_are_found(wrong):
    other = "ALiBi" if wrong != "ALiBi" else "RoPE"
    _, change, bias, own = CASES[other]
    logits = scores(CASES[wrong][0], q, k, q_positions, k_positions)
    assert naive(change, bias, own).score(logits).max() > budget("float64")


def test_what_scores_refuses():
    rope = RoPE(D, layout="half")
    with pytest.raises(TypeError, match="encoding must be a posenc_ref encoding, got str"):
        scores("rope", q, k, q_positions, k_positions)
    with pytest.raises(TypeError, match="q must be a real floating array"):
        scores(rope, q.astype(np.int64), k, q_positions, k_positions)
    with pytest.raises(TypeError, match="k must be a real floating array"):
        scores(rope, q, k.tolist(), q_positions, k_positions)
    with pytest.raises(ValueError, match=r"\(\.\.\., Q, d\) and \(\.\.\., K, d\)"):
        scores(rope, q, k[:, :2], q_positions, k_positions)
    with pytest.raises(ValueError, match="H = 3 heads"):
        scores(ALiBi(3), q[0, 0], k[0, 0], q_positions, k_positions)
    with pytest.raises(ValueError, match="row of q and k, 4 and 5, got 5 and 4"):
        scores(ALiBi(3), q, k, k_positions, q_positions)
    with pytest.raises(ValueError, match=r"q of shape \(B, \.\.\., H, Q, d\)"):
        scores(ALiBi(3), q[0], k[0], q_positions[None], k_positions[None])
