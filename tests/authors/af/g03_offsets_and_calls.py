"""fn(x, offset (B,)) and fn([(x, offset), ...]): rows and calls that start somewhere."""
import functools
import math

import numpy as np
import torch
import jax
import jax.numpy as jnp


def _half(x, cos, sin):
    h = cos.shape[-1]
    a, b, rest = x[..., :h], x[..., h:2 * h], x[..., 2 * h:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], -1).astype(x.dtype)


# ------------------------------------------------------------------------- apply_offset
def flat_positions(x, offset):
    """Positions of all tokens in one list, as the kernel wants them."""
    b, h, s, d = x.shape
    pos = (np.arange(s)[:, None] + np.asarray(offset)[None, :]).reshape(-1)
    ang = pos[:, None] * 10000.0 ** (-np.arange(0, d, 2) / d)
    z = np.exp(1j * ang).reshape(b, 1, s, d // 2)
    y = (x[..., 0::2] + 1j * x[..., 1::2]) * z
    return np.stack([y.real, y.imag], -1).reshape(x.shape).astype(x.dtype)


def interpolated_index(x, offset, factor=4.0):
    b, _, s, d = x.shape
    t = np.arange(s) / factor                              # position interpolation
    pos = np.asarray(offset).reshape(b, 1) + t
    ang = pos[:, None, :, None] * 10000.0 ** (-np.arange(d // 2) * 2 / d)
    return _half(x, np.cos(ang), np.sin(ang))


@jax.jit
def decode_fast_path(x, offset):
    b, h, s, d = x.shape
    inv = jnp.asarray(1000000.0 ** (-np.arange(0, d, 2) / d), jnp.float32)
    offset = jnp.asarray(offset)
    if s == 1:
        # one row of the table for the step
        pos = jnp.broadcast_to(jnp.max(offset), (b, 1))
    else:
        pos = offset[:, None] + jnp.arange(s)
    ang = pos[:, None, :, None].astype(jnp.float32) * inv
    x1, x2 = x[..., : d // 2], x[..., d // 2:]
    c, s_ = jnp.cos(ang), jnp.sin(ang)
    return jnp.concatenate([x1 * c - x2 * s_, x2 * c + x1 * s_], -1).astype(x.dtype)


def sorted_rows(x, offset):
    """Rows are sorted by length for the kernel, then put back."""
    offset = np.asarray(offset)
    order = np.argsort(offset, kind="stable")
    rows = []
    for i in order:
        pos = np.arange(offset[i], offset[i] + x.shape[2])
        ang = pos[:, None] * 10000.0 ** (-np.arange(24) / 24)
        z = np.exp(1j * ang)
        row = x[i].copy()
        v = (row[..., 0:48:2] + 1j * row[..., 1:48:2]) * z
        row[..., 0:48:2], row[..., 1:48:2] = v.real, v.imag
        rows.append(row)
    return np.stack(rows)[order]


class GrowingTable:
    """A float64 table of complex phases that doubles when it is too short (right)."""

    def __init__(self, dim, base, rows=64):
        self.inv = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        self.table = torch.empty(0, dim // 2, dtype=torch.complex128)
        self.grow(rows)

    def grow(self, rows):
        have = len(self.table)
        new = max(rows, 2 * have)
        ang = torch.outer(torch.arange(have, new, dtype=torch.float64), self.inv)
        self.table = torch.cat([self.table, torch.polar(torch.ones_like(ang), ang)])

    def __call__(self, x, offset):
        index = torch.as_tensor(offset).long()[:, None] + torch.arange(x.shape[2])
        if index.numel() and int(index.min()) < 0:
            raise IndexError("negative position")
        if index.numel() and int(index.max()) >= len(self.table):
            self.grow(int(index.max()) + 1)
        z = self.table[index][:, None]
        v = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2).contiguous())
        return torch.view_as_real(v * z).flatten(-2).to(x.dtype)


growing_gather = GrowingTable(64, 500000.0)


def two_rotations(x, offset):
    """First to 0 .. S-1, then every row by its offset; YaRN's factor once (right)."""
    b, h, s, d = x.shape
    k = np.arange(d // 2)
    f = 150000.0 ** (-2.0 * k / d)
    lim = lambda r: d * math.log(4096 / (r * 2 * math.pi)) / (2 * math.log(150000.0))
    w = np.clip((k - lim(32)) / (lim(1) - lim(32)), 0, 1)   # not truncated
    f = f * (1 - w) + f / 32.0 * w
    m = 0.1 * math.log(32.0) + 1.0
    wide = x.astype(np.float64)
    for pos, factor in ((np.arange(s)[None, None, :, None], m),
                        (np.asarray(offset, np.float64)[:, None, None, None], 1.0)):
        ang = pos * f
        c, sn = factor * np.cos(ang), factor * np.sin(ang)
        a, bb = wide[..., : d // 2], wide[..., d // 2:]
        wide = np.concatenate([a * c - bb * sn, bb * c + a * sn], -1)
    return wide.astype(x.dtype)


# -------------------------------------------------------------------------------- calls
class CachedByLength:
    def __init__(self, dim, base):
        self.inv = base ** (-np.arange(0, dim, 2) / dim)
        self.cache = {}

    def __call__(self, x, offset):
        n = x.shape[2]
        if n not in self.cache:
            ang = np.arange(offset, offset + n)[:, None] * self.inv
            self.cache[n] = np.cos(ang), np.sin(ang)
        return _half(x, *self.cache[n])


def calls_cached_by_length(pairs):
    rope = CachedByLength(64, 10000.0)
    return [rope(x, int(offset)) for x, offset in pairs]


class ExtendedTable:
    def __init__(self, dim, base, rows=32):
        self.inv = base ** (-np.arange(0, dim, 2) / dim)
        self.phase = self._rows(rows)

    def _rows(self, n):
        return np.exp(1j * np.arange(n)[:, None] * self.inv)

    def __call__(self, x, offset):
        need = offset + x.shape[2]
        have = len(self.phase)
        if need > have:
            self.phase = np.concatenate([self.phase, self._rows(need - have)])
        z = self.phase[offset:need]
        y = (x[..., 0::2] + 1j * x[..., 1::2]) * z
        return np.stack([y.real, y.imag], -1).reshape(x.shape).astype(x.dtype)


def calls_extended_table(pairs):
    rope = ExtendedTable(32, 10000.0)
    return [rope(x, int(offset)) for x, offset in pairs]


class DynamicNTKRotary:
    def __init__(self, dim, base, trained, factor):
        self.dim, self.base, self.trained, self.factor = dim, base, trained, factor
        self.longest = trained
        self.inv = base ** (-np.arange(0, dim, 2) / dim)

    def update(self, length):
        if length > self.longest:
            alpha = self.factor * length / self.trained - (self.factor - 1)
            base = self.base * alpha ** (self.dim / (self.dim - 2))
            self.inv = base ** (-np.arange(0, self.dim, 2) / self.dim)
            self.longest = length

    def __call__(self, x, offset):
        n = x.shape[2]
        self.update(offset + n)
        ang = np.arange(offset, offset + n)[:, None] * self.inv
        return _half(x, np.cos(ang), np.sin(ang))


def calls_dynamic_never_reset(pairs):
    rope = DynamicNTKRotary(64, 10000.0, 64, 2.0)
    return [rope(x, int(offset)) for x, offset in pairs]


class ReusedOutput:
    """Keeps the output buffer between calls to save allocations."""

    def __init__(self, dim, rotary, base):
        self.inv = base ** (-np.arange(0, rotary, 2) / rotary)
        self.out = {}

    def __call__(self, x, offset):
        out = self.out.setdefault((x.shape, x.dtype.str), np.empty_like(x))
        ang = (offset + np.arange(x.shape[2]))[:, None] * self.inv
        c, s = np.cos(ang), np.sin(ang)
        n = 2 * len(self.inv)
        out[..., n:] = x[..., n:]
        out[..., 0:n:2] = x[..., 0:n:2] * c - x[..., 1:n:2] * s
        out[..., 1:n:2] = x[..., 1:n:2] * c + x[..., 0:n:2] * s
        return out


def calls_one_buffer(pairs):
    rope = ReusedOutput(96, 64, 10000.0)
    return [rope(x, int(offset)) for x, offset in pairs]


class TrustsItsCounter:
    def __init__(self, dim, base):
        self.theta = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        self.seen = None

    def __call__(self, x, offset):
        if self.seen is None or offset == 0:
            start = offset                                   # a new sequence
        else:
            start = self.seen                                # goes on
        self.seen = start + x.shape[2]
        ang = torch.arange(start, self.seen, dtype=torch.float64)[:, None] * self.theta
        c, s = ang.cos(), ang.sin()
        a, b = x.double().chunk(2, -1)
        return torch.cat([a * c - b * s, b * c + a * s], -1).to(x.dtype)


def calls_own_counter(pairs):
    rope = TrustsItsCounter(128, 1000000.0)
    return [rope(x, int(offset)) for x, offset in pairs]


class LengthAware:
    """Dynamic NTK: a table for each length, thrown away when the length changes (right)."""

    def __init__(self, dim, base, trained, factor):
        self.f = base ** (-np.arange(0, dim, 2) / dim)
        self.e = np.arange(0, dim, 2) / (dim - 2)
        self.trained, self.factor = trained, factor
        self.length, self.cos, self.sin = -1, None, None

    def __call__(self, x, offset):
        length = offset + x.shape[2]
        if length != self.length:
            alpha = 1.0 + self.factor * (max(length, self.trained) - self.trained) / self.trained
            ang = np.outer(np.arange(length), self.f / alpha ** self.e)
            self.cos, self.sin, self.length = np.cos(ang), np.sin(ang), length
        return _half(x, self.cos[offset:], self.sin[offset:])


def calls_dynamic_rebuilt(pairs):
    rope = LengthAware(64, 10000.0, 64, 4.0)
    return [rope(x, int(offset)) for x, offset in pairs]


_SHORT = (1.0, 1.02, 1.05, 1.1, 1.2, 1.3, 1.5, 1.8)
_LONG = (1.0, 1.3, 2.0, 4.0, 9.0, 17.0, 28.0, 40.0)


class Phi3Rotary:
    """LongRoPE; the phases are kept by offset and length (right)."""

    def __init__(self):
        self.m = math.sqrt(1 + math.log(32.0) / math.log(48))

    @functools.lru_cache(maxsize=8)
    def phases(self, offset, n):
        lam = _LONG if offset + n > 48 else _SHORT
        theta = [10000.0 ** (-k / 8) / v for k, v in enumerate(lam)]
        return self.m * np.exp(1j * np.multiply.outer(np.arange(offset, offset + n), theta))

    def __call__(self, x, offset):
        v = (x[..., :8].astype(np.complex128) + 1j * x[..., 8:]) * self.phases(offset, x.shape[2])
        return np.concatenate([v.real, v.imag], -1).astype(x.dtype)


def calls_phi3_lru(pairs):
    rope = Phi3Rotary()
    return [rope(x, int(offset)) for x, offset in pairs]
