"""Serving code: queries and keys together, caches, decoding, scores, packed sequences."""

import math

import numpy as np
import torch

INV64 = 10000.0 ** -(np.arange(0, 64, 2) / 64)


def turn(x, positions, inv=INV64, m=1.0):
    """Half-split rotation of the first 2 * len(inv) channels."""
    ang = np.asarray(positions, dtype=np.float64)[..., None] * inv
    ang = ang[:, None] if ang.ndim == 3 else ang
    n = len(inv)
    c, s = m * np.cos(ang), m * np.sin(ang)
    a, b = x[..., :n], x[..., n : 2 * n]
    return np.concatenate([a * c - b * s, b * c + a * s, x[..., 2 * n :]], -1).astype(x.dtype)


# -- apply_qk ---------------------------------------------------------------------------------------
def xpos_same_scale(q, k, q_positions, k_positions, scale_base=512.0, gamma=0.4):
    """LeX: queries and keys decay."""
    d = q.shape[-1]
    zeta = (np.arange(0, d, 2) / d + gamma) / (1 + gamma)

    def one(x, p):
        p = np.asarray(p, float)
        size = zeta ** (p[..., None] / scale_base)
        size = size[:, None] if size.ndim == 3 else size
        size = np.concatenate([size, size], -1)
        return (turn(x.astype(np.float64), p) * size).astype(x.dtype)

    return one(q, q_positions), one(k, k_positions)


def xpos_centred_per_call(q, k, q_positions, k_positions, scale_base=512.0, gamma=0.4):
    """rotary-embedding-torch: the power is (t - len(t) // 2) / scale_base."""
    d = q.shape[-1]
    zeta = (np.arange(0, d, 2) + gamma * d) / ((1 + gamma) * d)

    def one(x, p, sign):
        p = np.asarray(p, float)
        power = (p - p.shape[-1] // 2) / scale_base
        size = zeta ** (sign * power[..., None])
        size = np.concatenate([size, size], -1)
        size = size[:, None] if size.ndim == 3 else size
        return (turn(x.astype(np.float64), p) * size).astype(x.dtype)

    return one(q, q_positions, 1.0), one(k, k_positions, -1.0)


def xpos_zeta(q, k, q_positions, k_positions):
    d = q.shape[-1]
    zeta = (np.arange(0, d, 2) + 0.4) / (1.4 * d)

    def one(x, p, sign):
        p = np.asarray(p, float)
        size = zeta ** (sign * p[..., None] / 512)
        size = np.concatenate([size, size], -1)
        size = size[:, None] if size.ndim == 3 else size
        return (turn(x.astype(np.float64), p) * size).astype(x.dtype)

    return one(q, q_positions, 1), one(k, k_positions, -1)


def vllm_cache_order(positions, query, key):
    """Flat query (T, H*D) and key; one row of the cache holds both tables."""
    head_size = 64
    ang = positions.double().flatten()[:, None] * torch.from_numpy(INV64)
    cache = torch.cat((ang.sin(), ang.cos()), dim=-1)
    cos, sin = cache.chunk(2, dim=-1)
    cos, sin = cos[:, None], sin[:, None]

    def rot(t):
        v = t.reshape(t.shape[0], -1, head_size)
        a, b = v.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).reshape(t.shape).to(t.dtype)

    return rot(query), rot(key)


def key_positions_of_queries(q, k, q_positions, k_positions):
    """One table for both: prefill and decode have the same number of new queries and keys."""
    ang = np.asarray(q_positions, float)[..., None] * INV64
    ang = ang[:, None] if ang.ndim == 3 else ang
    table = np.exp(1j * ang)

    def rot(x, t):
        z = (x[..., 0::2] + 1j * x[..., 1::2]) * t
        return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)

    if k.shape[-2] == q.shape[-2]:
        return rot(q, table), rot(k, table)
    ang = np.asarray(k_positions, float)[..., None] * INV64
    ang = ang[:, None] if ang.ndim == 3 else ang
    return rot(q, table), rot(k, np.exp(1j * ang))


# -- apply_offset -----------------------------------------------------------------------------------
def left_over_offset(x, offset, factor=4.0):
    """interpolate_factor divides the positions of the call; the offset comes on top."""
    t = np.arange(x.shape[-2]) / factor
    return turn(x, np.asarray(offset)[:, None] + t)


def longest_row(x, offset):
    """Ragged batch: the cache has one write position."""
    start = int(np.max(offset))
    return turn(x, np.arange(start, start + x.shape[-2]))


