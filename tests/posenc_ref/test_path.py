"""PaTH: fla-core's plain reference, and the values that special matrices give."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from posenc_ref import ForgettingBias, PaTH, from_dict, scores
from posenc_ref.accuracy import Truth, budget

H, S, D = 2, 11, 8
RNG = np.random.default_rng(67)
V, BETA = RNG.standard_normal((H, S, D)), 2 * RNG.random((H, S))
GATES = ForgettingBias(-RNG.random((H, S)))
Q, K = RNG.standard_normal((2, 1, H, S, D))
AT = np.arange(S)


def truth_of(encoding, q=Q, k=K):
    """The logits with A and B, relative to those of each query's own key."""
    parts = encoding.truths(q, k, AT[:, None], AT[None], D**-0.5).values()
    value, terms = (sum(getattr(t, name) for t in parts) for name in ("value", "terms"))
    value, terms = (x + s * x[..., AT, AT, None] for x, s in ((value, -1), (terms, 1)))
    return Truth(value, terms, 0 * terms)


def of_fla_core(gates):
    """The logits of ``naive_path_attn``, relative to each query's own key, in float32.

    The file is loaded by itself, because the package imports Triton, which needs a GPU. With the
    identity as values, the result is the attention weights.
    """
    torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
    pytest.importorskip("einops", reason="fla-core needs einops")
    found = importlib.util.find_spec("fla")
    if found is None:
        pytest.skip("fla-core is what is compared with")
    file = Path(next(iter(found.submodule_search_locations)), "ops", "path_attn", "naive.py")
    spec = importlib.util.spec_from_file_location("fla_naive_path_attn", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def tokens_first(x):
        return torch.tensor(np.swapaxes(np.asarray(x, np.float32), 1, 2))

    w = V / np.linalg.norm(V, axis=-1, keepdims=True)
    v = np.broadcast_to(np.eye(S), (1, H, S, S))
    inputs = map(tokens_first, (Q, K, v, w[None], BETA[None], gates[None]))
    weights = module.naive_path_attn(*inputs, scale=D**-0.5, chunk_size=4).numpy()
    with np.errstate(divide="ignore"):
        logits = np.log(np.swapaxes(weights, 1, 2).astype(np.float64))
    return logits - logits[..., AT, AT, None]


@pytest.mark.parametrize("gated", [False, True])
def test_fla_core(gated):
    """Chunks of 4 tokens; the log gates are multiplied by the scale."""
    gates = GATES.log_gates if gated else np.zeros((H, S))
    actual, seen = of_fla_core(gates), AT[:, None] >= AT

    def worst(encoding):
        score = truth_of(encoding).score(actual, dtype="float32")
        return np.where(seen, score, 0).max()

    declared = PaTH(V, BETA, forget=GATES, gates_scaled=True) if gated else PaTH(V, BETA)
    assert worst(declared) <= 1
    wrong = PaTH(V, BETA, forget=GATES) if gated else PaTH(V, BETA / 2)
    assert worst(wrong) > budget("float32")


def test_without_beta_nothing_moves():
    np.testing.assert_array_equal(
        scores(PaTH(V, 0 * BETA), Q, K, AT, AT), Q @ K.swapaxes(2, 3) * D**-0.5
    )


def test_one_direction_with_beta_2_alternates_between_two_products():
    """The reflection is its own inverse: an even number of tokens cancels."""
    e = PaTH(np.broadcast_to(V[:, :1], V.shape).copy(), 0 * BETA + 2)
    w = V[:, 0] / np.linalg.norm(V[:, 0], axis=-1, keepdims=True)
    mirrored = Q - 2 * (Q * w[:, None]).sum(-1, keepdims=True) * w[:, None]
    plain, turned = (x @ K.swapaxes(2, 3) * D**-0.5 for x in (Q, mirrored))
    even = (AT[:, None] - AT) % 2 == 0
    (truth,) = e.truths(Q, K, AT[:, None], AT[None], D**-0.5).values()
    seen, got = AT[:, None] >= AT, scores(e, Q, K, AT, AT)

    def worst(want):
        return np.where(seen, Truth(want, truth.terms, truth.angle).score(got), 0).max()

    assert worst(np.where(even, plain, turned)) <= budget("float64")
    assert worst(plain) > budget("float64")


def test_the_length_of_a_direction_does_not_matter():
    """Powers of 2 are exact."""
    np.testing.assert_array_equal(
        scores(PaTH(V * 8, BETA), Q, K, AT, AT), scores(PaTH(V, BETA), Q, K, AT, AT)
    )


def test_values():
    e = PaTH(V, BETA, forget=GATES)
    assert from_dict(e.to_dict()) == e
    assert (e.heads, e.rows, e.head_dim) == (H, S, D)
    with pytest.raises(ValueError, match=r"beta must have shape \(2, 11\)"):
        PaTH(V, BETA[:, 1:])
    with pytest.raises(ValueError, match="lengths above 0 in float64, got 0 for head 1, token 3"):
        PaTH(np.where(np.arange(2 * S).reshape(2, S, 1) == S + 3, 0.0, V), BETA)
    with pytest.raises(ValueError, match="forget must have the 2 heads and 11 tokens"):
        PaTH(V, BETA, forget=ForgettingBias(GATES.log_gates[:, 1:]))
    with pytest.raises(TypeError, match="forget must be a ForgettingBias"):
        PaTH(V, BETA, forget=V)
    with pytest.raises(ValueError, match="gates_scaled must be False without forget"):
        PaTH(V, BETA, gates_scaled=True)
    for q_at, k_at in ((S, 0), (0, -1), (0, S)):
        with pytest.raises(ValueError, match=r"_positions must .* 10, the tokens of directions"):
            scores(e, Q[:, :, :1], K[:, :, :1], [q_at], [k_at])
