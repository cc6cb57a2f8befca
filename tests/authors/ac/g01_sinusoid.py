"""Sinusoidal tables, NumPy."""
import functools
import math

import numpy as np


# ---------------------------------------------------------------- right
def sin_doubling(positions):
    """Binary expansion of integer positions: product of e^{i w 2^b}."""
    p = np.asarray(positions)
    n = p.astype(np.int64)
    if np.any(n != p):
        raise ValueError("integer positions only")
    neg = n < 0
    m = np.abs(n)
    w = np.power(10000.0, -np.arange(32) / 32.0)
    acc = np.ones(m.shape + (32,), complex)
    bit = 0
    while np.any(m >> bit):
        factor = np.exp(1j * (w * 2.0**bit))
        on = ((m >> bit) & 1).astype(bool)
        acc = np.where(on[..., None], acc * factor, acc)
        bit += 1
    acc = np.where(neg[..., None], acc.conj(), acc)
    out = np.empty(m.shape + (64,))
    out[..., 0::2], out[..., 1::2] = acc.imag, acc.real
    return out.astype(np.float32)


@functools.lru_cache(maxsize=None)
def _coarse_fine():
    w = 10000.0 ** (-np.arange(48) / 47.0)
    fine = np.exp(1j * np.arange(1024)[:, None] * w)
    return w, fine


def whisper_two_level(positions):
    """Two tables of 1024 rows, coarse and fine, and the addition theorem."""
    w, fine = _coarse_fine()
    p = np.asarray(positions)
    n = np.floor(p).astype(np.int64)
    if np.any(n != p):
        raise ValueError("integer positions only")
    hi, lo = n >> 10, n & 1023
    z = np.exp(1j * (hi[..., None] * 1024.0) * w) * fine[lo]
    return np.concatenate([z.imag, z.real], axis=-1).astype(np.float32)


def rows_by_shift_matrix(seq_len):
    """PE(p + n) = M(n) PE(p): the block of rows doubles in every turn."""
    d = 32
    w = 10000.0 ** (-np.arange(0, d, 2) / d)
    block = np.zeros((1, d))
    block[0, 1::2] = 1.0
    while len(block) < seq_len:
        n = len(block)
        m = np.zeros((d, d))
        for k, wk in enumerate(w):
            c, s = math.cos(n * wk), math.sin(n * wk)
            m[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = [[c, s], [-s, c]]
        block = np.vstack([block, block @ m.T])
    return block[:seq_len].astype(np.float32)


def t2t_odd_phase(positions):
    """tensor2tensor with an odd width; cosine as a sine with phase pi/2."""
    d, n = 33, 16
    inv = np.exp(-np.arange(n) * (math.log(1e4) / (n - 1)))
    a = np.asarray(positions, np.float64)[..., None] * inv
    both = np.sin(a[..., None, :] + np.array([[0.0], [math.pi / 2]]))
    flat = both.reshape(a.shape[:-1] + (2 * n,))
    return np.pad(flat, [(0, 0)] * (flat.ndim - 1) + [(0, d - 2 * n)])


# ---------------------------------------------------------------- wrong
def exponent_twice(positions):
    k = np.arange(0, 64, 2)
    inv = 1.0 / np.power(10000.0, 2 * k / 64)  # k already counts in steps of 2
    a = np.asarray(positions, np.float64)[:, None] * inv
    out = np.zeros((a.shape[0], 64))
    out[:, 0::2] = np.sin(a)
    out[:, 1::2] = np.cos(a)
    return out


def truncated_log(positions):
    half = 32
    emb = 9.21 / half
    emb = np.exp(np.arange(half, dtype=np.float64) * -emb)
    a = np.multiply.outer(np.asarray(positions, np.float64), emb)
    return np.concatenate([np.sin(a), np.cos(a)], axis=-1)


def _tf32(x):
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x1000) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


def tf32_outer_product(positions):
    """positions[:, None] @ inv_freq[None, :] on tensor cores: both factors have 11 bits."""
    w = 10000.0 ** (-np.arange(32) / 32)
    a = _tf32(np.asarray(positions, np.float64))[:, None] * _tf32(w)
    return np.stack([np.sin(a), np.cos(a)], axis=-1).reshape(len(a), 64)


def last_pair_missing(positions):
    p = np.asarray(positions, np.float64)
    n = 24
    out = np.zeros((p.size, 2 * n))
    for k in range(n - 1):
        w = 10000.0 ** (-k / n)
        out[:, 2 * k] = np.sin(p * w)
        out[:, 2 * k + 1] = np.cos(p * w)
    return out


