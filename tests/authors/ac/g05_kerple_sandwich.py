"""KERPLE and Sandwich."""
import numpy as np
import torch

R1 = np.array([0.5, 1.25, 0.02, 2.0])
R2 = np.array([0.1, 1.0, 0.75, 1.5])


def _dist(q_len, k_len):
    return np.abs(np.arange(k_len)[None, :] - np.arange(k_len - q_len, k_len)[:, None]).astype(float)


# ---------------------------------------------------------------- right
def kerple_log_lookup(q_len, k_len):
    """A table of distances, gathered; log1p through log2 of an exact sum in extended precision."""
    n = np.arange(k_len + q_len, dtype=np.longdouble)
    table = -(R1[:, None] * np.log2(1 + R2[:, None] * n) * np.log(np.longdouble(2)))
    return table[:, _dist(q_len, k_len).astype(int)].astype(np.float64)


def sandwich_gram(q_len, k_len):
    """The Gram matrix of sine-cosine rows (k = 1 ..), minus dim / 2."""
    dim, heads = 64, 4
    w = 10000.0 ** (-2 * np.arange(1, dim // 2 + 1) / dim)
    a = np.arange(k_len)[:, None] * w
    pe = np.concatenate([np.sin(a), np.cos(a)], -1)
    g = pe[k_len - q_len :] @ pe.T - dim / 2
    return np.stack([g * heads / (8 * h) for h in range(1, heads + 1)])


# ---------------------------------------------------------------- wrong


def kerple_log_no_one(q_len, k_len):
    """log(max(r2 d, 1)): the 1 + was taken for a clamp."""
    d = _dist(q_len, k_len)
    return -R1[:, None, None] * np.log(np.maximum(R2[:, None, None] * d, 1.0))


def kerple_power_inside(q_len, k_len):
    d = _dist(q_len, k_len)
    return -((R1[:, None, None] * d) ** R2[:, None, None])


def kerple_first_head(q_len, k_len):
    """r2 of head 0 for every head."""
    d = _dist(q_len, k_len)
    return -R1[:, None, None] * np.log1p(R2[0] * d)


def sandwich_from_zero(q_len, k_len):
    dim, heads = 64, 4
    d = _dist(q_len, k_len)
    w = 10000.0 ** (-2 * np.arange(dim // 2) / dim)
    g = np.cos(d[..., None] * w).sum(-1) - dim / 2
    return g[None] * heads / (8 * np.arange(1, heads + 1))[:, None, None]


def sandwich_second_block_of_heads(q_len, k_len):
    """Kernel in blocks of 4 heads: the second block starts counting at 4, not at 5."""
    dim, heads = 32, 6
    d = _dist(q_len, k_len)
    w = 10000.0 ** (-2 * np.arange(1, dim // 2 + 1) / dim)
    g = np.cos(d[..., None] * w).sum(-1) - dim / 2
    h = np.array([1, 2, 3, 4, 4, 5])
    return g[None] * heads / (8.0 * h)[:, None, None]
