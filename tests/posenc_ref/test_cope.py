"""CoPE: a double loop in 50 digits, and x-transformers."""

import numpy as np
import pytest

from posenc_ref import CoPE, from_dict, scores
from posenc_ref.accuracy import Truth, budget
from posenc_ref.conformance.exact.digits import DIGITS, mpmath

from .naive import D, H, check_terms, dot, k, numbers, q, worst_logits

mp = mpmath().mp
RNG = np.random.default_rng(103)
E = numbers(RNG, 3, D)
Q_AT, K_AT = np.array([4, 2, 9, 0]), np.array([0, 1, 3, 2, 9])


def counted(b, h, i, j):
    """p_ij in 50 digits."""
    total = mp.mpf(0)
    for t in range(5):
        if K_AT[j] <= K_AT[t] <= Q_AT[i]:
            total += 1 / (1 + mp.exp(-mp.fsum(dot(q[b, h, i], k[b, h, t])) / mp.sqrt(D)))
    return min(total, mp.mpf(len(E) - 1))


def position(b, h, i, j):
    p = counted(b, h, i, j)
    low = int(mp.floor(p))
    high = min(low + 1, len(E) - 1)
    return [(1 - p + low) * x for x in dot(q[b, h, i], E[low])] + [
        (p - low) * x for x in dot(q[b, h, i], E[high])
    ]


def test_terms_against_a_double_loop():
    with mp.workdps(DIGITS):
        check_terms(
            CoPE(E),
            {
                "content-content": lambda b, h, i, j: dot(q[b, h, i], k[b, h, j]),
                "content-position": position,
            },
            {"content-content": 1 / mp.sqrt(D), "content-position": 1},
            Q_AT,
            K_AT,
            judged=Q_AT[:, None] >= K_AT,
            sizes=False,
        )


def test_positions_count_gates(rng):
    """p_ii is the query's own gate, p falls with the key, and gates of 1 count the tokens."""
    encoding, n = CoPE(numbers(rng, 40, D)), np.arange(20)
    logits = np.random.default_rng(0).standard_normal((20, 20))
    p = encoding.positions(logits, n[:, None], n[None, :])
    own = np.diag(1 / (1 + np.exp(-logits)))
    assert Truth(own, own, np.zeros(20)).score(np.diag(p)).max() <= budget("float64")
    visible = n <= n[:, None]
    assert (np.diff(p, axis=-1) <= 0)[visible[:, 1:]].all()
    far = encoding.positions(np.full((20, 20), 800.0), n[:, None], n[None, :])
    assert (far == n[:, None] - n + 1)[visible].all()


def worst_of_x_transformers(masked):
    """With gates that see the mask, as it calls the module, or do not."""
    x_transformers = pytest.importorskip(
        "x_transformers.x_transformers", reason="x-transformers is what is compared with"
    )
    torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
    module = x_transformers.CoPE(D, H, 3)
    with torch.no_grad():
        module.pos_emb.copy_(torch.tensor(E))
    module = module.double()
    rng = np.random.default_rng(3)
    q_, k_ = rng.standard_normal((2, 2, H, 7, D))
    logits = q_ @ k_.swapaxes(-1, -2) * D**-0.5
    visible = np.tril(np.ones((7, 7), dtype=bool))
    given = np.where(visible, logits, -1e300) if masked else logits
    with torch.no_grad():
        extra = module(torch.tensor(q_), torch.tensor(given)).numpy()
    return worst_logits(CoPE(E), q_, k_, logits + extra, judged=visible)


def test_x_transformers():
    assert worst_of_x_transformers(masked=True) <= budget("float64")
    assert worst_of_x_transformers(masked=False) > budget("float64")


def test_values():
    assert from_dict(CoPE(E).to_dict()) == CoPE(E)
    assert scores(CoPE(E), q, k, Q_AT, K_AT).shape == (1, H, 4, 5)
    with pytest.raises(ValueError, match=r"embedding must have shape \(P, d\)"):
        CoPE(E[0])
