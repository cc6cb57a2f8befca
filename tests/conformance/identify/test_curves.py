"""Curved biases come back with their parameters; what is none of them is not called one."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import identify
from tests.night import by_day

R1, R2 = (1.5, 0.25, 0.625), (0.5, 0.03, 0.9)
NETWORK = {
    "hidden": np.array([[0.5], [-1.0], [2.0]]),
    "hidden_bias": np.array([0.1, 0.7, -0.3]),
    "output": np.array([[1.0, 0.5, -0.25]]),
}


def of(encoding):
    def fn(q_len, k_len):
        q, k = np.arange(k_len - q_len, k_len), np.arange(k_len)
        return np.asarray(encoding.bias(q, k)).astype(np.float32)

    return fn


@pytest.mark.parametrize("causal", by_day([True, False], {True}))
@pytest.mark.parametrize(
    "encoding",
    [
        pr.Kerple(R1, R2),
        pytest.param(pr.Kerple(R1, R2, form="power"), marks=pytest.mark.nightly),
        pytest.param(pr.Sandwich(4, 32), marks=pytest.mark.nightly),
        pr.Sandwich(3, 10),
    ],
    ids=str,
)
def test_parameters_come_back(encoding, causal):
    encoding = encoding.replace(causal=causal)
    fn = of(encoding)

    def masked(q_len, k_len):
        later = np.arange(k_len) > np.arange(k_len - q_len, k_len)[:, None]
        return np.where(later, -np.inf, fn(q_len, k_len))

    card = identify(masked if causal else fn, surface="bias")
    assert card.encoding == encoding, card


@pytest.mark.nightly
def test_a_constant_in_every_head_is_no_matter():
    """Sandwich without the constant dim/2, which softmax does not see."""
    whole = pr.Sandwich(4, 16, causal=False)
    plus = of(whole)
    card = identify(lambda q, k: plus(q, k) + np.float32(8), surface="bias")
    assert card.encoding == whole, card


@pytest.mark.parametrize(
    "change",
    [lambda b, d: b + 0.01 * np.sin(d), lambda b, d: b * (1 + (d > 700)), lambda b, d: -b],
    ids=["a ripple", "a step", "another sign"],
)
def test_what_is_no_such_curve_is_not_called_one(change):
    fn = of(pr.Kerple(R1, R2, causal=False))

    def other(q_len, k_len):
        distance = np.abs(np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len))
        return change(fn(q_len, k_len), distance).astype(np.float32)

    card = identify(other, surface="bias")
    assert card.encoding is None
    assert any("nor a curve of KERPLE" in text for text in card.unknown)


@pytest.mark.nightly
def test_what_is_no_function_of_the_distance_says_so():
    card = identify(of(pr.FIRE(**NETWORK, length=64.0)), surface="bias")
    assert card.encoding is None
    assert any("FIRE" in text for text in card.unknown)
