"""`apply_offset`, `calls`: offsets of rows, and instances that are called again."""
import functools
import math
import numpy as np
import jax
import jax.numpy as jnp


def _inv(d, base=10000.0):
    return base ** (-np.arange(0, d, 2) / d)


def _half(x, c, s):
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)


# ---------------------------------------------------------------- apply_offset, wrong
_TABLE = np.outer(np.arange(1024), 10000.0 ** (-np.arange(0, 32, 2) / 32)).astype(np.float32)


def dynamic_slice_rows(x, offset):
    """A table of 1024 rows; each row of the batch takes its slice."""
    S = x.shape[-2]
    off = np.asarray(offset)
    if (off < 0).any() or (off != np.floor(off)).any():
        raise ValueError("offsets are counts of cached tokens")
    rows = _TABLE if S <= 1024 else np.outer(np.arange(S), _inv(x.shape[-1])).astype(np.float32)
    table = jnp.asarray(rows)

    def one(row, start):
        ang = jax.lax.dynamic_slice_in_dim(table, start, S, axis=0)
        a, b = jnp.split(row.astype(jnp.float32), 2, axis=-1)
        c, s = jnp.cos(ang), jnp.sin(ang)
        return jnp.concatenate([a * c - b * s, b * c + a * s], -1).astype(row.dtype)

    return jax.vmap(one)(x, jnp.asarray(off.astype(np.int32)))


def single_token_step(x, offset):
    """offset is the number of cached tokens *before* the step in prefill, after it in decoding."""
    off = np.asarray(offset).astype(np.float64)
    S, d = x.shape[-2:]
    if S == 1:
        pos = (off - 1)[:, None]
    else:
        pos = off[:, None] + np.arange(S)
    ang = (pos[..., None] * _inv(d))[:, None]
    return _half(x, np.cos(ang), np.sin(ang))


def offset_of_time(x, offset):
    """M-RoPE during decoding: the cache length is added to the temporal ids."""
    S, d = x.shape[-2:]
    off = np.asarray(offset).astype(np.float64)
    ids = np.tile(np.arange(S, dtype=np.float64), (3, len(off), 1))
    ids[0] += off[:, None]
    axis = np.repeat(np.arange(3), (8, 4, 4))
    ang = (np.moveaxis(ids[axis], 0, -1) * _inv(d, 1000000.0))[:, None]
    return _half(x, np.cos(ang), np.sin(ang))


def longest_offset(x, offset):
    """All rows of the batch share one cache_position, that of the longest row."""
    S, d = x.shape[-2:]
    start = int(np.max(np.asarray(offset), initial=0))
    z = np.exp(1j * np.outer(np.arange(start, start + S), _inv(d)))
    y = (x[..., 0::2] + 1j * x[..., 1::2].astype(np.float64)) * z
    return np.stack([y.real, y.imag], -1).reshape(x.shape).astype(x.dtype)


# ---------------------------------------------------------------- apply_offset, right
def rotate_twice(x, offset):
    """First by the place in the call, then every row as a whole by its offset."""
    S, d = x.shape[-2:]
    inv = _inv(d, 500000.0) / 8.0
    y = x[..., 0::2] + 1j * x[..., 1::2].astype(np.float64)
    y = y * np.exp(1j * np.outer(np.arange(S), inv))
    y = y * np.exp(1j * np.asarray(offset).astype(np.float64)[:, None] * inv)[:, None, None, :]
    out = np.empty(x.shape, np.float64)
    out[..., 0::2], out[..., 1::2] = y.real, y.imag
    return out.astype(x.dtype)


class Windows:
    """The rows of all offsets are windows of one table, which covers the tokens of the call."""

    def __init__(self, dim, base):
        self.inv = _inv(dim, base)

    def __call__(self, x, offset):
        off = np.asarray(offset)
        S = x.shape[-2]
        if off.size == 0 or S == 0:
            return x.copy()
        first = off.min()
        rel = off - first
        whole = rel.astype(np.int64)
        if (whole != rel).any() or whole.max() > 1 << 17:
            ang = (off.astype(np.float64)[:, None] + np.arange(S))[..., None] * self.inv
        else:
            t = np.arange(int(whole.max()) + S) + np.float64(first)
            ang = np.lib.stride_tricks.sliding_window_view(t, S)[whole][..., None] * self.inv
        c, s = np.cos(ang)[:, None], np.sin(ang)[:, None]
        n = 2 * len(self.inv)
        return np.concatenate([_half(x[..., :n], c, s), x[..., n:]], -1)


_windows = Windows(24, 10000.0)


def windows(x, offset):
    return _windows(x, offset)


