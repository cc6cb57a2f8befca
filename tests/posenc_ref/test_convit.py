"""ConViT's positional logits and its blend: 50 digits, and its code's indices."""

import numpy as np
import pytest

from posenc_ref import ConViTBias, from_dict, scores
from posenc_ref.accuracy import Truth, budget
from posenc_ref.conformance import check
from posenc_ref.conformance.exact.digits import DIGITS, mpmath

mp = mpmath().mp
RNG = np.random.default_rng(43)


def numbers(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


ENCODING = ConViTBias(numbers(RNG, 3, 3), numbers(RNG, 3), numbers(RNG, 3), window=(3, 4))
SQUARE = ENCODING.replace(window=(3, 3))


def exactly(h, i, j, w=4):
    dy, dx = j // w - i // w, j % w - i % w
    parts = zip(ENCODING.weight[h].tolist(), (dx, dy, dx**2 + dy**2), strict=True)
    return mp.fsum([mp.mpf(a) * b for a, b in parts] + [mp.mpf(ENCODING.proj_bias.tolist()[h])])


def test_bias_against_50_digits():
    at = np.array([11, 0, 5, 7])
    truth = ENCODING.truth(at, at[::-1])
    want = np.zeros(truth.value.shape)
    with mp.workdps(DIGITS):
        for h, i, j in np.ndindex(want.shape):
            want[h, i, j] = exactly(h, int(at[i]), int(at[::-1][j]))
    exact = Truth(want, truth.terms, truth.angle)
    assert exact.score(ENCODING.bias(at, at[::-1])).max() <= budget("float64")
    assert exact.score(want * (1 + 2.0**-30)).max() > budget("float64")
    assert from_dict(ENCODING.to_dict()) == ENCODING


def blended(q, k, size=3, gate=None, w=None):
    """GPSA in float64, index by index: x in column 0, y in column 1, their squares in 2."""
    w = SQUARE.weight if w is None else w
    steps = np.arange(size)[None, :] - np.arange(size)[:, None]
    dx = np.tile(steps, (size, size))
    dy = np.repeat(np.repeat(steps, size, axis=0), size, axis=1)
    indices = np.stack([dx, dy, dx**2 + dy**2], axis=-1).astype(np.float64)
    positional = np.moveaxis(indices @ w.astype(np.float64).T + SQUARE.proj_bias, -1, 0)
    content = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5

    def softmax(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    s = 1 / (1 + np.exp(-SQUARE.gate.astype(np.float64)))[:, None, None]
    return (1 - s) * softmax(content) + s * softmax(positional)


def sides(tokens=9):
    rng = np.random.default_rng(1)
    return rng.standard_normal((2, 2, 3, tokens, 8))


def worst(encoding, weights):
    """The worst score of attention weights against those of the encoding: sums of two parts."""
    q, k = sides()
    at = np.arange(9)
    value = encoding.weights(q, k, at, at)
    # What rounding moves of a softmax is its argument's size times itself.
    size = value * (1 + np.abs(encoding.truth(at, at).terms).max() + 8)
    return Truth(value, size, 0 * size).score(weights).max()


def test_weights_of_the_code():
    q, k = sides()
    weights = blended(q, k)
    assert worst(SQUARE, weights) <= budget("float64")
    for wrong in (
        {"weight": SQUARE.weight[:, [1, 0, 2]]},  # y first
        {"weight": SQUARE.weight * np.float32([-1, -1, 1])},  # query minus key
        {"gate": -SQUARE.gate},
        {"gate": 0 * SQUARE.gate},
    ):
        assert worst(SQUARE.replace(**wrong), weights) > budget("float64"), wrong
    same = SQUARE.replace(proj_bias=SQUARE.proj_bias + 2)  # the softmax does not see it
    assert worst(same, weights) <= budget("float64")


def test_weights_are_a_blend_and_no_softmax_of_a_sum():
    q, k = sides()
    at = np.arange(9)
    weights = SQUARE.weights(q, k, at, at)
    ones = Truth(np.ones(weights.shape[:-1]), np.full(weights.shape[:-1], 9.0), np.zeros(1))
    assert ones.score(weights.sum(-1)).max() <= budget("float64")
    bias = SQUARE.bias(at, at)
    logits = q @ k.swapaxes(-1, -2) * 8**-0.5 + bias
    added = np.exp(logits - logits.max(-1, keepdims=True))
    assert worst(SQUARE, added / added.sum(-1, keepdims=True)) > budget("float64")


def positional(q_len, k_len, sign=1, turned=False, root=False):
    """Float32, wrong on demand."""
    i, j = np.arange(k_len - q_len, k_len)[:, None], np.arange(k_len)
    dx, dy = (sign * d for d in (j % 4 - i % 4, j // 4 - i // 4))
    first, second = (dy, dx) if turned else (dx, dy)
    square = np.hypot(dx, dy) if root else dx**2 + dy**2
    parts = np.stack([first, second, square]).astype(np.float32)
    return np.tensordot(ENCODING.weight, parts, axes=1) + ENCODING.proj_bias[:, None, None]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({}, None),
        ({"sign": -1}, "bucket-sign"),
        ({"turned": True}, "axis-order"),
        ({"root": True}, "position-scale"),
    ],
)
def test_the_suite_names_what_is_wrong(wrong, code):
    report = check(lambda q, k: positional(q, k, **wrong), ENCODING, "bias")
    assert report.codes == ([code] if code else [])
    assert report.passed == (code is None)


def test_a_given_scale_and_large_logits(rng):
    q = numbers(rng, 3, 9, 4)
    at = range(9)
    plain, other = (SQUARE.weights(q, q, at, at, scale=s) for s in (None, 2.0))
    doubled = SQUARE.weights(np.float32(2) * q, q, at, at, scale=1.0)
    assert np.array_equal(other, doubled)
    assert not np.array_equal(plain, other)
    far = SQUARE.weights(q * np.float32(2**12), q, at, at)
    assert np.isfinite(far).all()


def test_the_suite_refuses_scores():
    with pytest.raises(ValueError, match="its attention blends two softmaxes"):
        check(lambda q, k: q, ENCODING, "scores")


def test_refusals(rng):
    q = np.zeros((3, 2, 4))
    for make, error, text in (
        (lambda: scores(ENCODING, q, q, [0, 1], [0, 1]), ValueError, "attention blends two"),
        (lambda: ENCODING.weights(q[:2], q[:2], [0, 1], [0, 1]), ValueError, "H = 3 heads"),
        (
            lambda: ENCODING.weights(q, q, [0], [0, 1]),
            ValueError,
            "one position for each row of q and k, 2 and 2",
        ),
        (lambda: ENCODING.weights(q, q[:1], [0, 1], [0, 1]), ValueError, "got .* and .1, 2, 4"),
        (lambda: ENCODING.weights(q, q[:, :0], [0, 1], []), ValueError, "at least one key"),
        (lambda: ENCODING.bias([12], [0]), ValueError, "q_positions must be tokens"),
        (lambda: ENCODING.replace(weight=numbers(rng, 3, 2)), ValueError, r"shape \(H, 3\)"),
        (lambda: ENCODING.replace(gate=numbers(rng, 2)), ValueError, r"gate must have shape \(3\)"),
        (
            lambda: ENCODING.replace(proj_bias=numbers(rng, 2)),
            ValueError,
            r"proj_bias must have shape \(3\)",
        ),
        (lambda: ENCODING.replace(window=3), TypeError, "window must be"),
    ):
        with pytest.raises(error, match=text):
            make()
