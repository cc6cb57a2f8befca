"""Whole attention functions with biases: masks, groups of heads, sinks, softmax in blocks."""
import math

import numpy as np
import torch
import torch.nn.functional as F

_r = np.random.default_rng(1906)
KERPLE_R1, KERPLE_R2 = [1.0, 0.25, 2.5, 0.75], [0.5, 0.125, 2.0, 1.0]
T5_ENC = _r.standard_normal((32, 4)).astype(np.float32)
T5_DEC = _r.standard_normal((16, 6)).astype(np.float32)
GATES = (-0.2 * np.abs(_r.standard_normal((4, 128)))).astype(np.float32)


def _distance(q_positions, k_positions):
    """Query minus key, (1, Q, K), or (B, 1, Q, K) if batch rows have their own positions."""
    qp, kp = np.asarray(q_positions), np.asarray(k_positions)
    return np.expand_dims(qp[..., :, None] - kp[..., None, :], -3)


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def alibi_groups(q, k, v, q_positions, k_positions):
    """8 heads with ALiBi; fewer key heads are spread over the query heads."""
    groups = q.shape[1] // k.shape[1]
    kk = np.tile(k, (1, groups, 1, 1)).astype(np.float64)
    vv = np.tile(v, (1, groups, 1, 1)).astype(np.float64)
    slopes = 0.5 ** np.arange(1, 9)
    d = _distance(q_positions, k_positions)
    logits = q.astype(np.float64) @ kk.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    logits = logits - slopes[:, None, None] * np.abs(d)
    n_q, n_k = logits.shape[-2:]
    logits = np.where(np.tri(n_q, n_k, n_k - n_q, dtype=bool), logits, -np.inf)
    return (_softmax(logits) @ vv).astype(q.dtype)


def kerple_tril(q, k, v, q_positions, k_positions):
    """4 heads with logarithmic KERPLE."""
    spread = q.shape[1] // k.shape[1]
    kk, vv = (np.repeat(x.astype(np.float64), spread, axis=1) for x in (k, v))
    r1, r2 = (np.array(r)[:, None, None] for r in (KERPLE_R1, KERPLE_R2))
    bias = -r1 * np.log1p(r2 * np.abs(_distance(q_positions, k_positions)))
    logits = q @ kk.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + bias
    n_q, n_k = logits.shape[-2:]
    logits[..., ~np.tril(np.ones((n_q, n_k), bool))] = -np.inf
    return (_softmax(logits) @ vv).astype(q.dtype)


def t5_encoder_attention(q, k, v, q_positions, k_positions):
    """An encoder: no mask, 4 heads, 32 buckets, max_distance 128."""
    spread = q.shape[1] // k.shape[1]
    kk, vv = (np.repeat(x.astype(np.float64), spread, axis=1) for x in (k, v))
    r = -_distance(q_positions, k_positions)[..., 0, :, :]
    n = np.abs(r)
    far = 8 + np.floor(np.log(np.maximum(n, 1) / 8) / math.log(128 / 8) * 8 + 1e-9).astype(int)
    bucket = 16 * (r > 0) + np.where(n < 8, n, np.minimum(far, 15))
    bias = np.moveaxis(T5_ENC[bucket].astype(np.float64), -1, -3)
    logits = q @ kk.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + bias
    n_q, n_k = logits.shape[-2:]
    logits = np.where(np.tri(n_q, n_k, n_k - n_q, dtype=bool), logits, -np.inf)
    return (_softmax(logits) @ vv).astype(q.dtype)


def fox_blocks(q, k, v, q_positions, k_positions):
    """Forgetting attention, 4 heads, keys in blocks of 16 with a running maximum."""
    if np.ndim(q_positions) != 1 or np.ndim(k_positions) != 1:
        raise ValueError("positions (S,) only")
    qp, kp = np.asarray(q_positions), np.asarray(k_positions)
    total = np.cumsum(GATES.astype(np.float64), axis=1)
    spread = q.shape[1] // k.shape[1]
    kk, vv = (np.repeat(x.astype(np.float64), spread, axis=1) for x in (k, v))
    b, h, n_q, d = q.shape
    n_k = kk.shape[2]
    i = np.arange(n_k - n_q, n_k)[:, None]
    m = np.full((b, h, n_q, 1), -np.inf)
    norm = np.zeros((b, h, n_q, 1))
    acc = np.zeros((b, h, n_q, vv.shape[-1]))
    for start in range(0, n_k, 16):
        j = np.arange(start, min(start + 16, n_k))
        s = q @ kk[:, :, j].swapaxes(-1, -2) / math.sqrt(d)
        s = s + total[:, qp, None] - total[:, None, kp[j]]
        s = np.where(j <= i, s, -np.inf)
        new = np.maximum(m, s.max(-1, keepdims=True))
        p = np.exp(s - new)
        alpha = np.exp(m - new)
        norm = norm + p.sum(-1, keepdims=True)
        acc = acc * alpha + p @ vv[:, :, j]
        m = new
    return (acc / norm).astype(q.dtype)


def alibi_sinks(q, k, v, q_positions, k_positions, sinks):
    """8 heads; the sink is one more key, whose value is 0."""
    spread = q.shape[1] // k.shape[1]
    b, h, n_q, d = q.shape
    n_k = k.shape[2]
    grouped = q.reshape(b, k.shape[1], spread, n_q, d).astype(np.float64)
    s = np.einsum("bgrid,bgjd->bgrij", grouped, k.astype(np.float64)) * d**-0.5
    s = s.reshape(b, h, n_q, n_k)
    s = s - np.exp2(-np.arange(1.0, 9.0))[:, None, None] * np.abs(
        _distance(q_positions, k_positions)
    )
    s[..., np.triu(np.ones((n_q, n_k), bool), n_k - n_q + 1)] = -np.inf
    column = np.broadcast_to(np.asarray(sinks, np.float64)[:, None, None], (b, h, n_q, 1))
    p = _softmax(np.concatenate([column, s], axis=-1))[..., 1:]
    p = p.reshape(b, k.shape[1], spread, n_q, n_k)
    out = np.einsum("bgrij,bgjd->bgrid", p, v.astype(np.float64))
    return out.reshape(b, h, n_q, -1).astype(q.dtype)


def t5_decoder_sdpa(q, k, v, q_positions, k_positions):
    """A decoder: 6 heads, 16 buckets, max_distance 64; PyTorch's kernel with a float mask."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    q_positions, k_positions = torch.as_tensor(q_positions), torch.as_tensor(k_positions)
    r = k_positions[..., None, :] - q_positions[..., :, None]
    n = (-r).clamp(min=0)
    starts = []
    for t in range(1, 8):  # the first distance whose bucket is 8 + t
        d = 9
        while d**8 < 8**8 * 8**t:
            d += 1
        starts.append(d)
    bucket = n.clamp(max=8) + torch.bucketize(n, torch.tensor(starts), right=True)
    bias = torch.from_numpy(T5_DEC)[bucket].movedim(-1, -3).to(q.dtype)
    later = torch.ones(n_q, n_k, dtype=torch.bool).triu(n_k - n_q + 1)
    bias = bias.masked_fill(later, float("-inf"))
    spread = q.shape[1] // k.shape[1]
    return F.scaled_dot_product_attention(
        q,
        k.repeat_interleave(spread, dim=1),
        v.repeat_interleave(spread, dim=1),
        attn_mask=bias,
        scale=1.0,
    )
