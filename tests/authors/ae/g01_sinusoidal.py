"""Sinusoidal tables of one axis, in the styles of several libraries."""

import math

import numpy as np


# --- right -------------------------------------------------------------------------------


def whisper_rows(seq_len):
    half = 40
    step = np.float32(math.log(10000) / (half - 1))
    inv = np.exp(-step * np.arange(half, dtype=np.float32))
    t = np.arange(seq_len, dtype=np.float32)[:, np.newaxis] * inv[np.newaxis, :]
    return np.concatenate([np.sin(t), np.cos(t)], axis=1)


def _make_growing_add():
    cache = np.zeros((0, 96))

    def rows(first, last):
        angle = np.arange(first, last)[:, None] * 10000.0 ** (-np.arange(48) / 48.0)
        return np.concatenate([np.cos(angle), np.sin(angle)], axis=-1)

    def add(x):
        nonlocal cache
        need = x.shape[1]
        if need > len(cache):  # double it, and compute the new rows only
            size = max(2 * len(cache), need, 16)
            cache = np.concatenate([cache, rows(len(cache), size)])
        return (x + cache[:need]).astype(x.dtype)

    return add


growing_cache_add = _make_growing_add()


def fairseq_odd_table(positions):
    d = 33
    half = d // 2
    w = [math.exp(-k * math.log(10000.0) / (half - 1)) for k in range(half)]
    p = np.asarray(positions, np.float64) + 2
    out = np.zeros((*p.shape, d), np.float32)
    for k, omega in enumerate(w):
        out[..., k] = np.sin(p * omega)
        out[..., half + k] = np.cos(p * omega)
    return out


def split_angle_table(positions):
    """p = 256 a + b: two small tables and the addition theorem (as kernels with LUTs do)."""
    p = np.asarray(positions, np.float64)
    w = 10000.0 ** (-np.arange(64) / 64)
    high = np.floor(p / 256.0)
    low = p - 256.0 * high
    a, b = (high * 256.0)[..., None] * w, low[..., None] * w
    s = np.sin(a) * np.cos(b) + np.cos(a) * np.sin(b)
    c = np.cos(a) * np.cos(b) - np.sin(a) * np.sin(b)
    out = np.empty((*p.shape, 128), np.float32)
    out[..., 0::2], out[..., 1::2] = s, c
    return out


# --- wrong -------------------------------------------------------------------------------


