"""Biases of sequences: ALiBi, T5, KERPLE, FIRE, Sandwich, forgetting, residues and chains."""
import math

import numpy as np

_r = np.random.default_rng(1903)
T5_TABLE = _r.standard_normal((32, 4)).astype(np.float32)
T5_CAUSAL = _r.standard_normal((32, 6)).astype(np.float32)
FIRE_W1 = _r.standard_normal((16, 1)).astype(np.float32)
FIRE_B1 = _r.standard_normal(16).astype(np.float32)
FIRE_W2 = _r.standard_normal((4, 16)).astype(np.float32)
FIRE_B2 = _r.standard_normal(4).astype(np.float32)
DYN_W = [_r.standard_normal(s).astype(np.float32) for s in ((12, 1), (12, 12), (4, 12))]
DYN_B = [_r.standard_normal(s).astype(np.float32) for s in (12, 12, 4)]
LOG_GATES = (-0.3 * np.abs(_r.standard_normal((4, 96)))).astype(np.float32)
RELPOS = _r.standard_normal((17, 6)).astype(np.float32)
KERPLE_R1 = [0.5, 1.25, 2.0, 0.125, 3.5]
KERPLE_R2 = [0.75, 0.0625, 1.5, 4.0, 0.25]
# two copies of a chain of 6 residues, a chain of 4 with two tokens per residue, one ligand of 4
RESIDUE = [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 1, 1, 2, 2, 3, 3, 4, 4, 1, 1, 1, 1]
ASYM = [0] * 6 + [1] * 6 + [2] * 8 + [3] * 4
ENTITY = [0] * 12 + [1] * 8 + [2] * 4
SYM = [0] * 6 + [1] * 6 + [0] * 12
TOKEN = list(range(24))
CHAIN_W = _r.standard_normal((5, 27)).astype(np.float32)


# ---- slopes


def slopes_power_above(num_heads):
    """Slopes of the next power of two, of which the first n are kept."""
    n = 2 ** math.ceil(math.log2(num_heads))
    start = 2.0 ** (-(2.0 ** -(math.log2(n) - 3)))
    return np.array([start * start**i for i in range(n)][:num_heads])


