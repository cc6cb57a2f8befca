"""FoX and CABLE: 50 digits, x-transformers, CABLE's own lines, and ALiBi as a special case."""

from functools import partial

import numpy as np
import pytest

from posenc_ref import ALiBi, ForgettingBias, from_dict, scores
from posenc_ref.accuracy import Truth, budget
from posenc_ref.conformance import check
from posenc_ref.conformance.exact.digits import DIGITS, mpmath

mp = mpmath().mp
RNG = np.random.default_rng(41)
S, WIDTH, HEADS = 40, 6, 3
X, WEIGHT, BIAS = (
    RNG.standard_normal(shape).astype(np.float32) for shape in ((S, WIDTH), (HEADS, WIDTH), HEADS)
)
GATES = -np.abs(RNG.standard_normal((HEADS, S))).astype(np.float32)
ENCODING = ForgettingBias(GATES)


def exactly(log_gate, q_at, k_at):
    """One addition for every token in between."""
    want = np.zeros((HEADS, len(q_at), len(k_at)))
    for h, i, j in np.ndindex(want.shape):
        want[h, i, j] = mp.fsum(log_gate(h, t) for t in range(k_at[j] + 1, q_at[i] + 1))
    return want


def cable_gate(h, t):
    z = mp.fsum(mp.mpf(float(a)) * mp.mpf(float(b)) for a, b in zip(WEIGHT[h], X[t], strict=True))
    return -mp.log(1 + mp.exp(z + mp.mpf(float(BIAS[h]))))


def fox_gate(h, t):
    z = mp.fsum(mp.mpf(float(a)) * mp.mpf(float(b)) for a, b in zip(WEIGHT[h], X[t], strict=True))
    return mp.log(1 / (1 + mp.exp(-z - mp.mpf(float(BIAS[h])))))


CASES = {
    "given": (ENCODING, lambda h, t: mp.mpf(float(GATES[h, t]))),
    "FoX": (ForgettingBias.of(X, WEIGHT, BIAS), fox_gate),
    "CABLE": (ForgettingBias.cable(X, WEIGHT, BIAS), cable_gate),
}


@pytest.mark.parametrize("name", CASES)
def test_against_50_digits(name):
    encoding, gate = CASES[name]
    q_at, k_at = [29, 4, 17], [0, 3, 4, 16]
    with mp.workdps(DIGITS):
        want = exactly(gate, q_at, k_at)
    truth = encoding.truth(q_at, k_at)
    judged = np.array(q_at)[:, None] >= np.array(k_at)
    exact = Truth(want, truth.terms, truth.angle)
    assert np.where(judged, exact.score(encoding.bias(q_at, k_at)), 0).max() <= budget("float64")
    assert np.where(judged, exact.score(want * (1 + 2.0**-30)), 0).max() > budget("float64")
    assert encoding.bias([7], [7]).max() == 0.0
    assert from_dict(encoding.to_dict()) == encoding


def test_gates_far_out_neither_overflow_nor_vanish():
    weight, x = np.array([[1.0]]), np.array([[900.0], [-900.0], [40.0]])
    gates = ForgettingBias.of(x, weight).log_gates[0]
    assert gates[0] == 0.0
    assert gates[1] == -900.0
    want = -np.exp(np.array([-40.0]))
    assert Truth(want, abs(want), np.zeros(1)).score(gates[2:]) <= budget("float64")


def test_sums_of_narrow_gates_are_wide():
    """Half-precision gates over 2048 tokens: a sum in their dtype would stop at 512."""
    gates = np.full((1, 2048), -0.25, np.float16)
    bias = ForgettingBias(gates).bias([2047], [0])
    assert bias.item() == -0.25 * 2047


def test_sums_add_up_and_one_gate_is_alibi():
    at = np.arange(S)
    bias, size = ENCODING.bias(at, at), ENCODING.truth(at, at).terms
    through = bias[:, 20, 9] + bias[:, 9, 2]
    one = Truth(bias[:, 20, 2], size[:, 20, 2], 0 * size[:, 20, 2])
    assert one.score(through).max() <= budget("float64")
    slopes = ALiBi(HEADS).slopes()
    same = ForgettingBias(np.repeat(-slopes[:, None], S, axis=1))
    truth, visible = same.truth(at, at), at[:, None] >= at
    score = truth.score(ALiBi(HEADS).bias(at, at))
    assert np.where(visible, score, 0.0).max() <= budget("float64")


