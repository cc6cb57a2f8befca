"""Queries, keys, values and biases of other batch rows and heads are named."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check

ALIBI = pr.ALiBi(4, causal=False)
RNG = np.random.default_rng(2)
TABLE = RNG.normal(size=(3, 9, 8))
SHAW = pr.Shaw(RNG.normal(size=(9, 8)), before=4)
XL = pr.TransformerXL(
    RNG.normal(size=(3, 8, 16)), RNG.normal(size=(3, 8)), RNG.normal(size=(3, 8)),
    sinusoid=pr.Sinusoidal(16),
)  # fmt: skip


def alibi(q, k, heads=lambda b, h: np.arange(h)):
    """Return logits; ``heads`` returns the head, (H,) or (B, H), whose bias is added."""
    n_q, n_k = q.shape[2], k.shape[2]
    bias = ALIBI.bias(np.arange(n_k - n_q, n_k), np.arange(n_k))
    k = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
    return q @ np.swapaxes(k, -1, -2) * q.shape[3] ** -0.5 + bias[heads(*q.shape[:2])]


def first_row(x):
    return np.broadcast_to(x[:1], x.shape)


def flat(b, h):
    return (np.arange(b)[:, None] * h + np.arange(h)) // b


def tiled(b, h):
    return (np.arange(h) * b + np.arange(b)[:, None]) % h


CASES = {
    "keys": (lambda q, k: alibi(q, first_row(k)), "in the keys, every batch row is that of the"),
    "queries": (lambda q, k: alibi(first_row(q), k), "in the queries, every batch row is that"),
    "rows of keys": (lambda q, k: alibi(q, k[::-1]), "in the keys, each batch row is the one as"),
    "repeated": (lambda q, k: alibi(q, k, flat), "the bias is that of head (b H + h) // B"),
    "tiled": (lambda q, k: alibi(q, k, tiled), "the bias is that of head (h B + b) modulo H"),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_of_other_rows_and_heads(name):
    function, words = CASES[name]
    assert check(alibi, ALIBI, "scores", max_position=130).verdict == "conforms"
    found = check(function, ALIBI, "scores", max_position=130).findings
    assert found[0].message.startswith(words)
    assert "further calls agree" in found[0].evidence


def test_learned_numbers_of_flattened_heads():
    def wrong(q, k):
        heads, found = flat(*q.shape[:2]), np.empty((*q.shape[:3], k.shape[2]))
        at = np.arange(k.shape[2] - q.shape[2], k.shape[2]), np.arange(k.shape[2])
        for b, h in np.ndindex(q.shape[:2]):
            own = [np.repeat(x[b : b + 1, h : h + 1], 3, axis=1) for x in (q, k)]
            found[b, h] = XL.scores(*own, *at)[0, heads[b, h]]
        return found

    found = check(wrong, XL, "scores", max_position=130).findings
    assert found[0].message.startswith(
        "batch row b and head h use the learned numbers of head (b H + h) // B"
    )


def attention(q, k, v, q_at, k_at, *, values=lambda v: v, strict=None):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(values(v), group, axis=1)
    n_q, n_k = q.shape[2], k.shape[2]
    seen = np.tri(n_q, n_k, n_k - n_q - (strict is not None), dtype=bool)
    logits = np.where(seen, q @ np.swapaxes(k, -1, -2) * q.shape[3] ** -0.5, strict or -np.inf)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"values": first_row}, "in the values, every batch row is that of the first"),
        ({"strict": -1e30}, "query 0, which sees none, averages the values of all keys"),
    ],
)
def test_values_of_another_row_and_a_query_that_sees_no_key(changes, words):
    nope = pr.Attention(None)
    assert check(attention, nope, "attention").verdict == "conforms"
    found = check(lambda *a: attention(*a, **changes), nope, "attention").findings
    assert words in found[0].message


def test_rows_before_and_after_are_exchanged():
    declared = pr.Shaw(np.random.default_rng(3).normal(size=(9, 8)), before=6)
    keys = np.asarray(declared.keys)

    def fn(q, k):
        last, queries = k.shape[2], np.arange(k.shape[2] - q.shape[2], k.shape[2])
        r = np.clip(np.arange(last) - queries[:, None], -2, 6) + 2
        term = np.einsum("bhqd,qkd->bhqk", q, keys[r])
        return ((q @ np.swapaxes(k, -1, -2) + term) / np.sqrt(8)).astype(q.dtype)

    message = check(fn, declared, "scores").findings[0].message
    assert message.endswith(
        "clamped to -2 .. 6, plus 2: the numbers of rows before and after are exchanged"
    )