# ---------------------------------------------------------------- calls, wrong
class CachedByLength:
    """cos_cached and sin_cached are made again when the sequence length changes."""

    def __init__(self, dim, base=10000.0):
        self.inv_freq, self.seq_len_cached = _inv(dim, base), None

    def __call__(self, x, offset):
        S = x.shape[-2]
        if S != self.seq_len_cached:
            self.seq_len_cached = S
            ang = (offset + np.arange(S))[:, None] * self.inv_freq
            self.cos, self.sin = np.cos(ang), np.sin(ang)
        return _half(x, self.cos, self.sin)


def cached_by_length(requests):
    rope = CachedByLength(32)
    return [rope(x, offset) for x, offset in requests]


class DynamicNTKModule:
    """LlamaDynamicNTKScalingRotaryEmbedding; inv_freq is a buffer."""

    def __init__(self, dim, base, trained, factor):
        self.dim, self.base, self.trained, self.factor = dim, base, trained, factor
        self.inv_freq, self.longest = _inv(dim, base), trained

    def __call__(self, x, offset):
        L = offset + x.shape[-2]
        if L > self.longest:
            alpha = self.factor * L / self.trained - (self.factor - 1)
            self.inv_freq = _inv(self.dim, self.base * alpha ** (self.dim / (self.dim - 2)))
            self.longest = L
        ang = (offset + np.arange(x.shape[-2]))[:, None] * self.inv_freq
        return _half(x, np.cos(ang), np.sin(ang))


def dynamic_never_back(requests):
    rope = DynamicNTKModule(32, 10000.0, 48, 2.0)
    return [rope(x, int(offset)) for x, offset in requests]


class Counting:
    """Counts the tokens that it has seen, and adds what the caller says."""

    def __init__(self, d):
        self.inv, self.seen = _inv(d), 0

    def forward(self, x, offset):
        S = x.shape[-2]
        ang = (offset + self.seen + np.arange(S))[:, None] * self.inv
        self.seen += S
        c, s = np.cos(ang), np.sin(ang)
        e, o = x[..., ::2], x[..., 1::2]
        return np.stack([e * c - o * s, o * c + e * s], -1).reshape(x.shape).astype(x.dtype)


def counting(requests):
    module = Counting(32)
    out = []
    for x, offset in requests:
        out.append(module.forward(x, offset))
    return out


class Workspace:
    """One output buffer for each shape, so that nothing is allocated while generating."""

    def __init__(self, d, base):
        self.inv, self.buffers = _inv(d, base), {}

    def run(self, x, offset):
        key = (x.shape, x.dtype.str)
        if key not in self.buffers:
            self.buffers[key] = np.empty(x.shape, x.dtype)
        y, h = self.buffers[key], x.shape[-1] // 2
        ang = (offset + np.arange(x.shape[-2]))[:, None] * self.inv
        c, s = np.cos(ang), np.sin(ang)
        y[..., :h] = x[..., :h] * c - x[..., h:] * s
        y[..., h:] = x[..., h:] * c + x[..., :h] * s
        return y


def workspace(requests):
    w = Workspace(32, 1000000.0)
    return [w.run(x, offset) for x, offset in requests]


# ---------------------------------------------------------------- calls, right
def memoised(requests):
    @functools.lru_cache(maxsize=3)
    def tables(S, offset):
        ang = (offset + np.arange(S))[:, None] * _inv(32)
        t = np.cos(ang), np.sin(ang)
        for a in t:
            a.setflags(write=False)
        return t

    def one(x, offset):
        c, s = tables(x.shape[-2], float(offset))
        e, o = x[..., ::2], x[..., 1::2]
        return np.stack([e * c - o * s, o * c + e * s], -1).reshape(x.shape).astype(x.dtype)

    return [one(x, offset) for x, offset in requests]


class LongRoPETables:
    """Two tables that grow by doubling; the list is chosen in every call."""

    SHORT = (1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 1.8, 2.0)
    LONG = (1.0, 1.4, 2.0, 3.5, 7.0, 13.0, 26.0, 32.0)

    def __init__(self, trained, factor):
        self.trained = trained
        self.m = math.sqrt(1.0 + math.log(factor) / math.log(trained))
        self.inv = [_inv(16) / np.array(f) for f in (self.SHORT, self.LONG)]
        self.tables = [np.zeros((0, 8), np.complex128)] * 2

    def rows(self, first, last):
        which = int(last > self.trained)
        t = self.tables[which]
        if last > len(t):
            size = 1 << (last - 1).bit_length()
            new = self.m * np.exp(1j * np.arange(len(t), size)[:, None] * self.inv[which])
            t = self.tables[which] = np.concatenate([t, new])
        return t[first:last]

    def __call__(self, x, offset):
        if offset != int(offset) or offset < 0:
            raise ValueError("offset must be a count of tokens")
        w = self.rows(int(offset), int(offset) + x.shape[-2])
        return _half(x, w.real, w.imag)


def longrope_tables(requests):
    t = LongRoPETables(64, 16.0)
    return [t(x, offset) for x, offset in requests]