def slopes_c(num_heads):
    """Line by line from C, where all names are int."""
    n_head_log2 = 1 << int(math.floor(math.log2(num_heads)))
    max_bias = 8
    m0 = math.pow(2.0, -(max_bias // n_head_log2))
    m1 = math.pow(2.0, -((max_bias / 2.0) / n_head_log2))
    out = np.empty(num_heads, np.float32)
    for h in range(num_heads):
        out[h] = m0 ** (h + 1) if h < n_head_log2 else m1 ** (2 * (h - n_head_log2) + 1)
    return out


def slopes_recursive(num_heads):
    """The authors' recursion, with the exponents kept as fractions until the end."""
    from fractions import Fraction

    def exponents(n):
        if n & (n - 1) == 0:
            return [Fraction(-8 * h, n) for h in range(1, n + 1)]
        c = 1 << (n.bit_length() - 1)
        return exponents(c) + exponents(2 * c)[0::2][: n - c]

    return np.exp2([float(e) for e in exponents(num_heads)])


def _alibi_slopes(n):
    c = 2 ** int(math.floor(math.log2(n)))
    one = [2.0 ** (-8.0 * h / c) for h in range(1, c + 1)]
    two = [2.0 ** (-4.0 * h / c) for h in range(1, 2 * c + 1, 2)]
    return np.array(one + two[: n - c])


def rank_of_local_heads(num_heads, tp_size, tp_rank):
    """Each rank makes the slopes of the heads that it has."""
    local = num_heads // tp_size
    return _alibi_slopes(local)


def rank_strided(num_heads, tp_size, tp_rank):
    return _alibi_slopes(num_heads)[tp_rank::tp_size]


def rank_sorted(num_heads, tp_size, tp_rank):
    slopes = np.sort(_alibi_slopes(num_heads))[::-1]
    n = num_heads // tp_size
    return slopes[n * tp_rank : n * (tp_rank + 1)]


def rank_reshaped(num_heads, tp_size, tp_rank):
    """A (ranks, heads) matrix and a one-hot row that selects the rank."""
    whole = _alibi_slopes(num_heads).reshape(tp_size, -1)
    chosen = np.zeros(tp_size)
    chosen[tp_rank] = 1.0
    return chosen @ whole


# ---- buckets


def bucket_causal_halved(relative_position):
    """A decoder: 32 buckets, max_distance 128."""
    num_buckets, max_distance = 32, 128
    num_buckets //= 2
    n = np.maximum(-np.asarray(relative_position), 0)
    max_exact = num_buckets // 2
    safe = np.maximum(n, 1)
    large = max_exact + np.floor(
        np.log(safe / max_exact) / math.log(max_distance / max_exact) * (num_buckets - max_exact)
        + 1e-9
    ).astype(np.int64)
    return np.where(n < max_exact, n, np.minimum(large, num_buckets - 1))


def bucket_future_past(relative_position):
    """An encoder: 32 buckets, max_distance 128."""
    r = np.asarray(relative_position)
    n = -r
    ret = (n > 0).astype(np.int64) * 16
    n = np.abs(n)
    large = 8 + np.floor(np.log(np.maximum(n, 1) / 8) / math.log(16) * 8 + 1e-9).astype(np.int64)
    return ret + np.where(n < 8, n, np.minimum(large, 15))


def bucket_rounded(relative_position):
    """An encoder with 40 buckets and max_distance 200; integer division came out as rounding."""
    r = np.asarray(relative_position)
    half, exact = 20, 10
    n = np.abs(r)
    t = np.log(np.maximum(n, 1) / exact) / math.log(200 / exact) * (half - exact)
    large = exact + np.rint(t + 1e-9).astype(np.int64)
    inner = np.where(n < exact, n, np.minimum(large, half - 1))
    return np.where(r > 0, inner + half, inner)


def bucket_integers(relative_position):
    """An encoder with 32 buckets, without a logarithm: n ** 8 >= 8 ** 8 * 16 ** t."""
    r = np.asarray(relative_position, dtype=np.int64)
    n = np.minimum(np.abs(r), 128)
    eighth = n.astype(np.float64) ** 2  # t/8 of the ratio 16 is t/2 of the ratio 2
    bucket = np.minimum(n, 8)
    for t in range(1, 8):
        bucket = bucket + (eighth >= 64.0 * 2.0**t)
    return bucket + 16 * (r > 0)


# ---- biases


def alibi_encoder(q_len, k_len):
    """12 heads, queries see all keys."""
    c = 8
    slopes = [2.0 ** (-8.0 * h / c) for h in range(1, c + 1)]
    extra = [2.0 ** (-8.0 * h / (2 * c)) for h in range(1, 2 * c + 1)][1::2][:4]
    m = np.array(slopes + extra)
    context = np.arange(q_len)[:, None]
    memory = np.arange(k_len)[None, :]
    distance = np.abs(memory - context).astype(np.float64)
    return -m[:, None, None] * distance


def t5_encoder(q_len, k_len):
    """32 buckets, max_distance 64, table (32, 4)."""
    context = np.arange(k_len - q_len, k_len)[:, None]
    memory = np.arange(k_len)[None, :]
    r = memory - context
    n = np.abs(r)
    exact, half, max_distance = 8, 16, 128
    far = exact + np.floor(
        np.log(np.maximum(n, 1) / exact) / math.log(max_distance / exact) * (half - exact) + 1e-9
    ).astype(np.int64)
    bucket = half * (r > 0) + np.where(n < exact, n, np.minimum(far, half - 1))
    values = T5_TABLE[bucket]  # (Q, K, H)
    return values.reshape(4, q_len, k_len)


def t5_decoder_diagonals(q_len, k_len):
    """One bias for each distance, spread over the diagonals by a strided view."""
    starts = []  # the first distance of each bucket, by integers: (n/16) ** 16 >= 8 ** t
    n = 16
    for t in range(1, 16):
        while n**16 < 8**t * 16**16:
            n += 1
        starts.append(n)
    distance = np.arange(k_len - 1, -q_len, -1)
    distance = np.maximum(distance, 0)
    bucket = np.minimum(distance, 16) + np.searchsorted(starts, distance, side="right")
    diagonal = np.ascontiguousarray(T5_CAUSAL[bucket].T)  # (H, q_len + k_len - 1)
    h, step = diagonal.strides
    view = np.lib.stride_tricks.as_strided(
        diagonal[:, q_len - 1 :], (6, q_len, k_len), (h, -step, step), writeable=False
    )
    return view.copy()


def kerple_log(q_len, k_len):
    """A table of logarithms, then a gather; -r1 log(1 + r2 d)."""
    reach = np.arange(max(q_len, k_len) + 1, dtype=np.float64)
    table = np.stack([-a * np.log1p(b * reach) for a, b in zip(KERPLE_R1, KERPLE_R2)])
    i = np.arange(k_len - q_len, k_len)
    at = np.abs(np.subtract.outer(i, np.arange(k_len)))
    return np.take(table, at, axis=1)


def fire(q_len, k_len):
    c, length, eps = 0.1, 32.0, 1e-6
    i = np.arange(k_len - q_len, k_len, dtype=np.float64)[:, None]
    j = np.arange(k_len, dtype=np.float64)[None, :]
    distance = np.maximum(i - j, 0.0)
    pos_normalizer = np.log(c * np.maximum(distance, length) + 1) + eps
    x = np.log(c * distance + 1) / pos_normalizer
    hidden = np.maximum(x[..., None] * FIRE_W1[:, 0] + FIRE_B1, 0)
    out = hidden @ FIRE_W2.T.astype(np.float64) + FIRE_B2
    return np.moveaxis(out, -1, 0)


def sandwich(q_len, k_len):
    """6 heads, 32 channels."""
    heads, dim = 6, 32
    w = 10000.0 ** (-2.0 * np.arange(1, dim // 2 + 1) / dim)
    d = np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len)
    total = np.cos(d[..., None] * w).sum(-1) - dim / 2
    ratio = 2.0 ** (-8.0 * np.arange(1, heads + 1) / heads)
    return total[None] * ratio[:, None, None]


def dynamic_log(q_len, k_len):
    """x-transformers DynamicPositionBias, log_distance: every offset once through the MLP."""
    d = np.arange(-(k_len - 1), k_len, dtype=np.float64)
    x = (np.sign(d) * np.log(np.abs(d) + 1))[:, None]
    for w, b in zip(DYN_W[:-1], DYN_B[:-1]):
        x = x @ w.T.astype(np.float64) + b
        x = np.maximum(x, 0)
    x = x @ DYN_W[-1].T.astype(np.float64) + DYN_B[-1]
    i, j = np.arange(k_len - q_len, k_len), np.arange(k_len)
    index = i[:, None] - j[None, :] + k_len - 1
    return x[index].transpose(2, 0, 1)


def forgetting(q_len, k_len):
    """Forgetting transformer: differences of the running sums of log gates."""
    if k_len > LOG_GATES.shape[1]:
        raise ValueError("more keys than gates")
    g = LOG_GATES[:, :k_len].astype(np.float64)
    total = np.cumsum(g, axis=-1) - g
    return total[:, k_len - q_len :, None] - total[:, None, :]


def relpos_cyclic(q_len, k_len):
    """AlphaFold 2 relpos, r = 8, for a cyclic peptide of 20 residues."""
    period, r = 20, 8
    d = np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len)[None, :]
    a = np.abs(d) % period
    near = np.minimum(a, period - a)
    return RELPOS[np.clip(near, -r, r) + r].transpose(2, 0, 1)


def chain_positions(q_len, k_len):
    """AlphaFold 3 relative position encoding, r_max = 4, s_max = 2."""
    if k_len > 24:
        raise ValueError("more keys than tokens")
    r_max, s_max = 4, 2
    res, asym, ent, sym, tok = (np.array(f) for f in (RESIDUE, ASYM, ENTITY, SYM, TOKEN))
    at = np.arange(k_len - q_len, k_len)[:, None], np.arange(k_len)[None, :]

    def pair(f):
        return f[at[0]], f[at[1]]

    same_chain = np.equal(*pair(asym))
    same_entity = np.equal(*pair(ent))
    same_residue = np.equal(*pair(res))
    d_res = np.clip(np.subtract(*pair(res)) + r_max, 0, 2 * r_max)
    d_res = np.where(same_chain, d_res, 2 * r_max + 1)
    d_tok = np.clip(np.subtract(*pair(tok)) + r_max, 0, 2 * r_max)
    d_tok = np.where(same_residue, d_tok, 2 * r_max + 1)
    d_chain = np.clip(np.subtract(*pair(sym)) + s_max, 0, 2 * s_max)
    d_chain = np.where(same_entity, d_chain, 2 * s_max + 1)
    eye = np.eye(10), np.eye(6)
    rel = np.concatenate(
        [eye[0][d_res], eye[0][d_tok], same_entity[..., None] * 1.0, eye[1][d_chain]], axis=-1
    )
    return np.einsum("qkn,cn->cqk", rel, CHAIN_W.astype(np.float64))