def _bf16(a):
    bits = np.asarray(a, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def buffer_after_to_bf16(positions):
    """The module was moved with .to(bfloat16), its inv_freq buffer too; the rest upcasts."""
    inv_freq = _bf16(1.0 / 10000.0 ** (np.arange(0, 128, 2) / 128))
    angle = np.asarray(positions, np.float32)[..., None] * inv_freq.astype(np.float32)
    return np.concatenate([np.sin(angle), np.cos(angle)], -1)


def max_len_table(positions):
    p = np.minimum(np.asarray(positions), 4999)  # pe = zeros(max_len=5000, d_model)
    angle = p[..., None].astype(np.float64) * np.exp(np.arange(0, 64, 2) * (-math.log(10000.0) / 64))
    return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(*p.shape, 64).astype(np.float32)


def rebased_table(positions):
    p = np.asarray(positions)
    p = p - p[..., :1]  # keeps float32 angles small
    angle = p[..., None].astype(np.float32) * np.float32(10000.0) ** (-np.arange(32, dtype=np.float32) / 32)
    return np.concatenate([np.sin(angle), np.cos(angle)], -1)


def from_first_and_count(positions):
    p = np.asarray(positions)
    p = p[0] + np.arange(p.shape[0]) if p.size else p
    angle = p[:, None] * 1e4 ** (-np.arange(24) / 24.0)
    out = np.empty((len(p), 48), np.float32)
    out[:, ::2], out[:, 1::2] = np.sin(angle), np.cos(angle)
    return out


def timestep_embedding(positions):
    t = 1000.0 * np.asarray(positions, np.float64) + 1.0  # scale, then padding offset
    half = 32
    angle = t[..., None] * np.exp(-math.log(10000.0) * np.arange(half) / half)
    return np.concatenate([np.sin(angle), np.cos(angle)], -1).astype(np.float32)


def short_log_constant(positions):
    LN_10000 = 9.21
    w = np.exp(-LN_10000 * np.arange(64) / 64)
    angle = np.asarray(positions, np.float64)[..., None] * w
    return np.concatenate([np.sin(angle), np.cos(angle)], -1).astype(np.float32)


def cosine_from_sine(positions):
    angle = np.asarray(positions, np.float64)[..., None] * 10000.0 ** (-np.arange(16) / 16)
    s = np.sin(angle)
    c = np.sqrt(np.maximum(0.0, 1.0 - s * s))  # one transcendental less
    return np.stack([s, c], -1).reshape(*s.shape[:-1], 32).astype(np.float32)


def kernel_with_tail(positions):
    BLOCK = 32
    p = np.asarray(positions, np.float64).reshape(-1)
    n = len(p)
    w = 10000.0 ** (-np.arange(32) / 32)
    out = np.zeros((n, 64), np.float32)
    for start in range(0, n, BLOCK):
        idx = start + np.arange(BLOCK)
        keep = idx < n
        load = idx if keep.all() or n < BLOCK else n - BLOCK + np.arange(BLOCK)
        at = p[np.minimum(load, n - 1)]  # the tail loads the last BLOCK positions, to avoid a mask
        angle = at[:, None] * w
        block = np.concatenate([np.sin(angle), np.cos(angle)], -1).astype(np.float32)
        out[idx[keep]] = block[keep]
    return out


def rows_from_linspace(seq_len):
    p = np.linspace(0.0, seq_len, seq_len)
    angle = p[:, None] * 10000.0 ** (-np.arange(32) / 32)
    return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(seq_len, 64).astype(np.float32)


def _make_extending_rows():
    cache = np.zeros((0, 64), np.float32)

    def rows(seq_len):
        nonlocal cache
        missing = seq_len - len(cache)
        if missing > 0:
            angle = np.arange(missing)[:, None] * 10000.0 ** (-np.arange(32) / 32)
            more = np.concatenate([np.sin(angle), np.cos(angle)], -1).astype(np.float32)
            cache = np.concatenate([cache, more])
        return cache[:seq_len].copy()

    return rows


extending_rows = _make_extending_rows()


def half_cache_rows(seq_len):
    w = 10000.0 ** (-np.arange(40) / 40)
    angle = np.arange(seq_len)[:, None] * w
    table = np.concatenate([np.sin(angle), np.cos(angle)], -1).astype(np.float16)
    return table.astype(np.float32)


def stretched_rows(seq_len):
    p = np.arange(seq_len, dtype=np.float64)
    if seq_len > 512:
        p *= 512.0 / seq_len
    angle = p[:, None] * 10000.0 ** (-np.arange(32) / 32)
    return np.concatenate([np.sin(angle), np.cos(angle)], -1).astype(np.float32)


def add_into_input(x):
    s, d = x.shape[1:]
    angle = np.arange(s)[:, None] * 10000.0 ** (-np.arange(d // 2) * 2.0 / d)
    x += np.concatenate([np.sin(angle), np.cos(angle)], -1).astype(x.dtype)
    return x


def _make_last_rows_add():
    held = None

    def add(x):
        nonlocal held
        s, d = x.shape[1:]
        if held is None or len(held) < s:
            angle = np.arange(s)[:, None] * 10000.0 ** (-np.arange(d // 2) * 2.0 / d)
            held = np.stack([np.sin(angle), np.cos(angle)], -1).reshape(s, d)
        return (x + held[-s:]).astype(x.dtype)

    return add


last_rows_add = _make_last_rows_add()


def _make_streaming_add():
    seen = 0

    def add(x):
        nonlocal seen
        s, d = x.shape[1:]
        if s != 1:
            seen = 0  # a prompt
        p = seen + np.arange(s)
        seen += s  # one token: the next step of decoding
        angle = p[:, None] * 10000.0 ** (-np.arange(d // 2) * 2.0 / d)
        return (x + np.concatenate([np.sin(angle), np.cos(angle)], -1)).astype(x.dtype)

    return add


streaming_add = _make_streaming_add()


def musicgen_port(positions):
    half = 32
    w = np.exp(-math.log(10000.0) * np.arange(half) / half)
    angle = np.asarray(positions, np.float64)[..., None] * w
    return np.concatenate([np.sin(angle), np.cos(angle)], -1).astype(np.float32)