# -- calls ------------------------------------------------------------------------------------------
class Workspace:
    """Avoids an allocation per layer: keeps the output of the last shape."""

    def __init__(self):
        self.out = None

    def __call__(self, x, offset):
        if self.out is None or self.out.shape != x.shape or self.out.dtype != x.dtype:
            self.out = np.empty_like(x)
        self.out[...] = turn(x, np.arange(offset, offset + x.shape[-2]))
        return self.out


def layers_with_workspace(calls):
    rope = Workspace()
    return [rope(x, offset) for x, offset in calls]


class Advancing:
    """Counts the tokens that it has seen, for generation."""

    def __init__(self):
        self.seen = 0

    def __call__(self, x, offset):
        self.seen = max(self.seen, offset)
        y = turn(x, np.arange(self.seen, self.seen + x.shape[-2]))
        self.seen += x.shape[-2]
        return y


def advancing_calls(calls):
    rope = Advancing()
    return [rope(x, offset) for x, offset in calls]


# -- decode -----------------------------------------------------------------------------------------
def decode_by_steps(x, chunks):
    """One chunk is one step."""
    out, at = [], 0
    for step, n in enumerate(chunks):
        start = chunks[0] + step - 1 if step else 0
        out.append(turn(x[..., at : at + n, :], np.arange(start, start + n)))
        at += n
    return np.concatenate(out, axis=-2)


class SlidingCache:
    def __init__(self, window):
        self.window, self.keys = window, None

    def __len__(self):
        return 0 if self.keys is None else self.keys.shape[-2]

    def append(self, k):
        self.keys = k if self.keys is None else np.concatenate([self.keys, k], axis=-2)
        self.keys = self.keys[..., -self.window :, :]


def decode_with_window(x, chunks, window=48):
    """The next position is the length of the cache."""
    cache, out, at = SlidingCache(window), [], 0
    for n in chunks:
        start = len(cache)
        y = turn(x[..., at : at + n, :], np.arange(start, start + n))
        cache.append(y)
        out.append(y)
        at += n
    return np.concatenate(out, axis=-2)


def decode_after_append(x, chunks):
    """The offset is read from the cache, which already holds the new tokens."""
    seen, out, at = 0, [], 0
    for n in chunks:
        first = seen == 0
        seen += n
        start = 0 if first else seen
        out.append(turn(x[..., at : at + n, :], np.arange(start, start + n)))
        at += n
    return np.concatenate(out, axis=-2)


# -- key_cache, shift_keys, evict_keys --------------------------------------------------------------
def cache_rotated_again(k, chunks):
    """update(): append, then rotate what attention is going to read."""
    cache, at = None, 0
    for n in chunks:
        new = k[..., at : at + n, :]
        cache = new if cache is None else np.concatenate([cache, new], axis=-2)
        cache = turn(cache, np.arange(cache.shape[-2]))
        at += n
    return cache


SHORT, LONG, LIMIT = np.array([1.0, 1.1, 1.3, 1.6]), np.array([1.0, 2.0, 5.0, 12.0]), 16
M8 = math.sqrt(1 + math.log(16.0) / math.log(LIMIT))


def phi3_cache(k, chunks):
    """Phi-3 long: each chunk with the list for the length so far."""
    rows, at = [], 0
    for n in chunks:
        ext = LONG if at + n > LIMIT else SHORT
        inv = 10000.0 ** -(np.arange(4) / 4) / ext
        rows.append(turn(k[..., at : at + n, :], np.arange(at, at + n), inv, M8))
        at += n
    return np.concatenate(rows, axis=-2)


def yarn_shift(rotated_k, delta, s=16.0, L0=4096, base=10000.0):
    """K-shift: runs the rope of the model on the cached keys."""
    d = rotated_k.shape[-1]

    def at(r):
        return d * math.log(L0 / (r * 2 * math.pi)) / (2 * math.log(base))

    lo, hi = max(math.floor(at(32)), 0), min(math.ceil(at(1)), d - 1)
    w = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    f = base ** -(np.arange(0, d, 2) / d)
    p = np.broadcast_to(np.asarray(delta, float), rotated_k.shape[-2:-1])
    return turn(rotated_k, p, f * (1 - w) + f / s * w, 0.1 * math.log(s) + 1)


def partial_shift(rotated_k, delta, n_rot=32):
    """K-shift with n_embd_head channels (Phi-2: 80, of which 32 turn)."""
    d = rotated_k.shape[-1]
    inv = 10000.0 ** -(np.arange(0, n_rot, 2) / n_rot)
    inv = np.concatenate([inv, 10000.0 ** -(np.arange(n_rot, d, 2) / n_rot)])
    p = np.broadcast_to(np.asarray(delta, float), rotated_k.shape[-2:-1])
    return turn(rotated_k, p, inv)


