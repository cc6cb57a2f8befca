"""Moving between channel layouts: tensors, projection weights, and the logits that stay."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_ref import RoPE, convert_layout, layout_permutation, permute_weights
from posenc_ref.accuracy import Truth, budget

OTHER = {"half": "interleaved", "interleaved": "half"}
layouts = st.sampled_from(sorted(OTHER))


def test_permutation_by_hand():
    perm = layout_permutation(8, source="interleaved", target="half")
    assert perm.tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    perm = layout_permutation(8, source="half", target="interleaved")
    assert perm.tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
    perm = layout_permutation(8, source="half", target="interleaved", rotary_dim=4)
    assert perm.tolist() == [0, 2, 1, 3, 4, 5, 6, 7]
    assert layout_permutation(6, source="half", target="half").tolist() == list(range(6))


@given(layouts, st.integers(1, 8), st.integers(0, 3), st.integers(0, 99))
def test_converted_vectors_rotate_alike(source, half, rest, seed):
    """half(x[perm]) == interleaved(x)[perm], bit for bit, and back again."""
    d, target = 2 * half, OTHER[source]
    x = np.random.default_rng(seed).standard_normal((2, 3, 4, d + rest)).astype(np.float32)
    here = RoPE(d + rest, layout=source, rotary_dim=d)
    there = here.replace(layout=target)
    moved = convert_layout(x, source=source, target=target, rotary_dim=d)
    rotated = convert_layout(here.apply(x, range(4)), source=source, target=target, rotary_dim=d)
    assert (there.apply(moved, range(4)) == rotated).all()
    back = convert_layout(moved, source=target, target=source, rotary_dim=d)
    assert (back == x).all()
    assert not np.shares_memory(back, x)


def naive_weights(w, n_heads, source, rotary_dim):
    """One row after the other: row (h, c) of the result is row (h, perm[c]) of w."""
    head_dim = w.shape[0] // n_heads
    half = rotary_dim // 2
    rows = []
    for h in range(n_heads):
        for c in range(head_dim):
            if c >= rotary_dim:
                old = c
            elif source == "half":  # to interleaved: pair c // 2, member c % 2
                old = c // 2 + (c % 2) * half
            else:  # to half: pair c % half, member c // half
                old = 2 * (c % half) + c // half
            rows.append(w[h * head_dim + old])
    return np.array(rows)


@given(layouts, st.integers(1, 4), st.integers(1, 4), st.integers(0, 2), st.integers(1, 3))
def test_weights_row_by_row(source, n_heads, half, rest, hidden):
    d = 2 * half
    w = np.random.default_rng(0).standard_normal((n_heads * (d + rest), hidden))
    fields = {"source": source, "target": OTHER[source], "rotary_dim": d}
    moved = permute_weights(w, n_heads, **fields)
    assert (moved == naive_weights(w, n_heads, source, d)).all()
    assert (permute_weights(w[:, 0], n_heads, **fields) == moved[:, 0]).all()  # a bias vector
    fields |= {"source": OTHER[source], "target": source}
    assert (permute_weights(moved, n_heads, **fields) == w).all()


@pytest.mark.parametrize("rotary_dim", [None, 8])
def test_logits_stay_with_grouped_keys(rotary_dim):
    """q has 4 heads, k has 2; each weight is permuted with its own number of heads."""
    rng = np.random.default_rng(7)
    hidden, d, s = 10, 16, 6
    x = rng.standard_normal((s, hidden))
    weights = {"q": (rng.standard_normal((4 * d, hidden)), 4)}
    weights["k"] = (rng.standard_normal((2 * d, hidden)), 2)

    def logits(layout, permute):
        rope = RoPE(d, layout=layout, rotary_dim=rotary_dim)
        heads = {}
        for name, (w, n) in weights.items():
            w = permute_weights(w, n, rotary_dim=rotary_dim) if permute else w
            heads[name] = rope.apply((x @ w.T).reshape(s, n, d).swapaxes(0, 1), range(s))
        k = heads["k"].repeat(2, axis=0)
        size = np.abs(heads["q"]) @ np.abs(k).swapaxes(1, 2)
        return heads["q"] @ k.swapaxes(1, 2), size

    want, size = logits("half", permute=False)
    ours, _ = logits("interleaved", permute=True)
    truth = Truth(want, hidden * size, np.zeros(()), np.full((), 1.0))
    assert truth.score(ours, angles="exact").max() <= budget("float64")
    unpermuted, _ = logits("interleaved", permute=False)
    assert truth.score(unpermuted, angles="exact").max() > budget("float64")


def test_keys_permuted_with_the_query_heads_are_wrong():
    w = np.arange(32.0)
    right, wrong = permute_weights(w, 2), permute_weights(w, 4)
    assert (right != wrong).any()
