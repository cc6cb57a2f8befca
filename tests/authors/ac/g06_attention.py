"""Attention layers and scores."""
import math

import numpy as np
import torch


def _slopes(n):
    c = 2 ** int(math.floor(math.log2(n)))
    first = [2.0 ** (-8 * h / c) for h in range(1, c + 1)]
    more = [2.0 ** (-4 * h / c) for h in range(1, 2 * c, 2)]
    return np.array((first + more)[:n])


def _up(x):
    return np.asarray(x).astype(np.float64)


def _bias(h, qp, kp):
    d = np.abs(np.asarray(qp, np.float64)[..., :, None] - np.asarray(kp, np.float64)[..., None, :])
    return -_slopes(h)[:, None, None] * (d[:, None] if d.ndim == 3 else d)


def _mask(n_q, n_k):
    return np.arange(n_k)[None, :] <= np.arange(n_k - n_q, n_k)[:, None]


def _repeat(x, h):
    return np.repeat(x, h // x.shape[1], axis=1)


def _softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _plain(q, k, v, qp, kp, *, heads=_repeat, mask=_mask, bias=_bias, factor=None):
    dt = np.asarray(q).dtype
    q, k, v = _up(q), _up(k), _up(v)
    h = q.shape[1]
    k, v = heads(k, h), heads(v, h)
    if factor is not None:
        f = factor(np.asarray(qp, np.float64))[..., :, None]
        q = q * (f[:, None] if f.ndim == 3 else f)
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    if bias is not None:
        s = s + bias(h, qp, kp)
    s = np.where(mask(q.shape[2], k.shape[2]), s, -np.inf)
    return (_softmax(s) @ v).astype(dt)


# ---------------------------------------------------------------- right
def flash_alibi(q, k, v, q_positions, k_positions):
    """Online softmax over tiles of 48 keys, base 2, grouped heads by reshape."""
    dt = np.asarray(q).dtype
    q, k, v = _up(q), _up(k), _up(v)
    b, h, n_q, d = q.shape
    h_kv, n_k = k.shape[1], k.shape[2]
    qg = q.reshape(b, h_kv, h // h_kv, n_q, d) * (math.log2(math.e) / math.sqrt(d))
    slope = (_slopes(h) * math.log2(math.e)).reshape(h_kv, h // h_kv, 1, 1)
    qp, kp = np.asarray(q_positions, np.float64), np.asarray(k_positions, np.float64)
    m = np.full(qg.shape[:-1] + (1,), -np.inf)
    l, acc = np.zeros_like(m), np.zeros(qg.shape[:-1] + (v.shape[-1],))
    for t in range(0, n_k, 48):
        sl = slice(t, t + 48)
        s = qg @ k[:, :, None, sl].swapaxes(-1, -2)
        d_t = np.abs(qp[..., :, None] - kp[..., None, sl])
        s = s - slope * (d_t[:, None, None] if d_t.ndim == 3 else d_t)
        seen = np.arange(n_k)[None, sl] <= np.arange(n_k - n_q, n_k)[:, None]
        s = np.where(seen, s, -np.inf)
        new = np.maximum(m, s.max(-1, keepdims=True))
        shift = np.where(np.isfinite(new), new, 0.0)
        alpha, p = np.exp2(m - shift), np.exp2(s - shift)
        l, acc, m = l * alpha + p.sum(-1, keepdims=True), acc * alpha + p @ v[:, :, None, sl], new
    return (acc / l).reshape(b, h, n_q, -1).astype(dt)


def sink_column(q, k, v, q_positions, k_positions, sinks):
    """The sink as one more key with value 0, put in front of the others."""
    dt = np.asarray(q).dtype
    q, k, v = _up(q), _up(k), _up(v)
    h = q.shape[1]
    k, v = _repeat(k, h), _repeat(v, h)
    s = np.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(q.shape[-1])
    s = np.where(_mask(q.shape[2], k.shape[2]), s, -np.inf)
    col = np.broadcast_to(_up(sinks)[None, :, None, None], s.shape[:-1] + (1,))
    w = _softmax(np.concatenate([col, s], -1))
    v = np.concatenate([np.zeros_like(v[:, :, :1]), v], 2)
    return np.einsum("bhij,bhjd->bhid", w, v).astype(dt)


def encoder_alibi_split(q, k, v, q_positions, k_positions):
    """Symmetric ALiBi, no mask: two halves of the keys merged by their log-sum-exp; torch."""
    dt = q.dtype
    q, k, v = q.double(), k.double(), v.double()
    h = q.shape[1]
    k, v = (x.repeat_interleave(h // x.shape[1], 1) for x in (k, v))
    qp, kp = torch.as_tensor(q_positions).double(), torch.as_tensor(k_positions).double()
    m = torch.as_tensor(_slopes(h))[:, None, None]
    dist = (qp[..., :, None] - kp[..., None, :]).abs()
    s = q @ k.mT * q.shape[-1] ** -0.5 - m * (dist[:, None] if dist.ndim == 3 else dist)
    cut = s.shape[-1] // 2
    parts = [(s[..., :cut], v[:, :, :cut]), (s[..., cut:], v[:, :, cut:])]
    lse = [p.logsumexp(-1, keepdim=True) for p, _ in parts]
    empty = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=torch.float64)
    out = [p.softmax(-1) @ w if p.shape[-1] else empty for p, w in parts]
    total = torch.logaddexp(*lse)
    return sum(o * (e - total).exp() for o, e in zip(out, lse)).to(dt)


def falcon_rw_scores(q, k):
    """(q . k + bias) / sqrt(d), the product by baddbmm-like addition; bias from the key alone."""
    d = q.shape[-1]
    n_k = k.shape[2]
    j = np.arange(n_k)
    i = np.arange(n_k - q.shape[2], n_k)
    b = -_slopes(q.shape[1])[:, None, None] * np.abs(i[:, None] - j)
    s = np.einsum("...id,...jd->...ij", _up(q), _up(k))
    s += b
    s /= math.sqrt(d)
    return s.astype(q.dtype)


def logn_attention(q, k, v, q_positions, k_positions):
    """Qwen's log-n: the factor on logits instead of queries; torch."""
    dt = q.dtype
    q, k, v = q.double(), k.double(), v.double()
    h = q.shape[1]
    k, v = (x.repeat_interleave(h // x.shape[1], 1) for x in (k, v))
    p = torch.as_tensor(q_positions).double()
    f = torch.where(p + 1 > 256, torch.log(p + 1) / math.log(256), torch.ones_like(p))[..., None]
    f = f[:, None] if f.ndim == 3 else f
    s = torch.einsum("bhid,bhjd->bhij", q, k) * (f / math.sqrt(q.shape[-1]))
    n_q, n_k = s.shape[-2:]
    s = s + torch.full((n_q, n_k), -torch.inf, dtype=torch.float64).triu(n_k - n_q + 1)
    return (s.softmax(-1) @ v).to(dt)


# ---------------------------------------------------------------- wrong
def exp2_bias_unscaled(q, k, v, q_positions, k_positions):
    """exp2 kernel: log2(e) multiplies q . k, but not the bias."""
    return _plain(q, k, v, q_positions, k_positions,
                  bias=lambda h, a, b: _bias(h, a, b) * math.log(2))


def _tiles(q, k, v, q_positions, k_positions, *, tile, rescale=True, whole=False):
    dt = np.asarray(q).dtype
    q, k, v = _up(q), _up(k), _up(v)
    b, h, n_q, d = q.shape
    n_k = k.shape[2]
    k, v = _repeat(k, h), _repeat(v, h)
    bias, seen = _bias(h, q_positions, k_positions), _mask(n_q, n_k)
    m = np.full((b, h, n_q, 1), -np.inf)
    l, acc = np.zeros_like(m), np.zeros((b, h, n_q, v.shape[-1]))
    end = max(tile, n_k // tile * tile) if whole else n_k
    for t in range(0, end, tile):
        sl = slice(t, t + tile)
        s = q @ k[:, :, sl].swapaxes(-1, -2) / math.sqrt(d) + bias[:, :, sl]
        s = np.where(seen[:, sl], s, -np.inf)
        new = np.maximum(m, s.max(-1, keepdims=True))
        shift = np.where(np.isfinite(new), new, 0.0)
        alpha, p = np.exp(m - shift), np.exp(s - shift)
        l = l * alpha + p.sum(-1, keepdims=True)
        acc = (acc * alpha if rescale else acc) + p @ v[:, :, sl]
        m = new
    return (acc / np.where(l > 0, l, 1)).astype(dt)


def accumulator_not_rescaled(q, k, v, q_positions, k_positions):
    return _tiles(q, k, v, q_positions, k_positions, tile=64, rescale=False)


def partial_tile_dropped(q, k, v, q_positions, k_positions):
    return _tiles(q, k, v, q_positions, k_positions, tile=32, whole=True)


def gqa_modulo(q, k, v, q_positions, k_positions):
    def heads(x, h):
        return np.tile(x, (1, h // x.shape[1], 1, 1))

    return _plain(q, k, v, q_positions, k_positions, heads=heads)


def mask_top_left(q, k, v, q_positions, k_positions):
    """torch's is_causal: the mask is aligned at the top left."""
    def mask(n_q, n_k):
        return np.tril(np.ones((n_q, n_k), bool))

    return _plain(q, k, v, q_positions, k_positions, mask=mask)


def column_index_as_position(q, k, v, q_positions, k_positions):
    """The kernel counts columns; the positions that were passed are not used."""
    n_q, n_k = q.shape[2], k.shape[2]
    return _plain(q, k, v, np.arange(n_k - n_q, n_k), np.arange(n_k))


def window_left_on(q, k, v, q_positions, k_positions):
    """Keys more than 1024 columns before the query are masked (a sliding window left on)."""
    def mask(n_q, n_k):
        i = np.arange(n_k - n_q, n_k)[:, None]
        return _mask(n_q, n_k) & (i - np.arange(n_k)[None] < 1024)

    return _plain(q, k, v, q_positions, k_positions, mask=mask)


def _with_sink(q, k, v, sinks, tiles=None, heads=None):
    dt = np.asarray(q).dtype
    q, k, v = _up(q), _up(k), _up(v)
    h = q.shape[1]
    k, v = _repeat(k, h), _repeat(v, h)
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    s = np.where(_mask(q.shape[2], k.shape[2]), s, -np.inf)
    z = _up(sinks)[None, :, None, None]
    m = np.maximum(s.max(-1, keepdims=True), z)
    e = np.exp(s - m)
    times = 1 if tiles is None else -(-k.shape[2] // tiles)
    return (e @ v / (e.sum(-1, keepdims=True) + times * np.exp(z - m))).astype(dt)


def sink_in_every_split(q, k, v, q_positions, k_positions, sinks):
    """Split-K: every split of 64 keys adds the sink to its denominator."""
    return _with_sink(q, k, v, sinks, tiles=64)


def sink_of_group(q, k, v, q_positions, k_positions, sinks):
    """sinks[h // group]: the sink is looked up by the key head."""
    group = q.shape[1] // k.shape[1]
    sinks = np.asarray(sinks)
    return _with_sink(q, k, v, sinks[np.arange(len(sinks)) // group])


def logn_without_floor(q, k, v, q_positions, k_positions):
    """ln(p + 1) / ln(L) at every position, also below L."""
    return _plain(q, k, v, q_positions, k_positions, bias=None,
                  factor=lambda p: np.log(p + 1) / math.log(256))


def temperature_one_early(q, k, v, q_positions, k_positions):
    """floor((p + 1) / 64), declared floor(p / 64)."""
    return _plain(q, k, v, q_positions, k_positions, bias=None,
                  factor=lambda p: 1 + 0.1 * np.log1p(np.floor((p + 1) / 64)))


def bias_outside_scores(q, k):
    """Falcon-RW's bias, added after the division."""
    n_q, n_k, d = q.shape[2], k.shape[2], q.shape[-1]
    b = _bias(q.shape[1], np.arange(n_k - n_q, n_k), np.arange(n_k))
    return (_up(q) @ _up(k).swapaxes(-1, -2) / math.sqrt(d) + b).astype(q.dtype)


def table_scores_queries_from_zero(q, k):
    """(q + PE)(k + PE) / sqrt(d); queries are numbered from 0 although they are the last ones."""
    n_q, n_k, d = q.shape[2], k.shape[2], q.shape[-1]
    a = np.arange(n_k)[:, None] * 10000.0 ** (-np.arange(d // 2) / (d // 2))
    pe = np.stack([np.sin(a), np.cos(a)], -1).reshape(n_k, d)
    s = (_up(q) + pe[:n_q]) @ (_up(k) + pe).swapaxes(-1, -2)
    return (s / math.sqrt(d)).astype(q.dtype)


def attention_two(q, k, v, q_positions, k_positions):
    """Two mistakes: query heads read key head h mod H_kv, and the softmax scale is 1 / d."""
    h = q.shape[1]
    q2 = _up(q) / math.sqrt(q.shape[-1])
    out = _plain(q2, np.tile(k, (1, h // k.shape[1], 1, 1)), np.tile(v, (1, h // v.shape[1], 1, 1)),
                 q_positions, k_positions)
    return out.astype(np.asarray(q).dtype)


# softmax scales
def scale_deepseek_once():
    return 192**-0.5 * (0.1 * math.log(40) + 1)


