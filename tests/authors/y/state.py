"""Caches, incremental decoding, repeated calls."""
import functools
import math

import numpy as np
import torch


def _inv(d, base=10000.0):
    return 1.0 / base ** (np.arange(0, d, 2) / d)


def _half(x, pos, inv, m=1.0):
    a = np.asarray(pos, np.float64)[..., None] * inv
    c, s = m * np.cos(a), m * np.sin(a)
    n = x.shape[-1] // 2
    u, v = x[..., :n], x[..., n:]
    return np.concatenate((u * c - v * s, v * c + u * s), -1).astype(x.dtype)


class _Stepper(torch.nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.register_buffer("inv", 1.0 / base ** (torch.arange(0, dim, 2).double() / dim))
        self.offset = 0

    def forward(self, x):
        t = torch.arange(self.offset, self.offset + x.shape[2])
        a = t[:, None] * self.inv
        c, s = a.cos().to(x.dtype), a.sin().to(x.dtype)
        x1, x2 = x[..., 0::2], x[..., 1::2]
        if self.offset == 0:
            self.offset = x.shape[2]  # the prompt
        else:
            self.offset += 1  # then token by token
        return torch.stack((x1 * c - x2 * s, x1 * s + x2 * c), -1).flatten(-2)


def a9_013(x, chunks):
    m = _Stepper(x.shape[-1])
    return torch.cat([m(part) for part in torch.split(x, list(chunks), dim=2)], dim=2)


class _Lucid:
    def __init__(self, dim):
        self.inv = 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        self.cache = {}

    def freqs(self, n, offset):
        key = f"freqs:{n}"
        if key not in self.cache:
            t = torch.arange(n) + offset
            self.cache[key] = (t[:, None] * self.inv).repeat_interleave(2, dim=-1)
        return self.cache[key]

    def rotate(self, x, offset=0):
        f = self.freqs(x.shape[-2], offset)
        r = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
        return (x * f.cos() + r * f.sin()).to(x.dtype)


def a9_014(calls):
    rope = _Lucid(64)
    return [rope.rotate(x, int(o)) for x, o in calls]


class _DynamicNTK:
    def __init__(self, d=64, base=10000.0, factor=2.0, trained=128):
        self.d, self.base, self.factor, self.trained = d, base, factor, trained
        self.longest = trained
        self.inv = _inv(d)

    def __call__(self, x, offset):
        n = offset + x.shape[-2]
        if n > self.longest:
            self.longest = n
            a = self.factor * n / self.trained - (self.factor - 1)
            self.inv = _inv(self.d, self.base * a ** (self.d / (self.d - 2)))
        return _half(x, np.arange(offset, n), self.inv)


def a9_015(calls):
    r = _DynamicNTK()
    return [r(x, int(o)) for x, o in calls]


_SHORT = [1.0 + 0.01 * i for i in range(16)]
_LONG = [1.0 + 0.5 * i for i in range(16)]


def a9_016(k, chunks):
    """Phi-3: the long list once the sequence is longer than 64."""
    m = math.sqrt(1 + math.log(8) / math.log(64))
    cache, seen = [], 0
    for n in chunks:
        total = seen + n
        ext = np.array(_LONG if total > 64 else _SHORT)
        cache.append(_half(k[:, :, seen:total], np.arange(seen, total), _inv(32) / ext, m))
        seen = total
    return np.concatenate(cache, 2)


def a9_017(x, chunks):
    """Ring buffer of 64 slots: the slot is the index into the tables."""
    cap = 64
    a = np.arange(cap)[:, None] * _inv(x.shape[-1])
    cos, sin = np.cos(a).astype(x.dtype), np.sin(a).astype(x.dtype)
    out, head = [], 0
    for n in chunks:
        slot = (head + np.arange(n)) % cap
        piece = x[:, :, head : head + n]
        u, v = np.split(piece, 2, -1)
        out.append(np.concatenate((u * cos[slot] - v * sin[slot], v * cos[slot] + u * sin[slot]), -1))
        head += n
    return np.concatenate(out, 2)


def _yarn(d, base, factor, L0):
    k = np.arange(d // 2)
    f = base ** (-2.0 * k / d)
    c = lambda r: d * math.log(L0 / (2 * math.pi * r)) / (2 * math.log(base))
    lo, hi = max(math.floor(c(32)), 0), min(math.ceil(c(1)), d - 1)
    w = np.clip((k - lo) / (hi - lo), 0, 1)
    return f * (1 - w) + f / factor * w, 0.1 * math.log(factor) + 1


def a9_018(rotated_k, delta):
    inv, m = _yarn(64, 10000.0, 4.0, 4096)
    d = np.full(rotated_k.shape[-2], delta)
    return _half(rotated_k, d, inv, m)  # the same function as for new keys


def a9_019(rotated_k, kept, dropped):
    left = np.concatenate((rotated_k[:, :, :kept], rotated_k[:, :, kept + dropped :]), 2)
    return _half(left, np.full(left.shape[2], -dropped), _inv(left.shape[-1]))


def a9_020(x, offset):
    start = int(np.max(offset))  # one launch for the whole batch
    return _half(x, np.arange(start, start + x.shape[2]), _inv(x.shape[-1]))


class _Remembering:
    def __init__(self):
        self.end = 0

    def __call__(self, x, offset=None):
        offset = offset or self.end
        y = _half(x, np.arange(offset, offset + x.shape[2]), _inv(x.shape[-1]))
        self.end = offset + x.shape[2]
        return y


def a9_021(calls):
    f = _Remembering()
    return [f(x, int(o)) for x, o in calls]


def a9_022(x, positions, dy):
    """Backward of YaRN's rotation: undo the forward."""
    inv, m = _yarn(64, 10000.0, 4.0, 4096)
    p = -np.asarray(positions)
    if p.ndim == 2:
        p = p[:, None]
    return _half(dy, p, inv, 1.0 / m)


def a9_023(x, chunks):
    """Complex numbers; the offset is what is in the cache."""
    d = x.shape[-1]
    z = torch.polar(torch.ones(d // 2, dtype=torch.float64), torch.from_numpy(_inv(d)))
    out, t = [], 0
    for part in torch.split(x, list(chunks), 2):
        n = part.shape[2]
        p = torch.arange(t, t + n)[:, None]
        rot = torch.polar(torch.ones(n, d // 2, dtype=torch.float64), p * z.angle()).conj()
        c = torch.view_as_complex(part.double().unflatten(-1, (-1, 2)).contiguous())
        out.append(torch.view_as_real(c * rot).flatten(-2).to(x.dtype))
        t = n
    return torch.cat(out, 2)


def a9_024(x, chunks):
    """Closure with tables that grow by doubling."""

    def make(d):
        inv, table, seen = _inv(d, 500000.0), [np.empty((0, d // 2), complex)], 0

        def step(part):
            nonlocal seen
            need = seen + part.shape[2]
            while len(table[0]) < need:
                n = max(8, 2 * len(table[0]))
                table[0] = np.exp(1j * np.arange(n)[:, None] * inv)
            z = table[0][seen:need]
            seen = need
            h = part.shape[-1] // 2
            w = (part[..., :h] + 1j * part[..., h:].astype(float)) * z
            return np.concatenate((w.real, w.imag), -1).astype(part.dtype)

        return step

    step = make(x.shape[-1])
    return np.concatenate([step(p) for p in np.split(x, np.cumsum(list(chunks))[:-1], 2)], 2)


@functools.lru_cache(maxsize=4)
def _rows(start, n, d):
    a = np.arange(start, start + n)[:, None] * _inv(d)
    t = np.repeat(np.stack((np.cos(a), np.sin(a))), 2, -1)
    t.flags.writeable = False
    return t


def a9_025(calls):
    out = []
    for x, o in calls:
        c, s = _rows(int(o), x.shape[-2], x.shape[-1])
        sw = x.reshape(*x.shape[:-1], -1, 2)[..., ::-1] * np.array([-1, 1], x.dtype)
        out.append((x * c + sw.reshape(x.shape) * s).astype(x.dtype))
    return out


def a9_026(k, chunks):
    """Raw keys are kept; all are rotated when they are read."""
    raw = []
    for part in np.split(k, np.cumsum(list(chunks))[:-1], axis=2):
        raw.append(part)
    full = np.concatenate(raw, 2)
    L = max(full.shape[2], 128)
    alpha = 2.0 * L / 128 - 1.0
    j = np.arange(32)
    inv = 10000.0 ** (-j / 32) * alpha ** (-j / 31)
    return _half(full, np.arange(full.shape[2]), inv)