def sinks_move_too(rotated_k, kept, dropped):
    """StreamingLLM: drop the oldest after the sinks, move everything back."""
    left = np.concatenate([rotated_k[..., :kept, :], rotated_k[..., kept + dropped :, :]], axis=-2)
    return turn(left, np.full(left.shape[-2], -float(dropped)))


# -- permute_weights --------------------------------------------------------------------------------
def permute_back(w, n_heads):
    """Hugging Face to Meta."""
    d = w.shape[0] // n_heads
    rows = w.reshape(n_heads, d // 2, 2, -1).transpose(0, 2, 1, 3)
    return rows.reshape(w.shape)


# -- scores, attention ------------------------------------------------------------------------------
def scores_from_zero(q, k):
    """Logits of a block of queries."""
    qr, kr = turn(q, np.arange(q.shape[-2])), turn(k, np.arange(k.shape[-2]))
    return np.einsum("bhqd,bhkd->bhqk", qr, kr) / math.sqrt(q.shape[-1])


def mla_scores(q, k):
    """Latent attention: the scale of the rotary part of the head (64 of 192 channels)."""
    Q, K = q.shape[-2], k.shape[-2]

    def rot(x, p):
        z = (x[..., 128::2] + 1j * x[..., 129::2]) * np.exp(1j * np.asarray(p)[:, None] * INV64)
        return np.concatenate([x[..., :128], np.stack([z.real, z.imag], -1).reshape(*x.shape[:-1], 64)], -1)

    qr, kr = rot(q, np.arange(K - Q, K)), rot(k, np.arange(K))
    return (np.matmul(qr, np.swapaxes(kr, -1, -2)) * 64**-0.5).astype(q.dtype)


def attention_mask_origin(q, k, v, q_positions, k_positions):
    """Causal attention for grouped queries; the mask is the usual triangle."""
    groups = q.shape[1] // k.shape[1]
    qr, kr = turn(q, q_positions), np.repeat(turn(k, k_positions), groups, axis=1)
    logits = np.einsum("bhqd,bhkd->bhqk", qr, kr) / math.sqrt(q.shape[-1])
    mask = np.tril(np.ones(logits.shape[-2:], dtype=bool))
    logits = np.where(mask, logits, -np.inf)
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return ((e / e.sum(-1, keepdims=True)) @ np.repeat(v, groups, axis=1)).astype(q.dtype)


def attention_tiled_groups(q, k, v, q_positions, k_positions):
    """Repeats the key heads until there are as many as query heads."""
    groups = q.shape[1] // k.shape[1]
    k, v = np.tile(k, (1, groups, 1, 1)), np.tile(v, (1, groups, 1, 1))
    logits = turn(q, q_positions) @ np.swapaxes(turn(k, k_positions), -1, -2) / math.sqrt(q.shape[-1])
    Q, K = logits.shape[-2:]
    logits = np.where(np.tri(Q, K, K - Q, dtype=bool), logits, -1e30)
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return ((e / e.sum(-1, keepdims=True)) @ v).astype(q.dtype)


# -- position ids -----------------------------------------------------------------------------------
def packed_modulo(lengths):
    """Documents of a packed row."""
    total = int(np.sum(lengths))
    return np.arange(total) % int(np.max(lengths)) if total else np.zeros(0, int)


def shard_global(cu_seqlens, cp_size, cp_rank):
    """Chunks r and 2 cp - 1 - r of every sequence, as indices of tokens."""
    out = []
    for a, b in zip(cu_seqlens[:-1], cu_seqlens[1:]):
        n = (b - a) // (2 * cp_size)
        for c in (cp_rank, 2 * cp_size - 1 - cp_rank):
            out.append(np.arange(a + c * n, a + (c + 1) * n))
    return np.concatenate(out) if out else np.zeros(0, int)


def ids_for_left_padding(attention_mask):
    """Position 0 is the first real token."""
    mask = np.asarray(attention_mask)
    pad = mask.shape[1] - mask.sum(axis=1, keepdims=True)
    return np.maximum(np.arange(mask.shape[1])[None] - pad, 0)


# -- images -----------------------------------------------------------------------------------------
def rope_of_patches(x, height, width):
    """x (B, H, height * width, 64), row by row."""
    i = np.arange(height * width)
    row, col = i // height, i % height
    inv = 10000.0 ** -(np.arange(0, 32, 2) / 32)
    ang = np.concatenate([row[:, None] * inv, col[:, None] * inv], axis=-1)
    z = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * ang)
    return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)