# --- libraries -----------------------------------------------------------------------------------


def x_transformers():
    module = pytest.importorskip(
        "x_transformers.x_transformers", reason="x-transformers is what is compared with"
    )
    import torch

    from .attention import filled, host

    made = filled(module.DataDependentAlibi(WIDTH, HEADS))
    bias = made(torch.tensor(X)[None].double())
    linear = made.to_forget_gates[0]
    x = X.astype(np.float64)
    return ForgettingBias.of(x, host(linear.weight), host(linear.bias)), host(bias)[0]


def worst(encoding, bias):
    at = np.arange(S)
    return np.where(at[:, None] >= at, encoding.truth(at, at).score(bias), 0.0).max()


def worst_of_x_transformers():
    return worst(*x_transformers())


def test_x_transformers():
    encoding, bias = x_transformers()
    assert worst(encoding, bias) <= budget("float64")
    moved = ForgettingBias(
        np.roll(encoding.log_gates, 1, axis=1)
    )  # the key's gate, not the query's
    for wrong in (moved, ForgettingBias(-encoding.log_gates)):
        assert worst(wrong, bias) > budget("float64")


def test_cable_is_fox_with_the_signs_changed():
    """Its code: cumulative sums of -softplus(h_attn(x)), the difference, no 1/sqrt(d)."""
    torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    z = torch.tensor(X).double() @ torch.tensor(WEIGHT).double().T + torch.tensor(BIAS).double()
    sums = torch.cumsum(-torch.nn.functional.softplus(z), dim=0).T
    bias = (sums[:, :, None] - sums[:, None, :]).numpy()
    cable = ForgettingBias.cable(X, WEIGHT, BIAS)
    assert worst(cable, bias) <= budget("float64")
    assert worst(ForgettingBias.of(X, WEIGHT, BIAS), bias) > budget("float64")
    assert cable.own_scale(16) == 1.0
    assert cable.replace(scaled=True).own_scale(16) == 0.25


# --- the suite -----------------------------------------------------------------------------------


def bias_of(q_len, k_len, sign=1, late=0):
    """Float32, wrong on demand."""
    sums = np.cumsum(np.roll(GATES, -late, axis=1), axis=1, dtype=np.float32) * np.float32(sign)
    return sums[:, k_len - q_len : k_len, None] - sums[:, None, :k_len]


def logits(q, k, **wrong):
    n_q, n_k = q.shape[2], k.shape[2]
    return q @ k.swapaxes(-1, -2) / np.sqrt(np.float32(q.shape[-1])) + bias_of(n_q, n_k, **wrong)


@pytest.mark.parametrize(
    ("wrong", "code"), [({}, None), ({"sign": -1}, "bias-sign"), ({"late": -1}, "position-origin")]
)
def test_the_suite_names_what_is_wrong(wrong, code):
    for fn, surface in ((bias_of, "bias"), (logits, "scores")):
        report = check(partial(fn, **wrong), ENCODING, surface)
        assert report.passed == (code is None), report
        assert report.codes == ([code] if code else []), report


def test_refusals():
    q = np.zeros((1, HEADS, 2, 4))
    assert scores(ENCODING, q, q, [3, 4], [3, 4]).shape == (1, HEADS, 2, 2)
    for make, error, text in (
        (lambda: ForgettingBias([[0.0]]), TypeError, "log_gates must be a real floating array"),
        (lambda: ForgettingBias(GATES[0]), ValueError, r"log_gates must have shape \(H, S\)"),
        (lambda: ForgettingBias.of(X, WEIGHT[:, :5]), ValueError, r"weight must have shape \(H, 6"),
        (lambda: ForgettingBias.of(X, WEIGHT, BIAS[:2]), ValueError, r"bias must have shape \(3\)"),
        (lambda: ENCODING.bias([40], [0]), ValueError, r"q_positions must lie in 0 \.\. 39"),
        (lambda: ENCODING.bias([0.5], [0]), TypeError, "q_positions must be integers"),
        (lambda: ENCODING.toeplitz(2, 2), ValueError, "not depend on key - query"),
    ):
        with pytest.raises(error, match=text):
            make()
