"""ALiBi: slopes, sign, and the bias of a single query."""

import math

import numpy as np

from ._case import right, wrong

SLOPES, SIGNED, DECODING = "naive ALiBi slopes", "signed bias", "bias missing while decoding"


def alibi(num_heads, **fields):
    return {"encoding": "ALiBi", "num_heads": num_heads, **fields}


def paper_slopes(n):
    """The paper's code."""

    def power_of_2(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(n).is_integer():
        return np.array(power_of_2(n))
    closest = 2 ** math.floor(math.log2(n))
    return np.array(power_of_2(closest) + list(paper_slopes(2 * closest)[0::2])[: n - closest])


def relative(q_len, k_len):
    """Key minus query, (Q, K)."""
    return np.arange(k_len)[None, :] - np.arange(k_len - q_len, k_len)[:, None]


def dense(slopes, distance):
    return np.asarray(slopes, np.float32)[:, None, None] * distance.astype(np.float32)


# --- slopes --------------------------------------------------------------------------------------


@wrong(SLOPES, "slopes", "power of two", surface="slopes", encoding=alibi(12))
def geometric_slopes(num_heads):
    return np.array([2 ** (-8 * (i + 1) / num_heads) for i in range(num_heads)], np.float32)


@wrong(SLOPES, "slopes", "power of two", surface="slopes", encoding=alibi(20))
def slopes_by_powers_of_a_ratio(num_heads):
    ratio = 2 ** (-8 / num_heads)
    return np.cumprod(np.full(num_heads, ratio))


@wrong(SLOPES, "slopes", "power of two", surface="slopes", encoding=alibi(25), backend="torch")
def slopes_by_torch(num_heads):
    import torch

    m = torch.arange(1, num_heads + 1, dtype=torch.float32) * 8.0 / num_heads
    return 1.0 / torch.pow(2, m)


@wrong(SLOPES, "slopes", "power of two", surface="slopes", encoding=alibi(6), backend="torch",
       dtype="bfloat16")  # fmt: skip
def slopes_in_bfloat16(num_heads):
    import torch

    return (2 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)).to(torch.bfloat16)


@wrong(SLOPES, "slopes", "h = 0", surface="slopes", encoding=alibi(16))
def slopes_from_one(num_heads):
    return 2.0 ** (-8.0 * np.arange(num_heads) / num_heads)


@wrong(SLOPES, "slopes", "power of two", surface="bias", encoding=alibi(12))
def bias_of_geometric_slopes(q_len, k_len):
    slopes = 2.0 ** (-8.0 * np.arange(1, 13) / 12)
    return dense(slopes, relative(q_len, k_len))


@wrong(SLOPES, "slopes", "power of two", surface="bias", encoding=alibi(6, causal=False))
def symmetric_bias_of_geometric_slopes(q_len, k_len):
    slopes = 2.0 ** (-8.0 * np.arange(1, 7) / 6)
    return dense(-slopes, np.abs(relative(q_len, k_len)))


@wrong(SLOPES, "slopes", "power of two", surface="scores", encoding=alibi(12))
def logits_of_geometric_slopes(q, k):
    slopes = 2.0 ** (-8.0 * np.arange(1, 13) / 12)
    bias = dense(slopes, relative(q.shape[2], k.shape[2]))
    return q @ k.swapaxes(-1, -2) / np.sqrt(np.float32(q.shape[-1])) + bias


@right(SLOPES, surface="slopes", encoding=alibi(12))
def slopes_of_the_paper(num_heads):
    return paper_slopes(num_heads)


# --- sign ----------------------------------------------------------------------------------------


@wrong(SIGNED, "bias-sign", "signed", surface="bias", encoding=alibi(8, causal=False))
def bias_of_key_minus_query(q_len, k_len):
    return dense(paper_slopes(8), relative(q_len, k_len))


@wrong(SIGNED, "bias-sign", "signed", surface="bias", encoding=alibi(12, causal=False),
       backend="torch")  # fmt: skip
def torch_bias_of_key_minus_query(q_len, k_len):
    import torch

    slopes = torch.tensor(paper_slopes(12), dtype=torch.float32)
    distance = torch.arange(k_len)[None, :] - torch.arange(k_len - q_len, k_len)[:, None]
    return slopes[:, None, None] * distance[None]


