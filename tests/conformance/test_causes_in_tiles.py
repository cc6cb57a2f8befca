"""First findings on attentions with sinks of grouped heads, and on tiles that start anew."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check

HEADS, KEYS = ("H / H_kv, H_kv", "H_kv, H / H_kv")


def attend(q, k, v, q_at, k_at, sinks=None, *, bias=None, encoding=None, scale=None):
    """Attention over the keys up to each query, from the formulas."""
    q, k, v = (np.float64(x) for x in (q, k, v))
    if encoding is not None:
        q, k = encoding.apply(q, q_at), encoding.apply(k, k_at)
    k, v = (x.repeat(q.shape[1] // k.shape[1], axis=1) for x in (k, v))
    logits = np.einsum("bhqd,bhkd->bhqk", q, k) * (scale or q.shape[-1] ** -0.5)
    logits += 0 if bias is None else bias(q_at, k_at)
    n_q, n_k = logits.shape[-2:]
    weights = np.exp(logits) * np.tri(n_q, n_k, n_k - n_q)
    total = weights.sum(-1, keepdims=True)
    total += 0 if sinks is None else np.exp(np.float64(sinks))[:, None, None]
    return np.float32(weights / total @ v)


def first(fn, declared):
    report = check(fn, declared, "attention")
    assert report.verdict == "deviates"
    return report.findings[0]


@pytest.mark.parametrize("columns", [HEADS, KEYS])
def test_sinks_of_grouped_heads_in_another_order(columns):
    rope = pr.RoPE(16, layout="interleaved")

    def fn(q, k, v, q_at, k_at, sinks):
        groups, key_heads = q.shape[1] // k.shape[1], k.shape[1]
        shape = (groups, key_heads) if columns == HEADS else (key_heads, groups)
        moved = [sinks[i * shape[1] + j] for j in range(shape[1]) for i in range(shape[0])]
        return attend(q, k, v, q_at, k_at, moved, encoding=rope)

    found = first(fn, pr.Attention(rope, sinks=True))
    assert found.code == "sinks"
    assert f"the sinks of grouped heads are read in the order ({columns})" in found.message


@pytest.mark.parametrize(("side", "words"), [(0, "queries"), (1, "keys")])
def test_tiles_that_all_have_the_positions_of_the_first(side, words):
    alibi = pr.ALiBi(2)

    def fn(q, k, v, *at):
        at = [np.asarray(p) for p in at]
        at[side] = np.array([at[side][i % 16] for i in range(at[side].size)])
        return attend(q, k, v, *at, bias=lambda i, j: np.asarray(alibi.bias(i, j)))

    found = first(fn, pr.Attention(alibi))
    assert found.message == f"every tile of 16 {words} has the positions of the first tile"


def test_the_remedy_has_the_declared_scale():
    rope = pr.RoPE(16, layout="half")
    fn = lambda *given: attend(*given, encoding=rope)  # noqa: E731
    found = first(fn, pr.Attention(rope, softmax_scale=0.0625))
    assert found.remedy == "Multiply q . k by the declared scale, 0.0625, once."


def test_columns_of_sinusoids_are_reordered_not_the_projections():
    rng = np.random.default_rng(3)
    weights = {
        "projection": rng.standard_normal((2, 8, 8)),
        "content_bias": rng.standard_normal((2, 8)),
        "position_bias": rng.standard_normal((2, 8)),
    }
    declared = pr.TransformerXL(**weights, sinusoid=pr.Sinusoidal(8))
    other = pr.TransformerXL(**weights, sinusoid=pr.Sinusoidal(8, layout="concat"))

    def fn(q, k):
        n, n_k = q.shape[2], k.shape[2]
        x, y = np.float64(q), np.float64(k)
        return np.float32(pr.scores(other, x, y, range(n_k - n, n_k), range(n_k)))

    found = check(fn, declared, "scores").findings[0]
    assert found.code == "layout"
    assert found.remedy.startswith("Order the columns as declared: column 2k is the sine")


@pytest.mark.parametrize("rows", [True, False], ids=["rows", "no rows"])
def test_tokens_that_two_tiles_rotate_in_place(rows):
    rope = pr.RoPE(16, layout="half")

    def fn(x, p):
        p, y, size = np.asarray(p), np.array(x), x.shape[2]
        if p.ndim > 1 and not rows:
            p = p[:, 0] if size == 1 else np.broadcast_to(p, (size,))
        starts = list(range(0, size, 32))
        starts[-1] = size - 32 if size > 32 and size % 32 else starts[-1]
        for s in starts:
            y[:, :, s : s + 32] = rope.apply(y[:, :, s : s + 32], p[..., s : s + 32])
        return y.astype(np.float32)

    (found,) = check(fn, rope, "apply").findings
    assert found.message.startswith("the last tile of 32 tokens is moved back")