def chunk_drift(seq_len):
    """Rows in chunks of 128."""
    d, chunk = 64, 128
    w = 10000.0 ** (-np.arange(0, d, 2) / d)
    blocks = []
    for c in range((seq_len + chunk - 1) // chunk):
        first = c * (chunk - 1)  # should be c * chunk
        n = min(chunk, seq_len - c * chunk)
        a = np.arange(first, first + n)[:, None] * w
        b = np.empty((n, d))
        b[:, ::2], b[:, 1::2] = np.sin(a), np.cos(a)
        blocks.append(b)
    return np.concatenate(blocks)


class _Growing:
    def __init__(self, d):
        self.w = 10000.0 ** (-np.arange(0, d, 2) / d)
        self.table = self._rows(0, 64)

    def _rows(self, a, b):
        x = np.arange(a, b)[:, None] * self.w
        return np.stack([np.sin(x), np.cos(x)], -1).reshape(b - a, -1)

    def get(self, n):
        have = len(self.table)
        if n > have:
            self.table = np.concatenate([self.table, self._rows(0, n - have)])
        return self.table[:n]


_growing = _Growing(64)


def regrown_from_zero(seq_len):
    return _growing.get(seq_len).copy()


_TABLE_2K = None


def wraps_at_2048(positions):
    global _TABLE_2K
    if _TABLE_2K is None:
        a = np.arange(2048)[:, None] * 10000.0 ** (-np.arange(32) / 32)
        _TABLE_2K = np.concatenate([np.sin(a), np.cos(a)], 1)
    return np.take(_TABLE_2K, np.asarray(positions).astype(np.int64), axis=0, mode="wrap")


def interpolation_floors(positions):
    """Positional interpolation by 4."""
    p = np.asarray(positions) // 4
    a = p[:, None] * 10000.0 ** (-np.arange(32) / 32)
    out = np.empty((p.size, 64))
    out[:, 0::2], out[:, 1::2] = np.sin(a), np.cos(a)
    return out


def odd_cos_shifted(positions):
    """XLM with an odd width: 17 sines, 16 cosines."""
    d = 33
    div = 10000.0 ** (-np.arange(0, d, 2) / (d / 2) / 2)
    a = np.asarray(positions, np.float64)[:, None] * div
    out = np.zeros((a.shape[0], d))
    out[:, 0::2] = np.sin(a)
    out[:, 1::2] = np.cos(a[:, 1:])  # should be a[:, :-1]
    return out


def chebyshev_float32(seq_len):
    """f((p + 1) w) = 2 cos(w) f(p w) - f((p - 1) w) for sines and cosines, in float32."""
    w = 10000.0 ** (-np.arange(32) / 32)
    two = (2 * np.cos(w)).astype(np.float32)
    s0, s1 = (-np.sin(w)).astype(np.float32), np.zeros(32, np.float32)
    c0, c1 = np.cos(w).astype(np.float32), np.ones(32, np.float32)
    out = np.empty((seq_len, 64), np.float32)
    for p in range(seq_len):
        out[p, :32], out[p, 32:] = s1, c1
        s0, s1 = s1, two * s1 - s0
        c0, c1 = c1, two * c1 - c0
    return out


def two_mistakes_table(positions):
    """MusicGen: cosines first, half - 1."""
    half = 32
    inv = 10000.0 ** (-np.arange(half) / half)  # mistake 1: / half, not / (half - 1)
    a = np.asarray(positions, np.float64)[:, None] * inv
    return np.concatenate([np.sin(a), np.cos(a)], axis=1)  # mistake 2: sines first


def phase_accumulator(positions):
    """Numerically controlled oscillator: steps rounded to 2 ** -24 of a turn."""
    w = 10000.0 ** (-np.arange(32) / 32)
    step = np.rint(w / (2 * np.pi) * 2**24).astype(np.int64)
    phase = (np.asarray(positions).astype(np.int64)[:, None] * step) & (2**24 - 1)
    ang = phase * (2 * np.pi / 2**24)
    return np.stack([np.sin(ang), np.cos(ang)], -1).reshape(len(ang), 64)


def scale_sqrt_not_applied_to_cos(positions):
    """x-transformers: the table times dim ** -0.5."""
    d = 64
    a = np.asarray(positions, np.float64)[:, None] * 10000.0 ** (-np.arange(32) / 32)
    return np.concatenate([np.sin(a) * d**-0.5, np.cos(a)], axis=-1)
