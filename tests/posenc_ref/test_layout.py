"""Moving between channel layouts: tensors, projection weights, and the logits that stay."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_ref import (
    RoPE,
    convert_layout,
    layout_permutation,
    permute_fused_weights,
    permute_weights,
)
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
    fields = {"source": source, "target": OTHER[source], "rotary_dim": d, "head_dim": d + rest}
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


def test_permutation_of_a_slice_by_hand():
    fields = {"source": "half", "target": "interleaved", "rotary_start": 2}
    assert layout_permutation(8, rotary_dim=4, **fields).tolist() == [0, 1, 2, 4, 3, 5, 6, 7]
    assert layout_permutation(8, **fields).tolist() == [0, 1, 2, 5, 3, 6, 4, 7]
    x = np.arange(16).reshape(2, 8)
    assert convert_layout(x, rotary_dim=4, **fields)[1].tolist() == [8, 9, 10, 12, 11, 13, 14, 15]
    w = permute_weights(np.arange(16), 2, rotary_dim=4, **fields)
    assert w.tolist() == [0, 1, 2, 4, 3, 5, 6, 7, 8, 9, 10, 12, 11, 13, 14, 15]


@pytest.mark.parametrize("source", sorted(OTHER))
def test_a_permuted_slice_rotates_alike(source):
    """DeepSeek's heads: 8 channels without positions, then 4 rotated ones."""
    here = RoPE(12, layout=source, rotary_dim=4, rotary_start=8)
    x = np.random.default_rng(3).standard_normal((2, 3, 5, 12))
    fields = {"source": source, "target": OTHER[source], "rotary_dim": 4, "rotary_start": 8}
    there = here.replace(layout=OTHER[source])
    rotated = there.apply(convert_layout(x, **fields), range(5))
    assert (rotated == convert_layout(here.apply(x, range(5)), **fields)).all()


@pytest.mark.parametrize("n_kv", [1, 2, 4])
@pytest.mark.parametrize("grouped", [False, True])
def test_fused_weights_equal_the_parts(n_kv, grouped):
    """Taken apart, permuted with their own numbers of heads, and put together again."""
    d, n = 6, 4
    rng = np.random.default_rng(5)
    q, k, v = (rng.standard_normal((heads * d, 3)) for heads in (n, n_kv, n_kv))

    def fused(q, k, v):
        groups = n_kv if grouped else 1
        parts = [part.reshape(groups, -1, 3) for part in (q, k, v)]
        return np.concatenate(parts, axis=1).reshape(-1, 3)

    moved = [permute_weights(part, len(part) // d, head_dim=d, rotary_dim=4) for part in (q, k)]
    sizes = [len(part) // (n_kv if grouped else 1) for part in (q, k, v)]
    fields = {"head_dim": d, "groups": n_kv if grouped else 1, "rotary_dim": 4}
    result = permute_fused_weights(fused(q, k, v), sizes, **fields)
    assert (result == fused(*moved, v)).all()
    assert (permute_fused_weights(fused(q, k, v)[:, 1], sizes, **fields) == result[:, 1]).all()


#: Rows, columns and n_heads of a fused matrix, with the heads that the message names.
FUSED = [
    (48 * 128, 4096, 32, "key heads 8, value heads 8, each of 128"),
    (48 * 128, 3, 32, "key heads 8, value heads 8, each of 128"),
    (3 * 2048, 3, 16, "key heads 4, value heads 4, each of 256"),  # or 16 of each, of 128
    (32 * 128, 2048, 16, "key heads 8, value heads 8, each of 128"),  # as large as heads of 256
    (34 * 64, 3, 32, "key heads 1, value heads 1, each of 64"),
]


@pytest.mark.parametrize(("rows", "columns", "n_heads", "message"), FUSED)
def test_what_may_be_fused_is_refused(rows, columns, n_heads, message):
    w = np.zeros((rows, columns), np.int8)
    with pytest.raises(ValueError, match=message):
        permute_weights(w, n_heads)
    assert permute_weights(w, n_heads, head_dim=rows // n_heads).shape == w.shape
    with pytest.raises(ValueError, match="n_heads \\* head_dim"):
        permute_weights(w, n_heads, head_dim=64 if n_heads == 16 else 32)


@pytest.mark.parametrize(("rows", "columns", "n_heads"), [
    (4096, 4096, 32), (1024, 4096, 8), (2048, 2304, 8), (512, 512, 8), (128, 4096, 1),
])  # fmt: skip
def test_usual_projections_need_no_head_dim(rows, columns, n_heads):
    permute_weights(np.zeros((rows, columns), np.int8), n_heads)
    permute_weights(np.zeros(rows), n_heads)
