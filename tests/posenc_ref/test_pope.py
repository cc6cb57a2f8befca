"""PoPE: a double loop in 50 digits, and x-transformers' attention."""

import numpy as np
import pytest

from posenc_ref import PoPE, from_dict, scores
from posenc_ref.accuracy import budget
from posenc_ref.conformance.exact.digits import DIGITS, mpmath

from .naive import K_AT, Q_AT, D, H, check_terms, k, numbers, q, worst_logits

mp = mpmath().mp
PHASES = -np.abs(numbers(np.random.default_rng(104), H, D))


def softplus(x):
    return mp.log(1 + mp.exp(mp.mpf(float(x))))


def summands(phases):
    def of(b, h, i, j):
        theta = [mp.power(10000, -mp.mpf(c) / D) for c in range(D)]
        delta = [0.0] * D if phases is None else phases[h].tolist()
        r = int(K_AT[j] - Q_AT[i])
        return [
            softplus(q[b, h, i, c]) * softplus(k[b, h, j, c]) * mp.cos(r * theta[c] + delta[c])
            for c in range(D)
        ]

    return {"content-content": of}


@pytest.mark.parametrize("phases", [None, PHASES], ids=["plain", "phases"])
def test_terms_against_a_double_loop(phases):
    with mp.workdps(DIGITS):
        check_terms(PoPE(D, phases), summands(phases), 1 / mp.sqrt(D), sizes=False)


def attention(phases, heads=3, dim=16, length=9):
    """q, k before they are turned, and the logits of x-transformers' attention."""
    x_transformers = pytest.importorskip(
        "x_transformers.x_transformers", reason="x-transformers is what is compared with"
    )
    torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
    torch.manual_seed(5)
    module = x_transformers.Attention(heads * dim, dim_head=dim, heads=heads)
    polar = x_transformers.PolarEmbedding(dim, heads)
    x, seen = torch.randn(2, length, heads * dim), {}
    for name in ("to_q", "to_k"):
        made = getattr(module, name)
        made.register_forward_hook(lambda _, __, out, name=name: seen.update({name: out}))
    with torch.no_grad():
        polar.learned_bias.copy_(torch.tensor(phases)[:, None])
        _, rest = module(x, polar_pos_emb=polar(torch.arange(length)), return_intermediates=True)
        sides = (seen[n].unflatten(-1, (heads, dim)).swapaxes(1, 2).numpy() for n in seen)
    return (*sides, rest.pre_softmax_attn.numpy())


def worst_of_x_transformers(declared=None):
    phases = -np.abs(numbers(np.random.default_rng(106), 3, 16))
    encoding = PoPE(16, phases) if declared is None else declared(phases)
    return worst_logits(encoding, *attention(phases), "float32")


def test_x_transformers():
    assert worst_of_x_transformers() <= budget("float32")
    for other in (
        lambda phases: PoPE(16, -phases),
        lambda phases: PoPE(16, phases[::-1]),
        lambda phases: PoPE(16, phases, base=100.0),
    ):
        assert worst_of_x_transformers(other) > budget("float32")


def test_x_transformers_holds_phases_below_zero():
    """A trap of the docstring: positive phases are 0 there, and no number here."""
    phases = np.abs(numbers(np.random.default_rng(107), 3, 16))
    made = attention(phases)
    assert worst_logits(PoPE(16, 0 * phases), *made, "float32") <= budget("float32")
    assert worst_logits(PoPE(16, phases), *made, "float32") > budget("float32")


def test_position_alone_turns_signs():
    """At one position every logit is positive, whatever the signs of q and k."""
    assert (scores(PoPE(D), q, k, [5] * 4, [5] * 5) > 0).all()


def test_values():
    assert from_dict(PoPE(D, PHASES).to_dict()) == PoPE(D, PHASES)
    assert np.array_equal(PoPE(4).frequencies(), [1.0, 0.1, 0.01, 0.001])
    assert PoPE(4).heads is None
    assert PoPE(D, PHASES).heads == H
    for bad, error, message in (
        (lambda: PoPE(0), ValueError, "head_dim must be at least 1"),
        (lambda: PoPE(4, base=-1.0), ValueError, "base must be"),
        (lambda: PoPE(4, PHASES), ValueError, r"phases must have shape \(H, 4\)"),
        (lambda: PoPE(4, [[0.0] * 4]), TypeError, "phases must be a real floating array"),
    ):
        with pytest.raises(error, match=message):
            bad()
