"""Instances that are called many times: tables that grow, decoding, key caches, context shift."""
import math

import numpy as np


def freqs(d, base=10000.0):
    return 1.0 / base ** (np.arange(0, d, 2, dtype=np.float64) / d)


def turn_half(x, c, s):
    n = c.shape[-1]
    a, b = x[..., :n].astype(np.float64), x[..., n:2 * n].astype(np.float64)
    y = np.concatenate([a * c - b * s, a * s + b * c], -1).astype(x.dtype)
    return np.concatenate([y, x[..., 2 * n:]], -1)


def turn_pairs(x, c, s):
    a, b = x[..., 0::2].astype(np.float64), x[..., 1::2].astype(np.float64)
    out = np.empty_like(x)
    out[..., 0::2], out[..., 1::2] = a * c - b * s, a * s + b * c
    return out


def at(p, w):
    a = np.asarray(p, np.float64)[:, None] * w
    return np.cos(a), np.sin(a)


# ---------------------------------------------------------------------------- calls
class _Rope:
    def __init__(self, d=64, base=10000.0):
        self.w = freqs(d, base)
        self.cos = np.zeros((0, d // 2))
        self.sin = np.zeros((0, d // 2))


class Grows(_Rope):
    def __call__(self, x, offset):
        need = offset + x.shape[-2]
        have = len(self.cos)
        if need > have:
            new = max(need, 2 * have)
            c, s = at(np.arange(new - have), self.w)
            self.cos, self.sin = np.vstack([self.cos, c]), np.vstack([self.sin, s])
        rows = slice(offset, need)
        return turn_pairs(x, self.cos[rows], self.sin[rows])


def calls_growing(items):
    rope = Grows(128, 500000.0)
    return [rope(x, o) for x, o in items]


def _yarn(d, base, factor, length):
    def c(r):
        return d * math.log(length / (2 * math.pi * r)) / (2 * math.log(base))
    low, high = max(math.floor(c(32)), 0), min(math.ceil(c(1)), d - 1)
    g = np.clip((np.arange(d // 2) - low) / (high - low), 0, 1)
    f = freqs(d, base)
    return f * (1 - g) + f / factor * g


class YarnModule:
    def __init__(self):
        self.w = _yarn(64, 1e4, 4.0, 2048)
        self.m = 0.1 * math.log(4.0) + 1
        self.cos, self.sin = np.zeros((0, 32)), np.zeros((0, 32))

    def __call__(self, x, offset):
        end = offset + x.shape[-2]
        if end > len(self.cos):
            c, s = at(np.arange(len(self.cos), end), self.w)
            self.cos, self.sin = np.concatenate([self.cos, c]), np.concatenate([self.sin, s])
            self.cos *= self.m
            self.sin *= self.m
        return turn_half(x, self.cos[offset:end], self.sin[offset:end])


def calls_yarn_grown(items):
    rope = YarnModule()
    return [rope(x, o) for x, o in items]


def _dynamic(d, base, factor, trained, length):
    alpha = factor * max(length, trained) / trained - (factor - 1)
    return freqs(d, base * alpha ** (d / (d - 2)))


def calls_dynamic_grown(items):
    """The longest length so far decides."""
    longest = 0
    out = []
    for x, o in items:
        longest = max(longest, o + x.shape[-2])
        out.append(turn_half(x, *at(np.arange(o, o + x.shape[-2]), _dynamic(64, 1e4, 2.0, 512, longest))))
    return out


SHORT = tuple(1.0 + 0.01 * k for k in range(16))
LONG = tuple(1.0 + 0.5 * k for k in range(16))


def calls_first_list(items):
    """LongRoPE; the list is chosen when the module is first used."""
    m = math.sqrt(1 + math.log(8.0) / math.log(512))
    chosen = None
    out = []
    for x, o in items:
        s = x.shape[-2]
        if chosen is None:
            chosen = np.array(LONG if o + s > 512 else SHORT)
        c, sn = at(np.arange(o, o + s), freqs(32) / chosen)
        out.append(turn_half(x, m * c, m * sn))
    return out


class Doubling(_Rope):
    def __call__(self, x, offset):
        s = x.shape[-2]
        if offset + s > 1 << 16:
            return turn_half(x, *at(np.arange(offset, offset + s), self.w))
        while len(self.cos) < offset + s:
            n = len(self.cos)
            c, sn = at(np.arange(n, max(2 * n, 8)), self.w)
            self.cos, self.sin = np.concatenate([self.cos, c]), np.concatenate([self.sin, sn])
        i = np.arange(s) + offset
        return turn_half(x, self.cos.take(i, 0), self.sin.take(i, 0))


def calls_doubling(items):
    rope = Doubling(128)
    return [rope(x, int(o)) for x, o in items]


# ---------------------------------------------------------------------------- decode
def _feed(x, chunks, step):
    parts, at_ = [], 0
    for n in chunks:
        parts.append(step(x[:, :, at_:at_ + n]))
        at_ += n
    return np.concatenate(parts, axis=2)


class Paged:
    """Pages of 16 positions; the page of a chunk is looked up once."""

    def __init__(self):
        self.seen = 0
        self.w = freqs(128)

    def __call__(self, x):
        n = x.shape[2]
        page, slot = divmod(self.seen, 16)
        i = slot + np.arange(n)
        p = page * 16 + (i if self.seen == 0 else i % 16)
        self.seen += n
        return turn_half(x, *at(p, self.w))


def decode_paged(x, chunks):
    return _feed(x, chunks, Paged())


class Speculative:
    def __init__(self):
        self.seen = 0
        self.w = freqs(64, 1e6)

    def __call__(self, x):
        n = x.shape[2]
        p = np.arange(n) if self.seen == 0 else np.full(n, self.seen)
        self.seen += n
        return turn_pairs(x, *at(p, self.w))


def decode_one_position(x, chunks):
    return _feed(x, chunks, Speculative())


class Halving:
    """Sliding window of 1024 positions: when it is full, counting goes on in the middle."""

    def __init__(self):
        self.seen = 0
        self.w = freqs(64)

    def __call__(self, x):
        n = x.shape[2]
        if self.seen + n > 1024 and self.seen > 0:
            self.seen = max(0, self.seen - 512)
        p = self.seen + np.arange(n)
        self.seen += n
        return turn_half(x, *at(p, self.w))


def decode_window(x, chunks):
    return _feed(x, chunks, Halving())


class Phasor:
    """Carries exp(i w p) from token to token, and sets it again at every 64th."""

    def __init__(self):
        self.p = 0
        self.w = freqs(96)
        self.step = np.exp(1j * self.w)
        self.z = np.ones(48, complex)

    def __call__(self, x):
        out = np.empty_like(x)
        for t in range(x.shape[2]):
            if self.p % 64 == 0:
                self.z = np.exp(1j * self.w * self.p)
            out[:, :, t] = turn_half(x[:, :, t], self.z.real, self.z.imag)
            self.z = self.z * self.step
            self.p += 1
        return out


def decode_phasor(x, chunks):
    return _feed(x, chunks, Phasor())


# ---------------------------------------------------------------------------- key_cache


def cache_length_before(k, chunks):
    """The length is read before the last chunk is written."""
    total = k.shape[2]
    length = total - (list(chunks)[-1] if len(chunks) > 1 else 0)
    return turn_half(k, *at(np.arange(total), _dynamic(128, 1e4, 2.0, 256, length)))


def cache_prompt_kept(k, chunks):
    """Generated keys are turned again when the length grows; those of the prompt are not."""
    chunks = list(chunks)
    total = k.shape[2]
    out = turn_half(k, *at(np.arange(total), _dynamic(64, 5e5, 8.0, 64, total)))
    if len(chunks) > 1:
        n = chunks[0]
        out[:, :, :n] = turn_half(k[:, :, :n], *at(np.arange(n), _dynamic(64, 5e5, 8.0, 64, n)))
    return out


def cache_raw_keys(k, chunks):
    """Stores raw keys in reverse order, and turns them when they are read."""
    store, i = [], 0
    for n in chunks:
        store.extend(k[:, :, t] for t in range(i, i + n))
        i += n
    w = _dynamic(64, 1e4, 2.0, 128, len(store))
    turned = []
    for p in range(len(store) - 1, -1, -1):
        turned.append(turn_half(store[p], np.cos(p * w), np.sin(p * w)))
    return np.stack(turned[::-1], axis=2) if turned else k.copy()


# ---------------------------------------------------------------------------- shift_keys, evict_keys
def shift_by_steps(rotated_k, delta):
    w = freqs(64)
    out = rotated_k.astype(np.float64)
    for _ in range(int(delta)):
        out = turn_half(out, np.cos(w), np.sin(w))
    return out.astype(rotated_k.dtype)


def shift_with_factor(rotated_k, delta):
    m = 0.1 * math.log(4.0) + 1
    w = _yarn(128, 1e6, 4.0, 32768)
    return turn_half(rotated_k, m * np.cos(delta * w), m * np.sin(delta * w))


def shift_by_squaring(rotated_k, delta):
    w = freqs(128, 500000.0)
    z, n = np.ones(64, complex), abs(int(delta))
    power = 1
    while n:
        if n & 1:
            z = z * np.exp(1j * w * power)
        power, n = 2 * power, n >> 1
    if delta < 0:
        z = 1 / z
    return turn_half(rotated_k, z.real, z.imag)


def evict_all_moved(rotated_k, kept, dropped):
    w = freqs(128)
    held = np.concatenate([rotated_k[:, :, :kept], rotated_k[:, :, kept + dropped:]], 2)
    return turn_pairs(held, np.cos(dropped * w), -np.sin(dropped * w))


def evict_again(rotated_k, kept, dropped):
    """Undo the old position, then turn to the new one, in float64."""
    w = freqs(64, 1e6)
    s = rotated_k.shape[2]
    old = np.r_[0:kept, kept + dropped:s]
    k = turn_half(rotated_k[:, :, old].astype(np.float64), *at(-old, w))
    k = turn_half(k, *at(np.arange(old.size), w))
    return k.astype(rotated_k.dtype)
