"""Offsets, calls of one instance, decoding, key caches."""
import math

import numpy as np


def _inv(d, base=10000.0):
    return base ** (-np.arange(0, d, 2) / d)


def _half(x, ang, m=1.0):
    c, s = m * np.cos(ang), m * np.sin(ang)
    h = x.shape[-1] // 2
    a, b = x[..., :h].astype(np.float64), x[..., h:].astype(np.float64)
    return np.concatenate([a * c - b * s, a * s + b * c], -1).astype(x.dtype)


def _adj(x, ang):
    c, s = np.cos(ang), np.sin(ang)
    y = np.empty_like(x)
    a, b = x[..., ::2].astype(np.float64), x[..., 1::2].astype(np.float64)
    y[..., ::2], y[..., 1::2] = a * c - b * s, a * s + b * c
    return y


def _split(x, chunks):
    at = 0
    for n in chunks:
        n = int(n)
        yield x[:, :, at:at + n]
        at += n


def _join(parts, x):
    return np.concatenate(parts, 2) if parts else x[:, :, :0]


# -- apply_offset --------------------------------------------------------------------------------


def offset_flat_tile(x, offset):
    B, H, S, D = x.shape
    start = np.tile(np.asarray(offset, np.float64), H)          # one for each row of (B*H)
    p = start[:, None] + np.arange(S)
    return _half(x.reshape(B * H, S, D), p[..., None] * _inv(D)).reshape(x.shape)


def offset_dynamic_slice(x, offset, T=8192):
    """jax.lax.dynamic_slice on a table of 8192 rows: the start is clamped so that the slice fits."""
    B, H, S, D = x.shape
    start = np.clip(np.asarray(offset, np.int64), 0, max(T - S, 0))
    p = start[:, None] + np.arange(S)
    return _half(x, (p[..., None] * _inv(D))[:, None])


def offset_by_chunk_number(x, offset):
    """Aligns the start down to a multiple of 16, the page size."""
    p = np.asarray(offset, np.int64)[:, None] // 16 * 16 + np.arange(x.shape[2])
    return _adj(x, (p[..., None] * _inv(x.shape[-1]))[:, None])


# -- calls ---------------------------------------------------------------------------------------

def calls_table(calls):
    """One growing table, renewed from row 0 if it is too short."""
    table, out = np.zeros((0, 32)), []
    for x, offset in calls:
        need = int(np.max(offset)) + x.shape[2]
        if need > len(table):
            table = np.arange(max(need, 2 * len(table)))[:, None] * _inv(64)
        out.append(_half(x, table[int(offset):int(offset) + x.shape[2]]))
    return out


def calls_append_rows(calls):
    table, out = np.zeros((0, 32)), []
    for x, offset in calls:
        need = int(offset) + x.shape[2]
        if need > len(table):
            new = np.arange(need - len(table))[:, None] * _inv(64)
            table = np.concatenate([table, new])
        out.append(_half(x, table[int(offset):need]))
    return out


def calls_dynamic_sticky(calls, factor=2.0, L0=256):
    """DynamicNTK(2, 256): the frequencies of the longest call so far stay."""
    longest, out = L0, []
    for x, offset in calls:
        longest = max(longest, int(offset) + x.shape[2])
        b = 10000.0 * (factor * longest / L0 - (factor - 1)) ** (64 / 62)
        out.append(_half(x, (int(offset) + np.arange(x.shape[2]))[:, None] * _inv(64, b)))
    return out


def calls_longest_kept(calls):
    """The slice of the last call is kept, and used again if it is long enough."""
    kept, out = None, []
    for x, offset in calls:
        S = x.shape[2]
        if kept is None or len(kept) < S:
            kept = (int(offset) + np.arange(S))[:, None] * _inv(64)
        out.append(_half(x, kept[:S]))
    return out


# -- decode --------------------------------------------------------------------------------------

def decode_closure(x, chunks):
    """An incremental instance as a closure."""
    def instance():
        pos = 0

        def step(v):
            nonlocal pos
            y = _adj(v, (pos + np.arange(v.shape[2]))[:, None] * _inv(v.shape[-1]))
            pos += v.shape[2]
            return y
        return step
    step = instance()
    return _join([step(v) for v in _split(x, chunks)], x)


def decode_batch_counted(x, chunks):
    pos, out = 0, []
    for v in _split(x, chunks):
        out.append(_half(v, (pos + np.arange(v.shape[2]))[:, None] * _inv(64)))
        pos += v.shape[0] * v.shape[2]
    return _join(out, x)


def decode_prefill_restarts(x, chunks):
    pos, out = 0, []
    for v in _split(x, chunks):
        if v.shape[2] > 1:
            pos = 0
        out.append(_half(v, (pos + np.arange(v.shape[2]))[:, None] * _inv(64)))
        pos += v.shape[2]
    return _join(out, x)


def decode_frozen_list(x, chunks, L0=64):
    """LongRoPE: the list is chosen by the first chunk and never again."""
    short, long = 1 + 0.1 * np.arange(16), 1 + np.arange(16)
    m, pos, out, lam = math.sqrt(1 + math.log(8.0) / math.log(L0)), 0, [], None
    for v in _split(x, chunks):
        if lam is None:
            lam = long if v.shape[2] > L0 else short
        out.append(_half(v, (pos + np.arange(v.shape[2]))[:, None] * (_inv(32) / lam), m))
        pos += v.shape[2]
    return _join(out, x)


def decode_two(x, chunks):
    """Two faults: see cases."""
    pos, out = 0, []
    for v in _split(x, chunks):
        out.append(_half(v, (pos + np.arange(v.shape[2]))[:, None] * _inv(64, 500000.0)))
        pos = pos + v.shape[2] + (1 if v.shape[2] == 1 else 0)
    return _join(out, x)


# -- key_cache -----------------------------------------------------------------------------------

def _dyn(n, factor=2.0, L0=64):
    return _inv(64, 10000.0 * (factor * max(n, L0) / L0 - (factor - 1)) ** (64 / 62))


def cache_raw_keys(k, chunks):
    """DynamicNTK(2, 64): raw keys are kept, all are rotated again."""
    raw = []
    for v in _split(k, chunks):
        raw.append(v)
    keys = _join(raw, k)
    n = keys.shape[2]
    return _half(keys, np.arange(n)[:, None] * _dyn(n))


def cache_last_chunk_length(k, chunks):
    keys = _join(list(_split(k, chunks)), k)
    last = int(chunks[-1]) if len(chunks) else 0
    return _half(keys, np.arange(keys.shape[2])[:, None] * _dyn(last))


def cache_longrope_limit(k, chunks, L0=64):
    """LongRoPE: the length that chooses the list is rounded up to pages of 16 tokens."""
    short, long = 1 + 0.1 * np.arange(16), 1 + np.arange(16)
    keys = _join(list(_split(k, chunks)), k)
    n = keys.shape[2]
    lam = long if n // 16 * 16 + 16 > L0 else short
    m = math.sqrt(1 + math.log(8.0) / math.log(L0))
    return _half(keys, np.arange(n)[:, None] * (_inv(32) / lam), m)