@wrong(SIGNED, "bias-sign", "signed", surface="bias", encoding=alibi(4, causal=False))
def bias_of_query_minus_key(q_len, k_len):
    return dense(paper_slopes(4), -relative(q_len, k_len))


@wrong(SIGNED, "bias-sign", "reward", surface="bias", encoding=alibi(16))
def causal_bias_of_query_minus_key(q_len, k_len):
    return dense(paper_slopes(16), -relative(q_len, k_len))


@wrong(SIGNED, "bias-sign", "signed", surface="scores", encoding=alibi(8, causal=False))
def logits_with_a_signed_bias(q, k):
    bias = dense(paper_slopes(8), relative(q.shape[2], k.shape[2]))
    return q @ k.swapaxes(-1, -2) / np.sqrt(np.float32(q.shape[-1])) + bias


@wrong(SIGNED, "bias-sign", "signed", surface="bias", encoding=alibi(8, causal=False),
       backend="torch", dtype="bfloat16")  # fmt: skip
def signed_bias_in_bfloat16(q_len, k_len):
    import torch

    return torch.tensor(bias_of_key_minus_query(q_len, k_len)).to(torch.bfloat16)


@right(SIGNED, surface="bias", encoding=alibi(8, causal=False))
def bias_of_the_absolute_distance(q_len, k_len):
    return dense(paper_slopes(8), -np.abs(relative(q_len, k_len)))


# --- decoding ------------------------------------------------------------------------------------


@wrong(DECODING, "bias-missing", "single query", surface="bias", encoding=alibi(8))
def no_bias_for_one_query(q_len, k_len):
    if q_len == 1:
        return np.zeros((8, 1, k_len), np.float32)
    return dense(paper_slopes(8), relative(q_len, k_len))


@wrong(DECODING, "bias-missing", "with a cache", surface="bias",
       encoding=alibi(12, causal=False))  # fmt: skip
def no_bias_with_a_cache(q_len, k_len):
    if q_len != k_len:
        return np.zeros((12, q_len, k_len), np.float32)
    return dense(paper_slopes(12), -np.abs(relative(q_len, k_len)))


@wrong(DECODING, "bias-alignment", "the position of key i", surface="bias", encoding=alibi(4))
def first_rows_of_the_bias(q_len, k_len):
    n = max(q_len, k_len)
    at = np.arange(n)
    whole = dense(paper_slopes(4), -np.abs(at[:, None] - at[None, :]))
    return whole[:, :q_len, :k_len]


@wrong(DECODING, "bias-missing", "single query", surface="scores", encoding=alibi(8))
def logits_without_bias_for_one_query(q, k):
    logits = q @ k.swapaxes(-1, -2) / np.sqrt(np.float32(q.shape[-1]))
    if q.shape[2] > 1:
        logits = logits + dense(paper_slopes(8), relative(q.shape[2], k.shape[2]))
    return logits


@wrong(DECODING, "bias-missing", "with a cache", surface="scores", encoding=alibi(6))
def logits_without_bias_with_a_cache(q, k):
    logits = q @ k.swapaxes(-1, -2) / np.sqrt(np.float32(q.shape[-1]))
    if q.shape[2] == k.shape[2]:
        logits = logits + dense(paper_slopes(6), relative(q.shape[2], k.shape[2]))
    return logits


@wrong(DECODING, "bias-missing", "single query", surface="bias",
       encoding={"encoding": "Kerple", "r1": [1.5, 0.5], "r2": [0.25, 0.75]})  # fmt: skip
def no_kerple_for_one_query(q_len, k_len):
    distance = np.abs(relative(q_len, k_len)).astype(np.float32)
    r1, r2 = (np.array(v, np.float32)[:, None, None] for v in ([1.5, 0.5], [0.25, 0.75]))
    return -r1 * np.log1p(r2 * distance) * (q_len > 1)


@right(DECODING, surface="scores", encoding=alibi(8))
def logits_with_bias_for_one_query(q, k):
    logits = q @ k.swapaxes(-1, -2) / np.sqrt(np.float32(q.shape[-1]))
    return logits + dense(paper_slopes(8), relative(q.shape[2], k.shape[2]))
