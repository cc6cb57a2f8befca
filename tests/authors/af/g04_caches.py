"""Incremental decoding, key caches, shifts and eviction."""
import math

import numpy as np
import torch
import jax.numpy as jnp


def _halves(x, ang, m=1.0):
    h = ang.shape[-1]
    c, s = m * np.cos(ang), m * np.sin(ang)
    a, b, rest = x[..., :h], x[..., h:2 * h], x[..., 2 * h:]
    return np.concatenate([a * c - b * s, b * c + a * s, rest], -1).astype(x.dtype)


def _pairs(x, ang, m=1.0):
    h = 2 * ang.shape[-1]
    v = (x[..., 0:h:2] + 1j * x[..., 1:h:2]) * (m * np.exp(1j * ang))
    out = x.copy()
    out[..., 0:h:2], out[..., 1:h:2] = v.real, v.imag
    return out


def _feed(step, x, chunks):
    out, start = [], 0
    for n in chunks:
        out.append(step(x[:, :, start:start + n]))
        start += n
    return np.concatenate(out, axis=2)


# ------------------------------------------------------------------------------- decode
class CountsCalls:
    def __init__(self):
        self.pos = 0
        self.inv = 10000.0 ** (-np.arange(32) / 32)

    def __call__(self, x):
        t = self.pos + np.arange(x.shape[2])
        self.pos += 1                                         # the next step
        return _halves(x, t[:, None] * self.inv)


def decode_counts_calls(x, chunks):
    return _feed(CountsCalls(), x, chunks)


class PrefillThenStep:
    """As in a generate loop: cache_position is the index of the last token."""

    def __init__(self):
        self.last = None
        self.inv = 1000000.0 ** (-np.arange(64) / 64) / 4.0

    def __call__(self, x):
        n = x.shape[2]
        t = np.arange(n) if self.last is None else np.arange(self.last, self.last + n)
        self.last = n - 1 if self.last is None else self.last + n
        return _halves(x, t[:, None] * self.inv)


def decode_last_index(x, chunks):
    return _feed(PrefillThenStep(), x, chunks)


class TokensFirst:
    """The kernel takes (B, S, H, D)."""

    def __init__(self):
        self.pos = 0
        self.inv = 10000.0 ** (-np.arange(8) / 8)

    def __call__(self, x):
        b, h, s, d = x.shape
        t = np.arange(self.pos, self.pos + s)
        self.pos += s
        y = _pairs(np.reshape(x, (b, s, h, d)), t[:, None, None] * self.inv)
        return np.reshape(y, (b, h, s, d))


def decode_viewed(x, chunks):
    return _feed(TokensFirst(), x, chunks)


class RollingWindow:
    WINDOW = 96

    def __init__(self):
        self.count = 0
        self.inv = jnp.asarray(10000.0 ** (-np.arange(16) / 16), jnp.float32)

    def __call__(self, x):
        n = x.shape[2]
        slots = (self.count + jnp.arange(n)) % self.WINDOW     # places in the ring buffer
        self.count += n
        ang = slots[:, None].astype(jnp.float32) * self.inv
        c, s = jnp.cos(ang), jnp.sin(ang)
        a, b = x[..., 0::2], x[..., 1::2]
        return jnp.stack([a * c - b * s, b * c + a * s], -1).reshape(x.shape).astype(x.dtype)


def decode_ring_slots(x, chunks):
    step, out, start = RollingWindow(), [], 0
    for n in chunks:
        out.append(step(x[:, :, start:start + n]))
        start += n
    return jnp.concatenate(out, axis=2)


class PrefillByLength:
    """Several tokens are a prompt, one token is a step; the trailing 32 channels turn."""

    def __init__(self):
        self.pos = 0
        self.inv = 10000.0 ** (-np.arange(16) / 16)

    def __call__(self, x):
        n = x.shape[2]
        if n > 1:
            self.pos = 0
        t = self.pos + np.arange(n)
        self.pos += n
        return np.concatenate([x[..., :32], _pairs(x[..., 32:], t[:, None] * self.inv)], -1)


def decode_prompt_again(x, chunks):
    return _feed(PrefillByLength(), x, chunks)


def _generator(theta):
    """Keeps the phase of the next token and turns it on; exact again at every chunk (right)."""
    start, out = 0, None
    while True:
        x = yield out
        if x is None:
            continue
        n = x.shape[2]
        phase = np.exp(1j * start * theta)
        step = np.exp(1j * theta)
        rows = np.empty((n, len(theta)), np.complex128)
        for i in range(n):
            rows[i] = phase
            phase = phase * step
        v = (x[..., :len(theta)] + 1j * x[..., len(theta):]) * rows
        out = np.concatenate([v.real, v.imag], -1).astype(x.dtype)
        start += n


def decode_generator(x, chunks):
    d, base, s = 64, 10000.0, 8.0
    theta = np.array([(base * s ** (d / (d - 2))) ** (-2 * k / d) for k in range(d // 2)])
    rope = _generator(theta)
    next(rope)
    return _feed(rope.send, x, chunks)


# ---------------------------------------------------------------------------- key_cache
def _ntk(dim, base, alpha):
    k = np.arange(dim // 2)
    return base ** (-2 * k / dim) / alpha ** (2 * k / (dim - 2))


def keys_rotated_once(k, chunks):
    """Dynamic NTK; a key is rotated when it enters the cache."""
    cache, n = [], 0
    for c in chunks:
        alpha = max(2.0 * (n + c) / 64 - 1.0, 1.0)
        t = np.arange(n, n + c)
        cache.append(_halves(k[:, :, n:n + c], t[:, None] * _ntk(64, 10000.0, alpha)))
        n += c
    return np.concatenate(cache, 2)


def keys_alpha_of_prompt(k, chunks):
    """Qwen: the alpha is that of the prompt."""
    def alpha_of(length):
        return max(2 ** math.ceil(math.log(length / 32, 2) + 1) - 1, 1)

    alpha = alpha_of(chunks[0]) if len(chunks) else 1
    total = int(sum(chunks))
    return _halves(k[:, :, :total], np.arange(total)[:, None] * _ntk(32, 10000.0, alpha))


_SHORT = np.array([1.0, 1.0, 1.05, 1.1, 1.25, 1.4, 1.7, 2.0])
_LONG = np.array([1.0, 1.5, 2.5, 5.0, 11.0, 19.0, 30.0, 44.0])


def keys_longest_chunk(k, chunks):
    """LongRoPE: the raw keys are kept; the list is chosen by the call."""
    raw = k[:, :, : int(sum(chunks))]
    long = any(c > 40 for c in chunks)
    theta = 10000.0 ** (-np.arange(8) / 8) / (_LONG if long else _SHORT)
    m = math.sqrt(1 + math.log(16) / math.log(40))
    return _pairs(raw, np.arange(raw.shape[2])[:, None] * theta, m)


class RawKeys:
    """Dynamic NTK on raw keys; length is taken from the positions."""

    def __init__(self):
        self.keys = None

    def append(self, k):
        self.keys = k if self.keys is None else torch.cat([self.keys, k], 2)

    def rotated(self):
        pos = torch.arange(self.keys.shape[2], dtype=torch.float64)
        length = max(float(pos.max()), 32.0)
        alpha = 4.0 * length / 32.0 - 3.0
        i = torch.arange(0, 64, 2, dtype=torch.float64)
        base = 10000.0 * alpha ** (64 / 62)
        ang = pos[:, None] * base ** (-i / 64)
        a, b = self.keys.double().chunk(2, -1)
        c, s = ang.cos(), ang.sin()
        return torch.cat([a * c - b * s, b * c + a * s], -1).to(self.keys.dtype)


def keys_length_minus_one(k, chunks):
    cache, n = RawKeys(), 0
    for c in chunks:
        cache.append(k[:, :, n:n + c])
        n += c
    return cache.rotated()


class Switching:
    """LongRoPE: rotated keys are kept in float64, and turned on by the difference of the two
    lists once, when the cache becomes long (right)."""

    def __init__(self):
        f = 10000.0 ** (-np.arange(8) / 8)
        self.short, self.long = f / _SHORT, f / _LONG
        self.m = math.sqrt(1 + math.log(16) / math.log(40))
        self.cache, self.is_long = None, False

    def append(self, k):
        n = 0 if self.cache is None else self.cache.shape[2]
        total = n + k.shape[2]
        if total > 40 and not self.is_long:
            self.is_long = True
            if n:
                self.cache = self.cache * np.exp(1j * np.arange(n)[:, None] * (self.long - self.short))
        theta = self.long if self.is_long else self.short
        z = self.m * np.exp(1j * np.arange(n, total)[:, None] * theta)
        new = (k[..., 0::2].astype(np.float64) + 1j * k[..., 1::2]) * z
        self.cache = new if n == 0 else np.concatenate([self.cache, new], 2)


def keys_switched(k, chunks):
    cache, n = Switching(), 0
    for c in chunks:
        cache.append(k[:, :, n:n + c])
        n += c
    v = cache.cache
    return np.stack([v.real, v.imag], -1).reshape(k[:, :, :n].shape).astype(k.dtype)


# --------------------------------------------------------------------------- shift_keys
def _yarn(d, base, s, l0):
    i = np.arange(d // 2)
    f = base ** (-2 * i / d)
    find = lambda r: d * math.log(l0 / (r * 2 * math.pi)) / (2 * math.log(base))
    low, high = max(math.floor(find(32)), 0), min(math.ceil(find(1)), d - 1)
    w = np.clip((i - low) / (high - low), 0, 1)
    return f * (1 - w) + f / s * w


def shift_with_tables(rotated_k, delta):
    """The same cos and sin tables as for new keys."""
    m = 0.1 * math.log(16.0) + 1.0
    return _halves(rotated_k, float(delta) * _yarn(64, 10000.0, 16.0, 4096), m)


def shift_input_pairs(rotated_k, delta):
    theta = 10000.0 ** (-np.arange(32) / 32)
    return _pairs(rotated_k, float(delta) * theta)


def shift_without_factors(rotated_k, delta):
    """K-shift of a llama 3.1 graph."""
    inv = 500000.0 ** (-torch.arange(0, 128, 2, dtype=torch.float64) / 128)
    ang = inv * float(delta)
    c, s = ang.cos(), ang.sin()
    a, b = rotated_k.double().chunk(2, -1)
    return torch.cat([a * c - b * s, b * c + a * s], -1).to(rotated_k.dtype)


def shift_by_powers(rotated_k, delta):
    """Half of the pairs turn; powers of two by squaring (right)."""
    theta = np.zeros(32)
    theta[:16] = 10000.0 ** (-np.arange(16) / 32)
    n = abs(float(delta))
    if n == int(n):
        z, square, n = np.ones(32, np.complex128), np.exp(1j * theta), int(n)
        while n:
            if n & 1:
                z = z * square
            square = square * square
            n >>= 1
    else:
        z = np.exp(1j * n * theta)
    if delta < 0:
        z = z.conj()
    a, b = rotated_k[..., :32], rotated_k[..., 32:]
    y = np.concatenate([a * z.real - b * z.imag, b * z.real + a * z.imag], -1)
    return y.astype(rotated_k.dtype)


# --------------------------------------------------------------------------- evict_keys
def evict_turns_sinks(rotated_k, kept, dropped):
    left = np.concatenate([rotated_k[:, :, :kept], rotated_k[:, :, kept + dropped:]], 2)
    return _halves(left, -dropped * 10000.0 ** (-np.arange(32) / 32))


def evict_forgets_sinks(rotated_k, kept, dropped):
    """New places minus old places of the keys that move."""
    old = np.arange(kept + dropped, rotated_k.shape[2])
    new = np.arange(len(old))
    theta = 500000.0 ** (-np.arange(64) / 64)
    moved = _halves(rotated_k[:, :, kept + dropped:], (new - old)[:, None] * theta)
    return np.concatenate([rotated_k[:, :, :kept], moved], 2)


def evict_neox_shift(rotated_k, kept, dropped):
    """ChatGLM: the first half of the head."""
    theta = 10000.0 ** (-np.arange(16) / 16)
    moved = _halves(rotated_k[:, :, kept + dropped:], -dropped * theta)
    return np.concatenate([rotated_k[:, :, :kept], moved], 2)


def evict_moved_in_place(rotated_k, kept, dropped):
    """Port of a loop over the slots of one buffer, from the last slot down."""
    buf = rotated_k.copy()
    theta = 1000000.0 ** (-np.arange(32) / 32)
    rest = buf.shape[2] - kept - dropped
    for i in range(rest - 1, -1, -1):
        buf[:, :, kept + i] = _halves(buf[:, :, kept + dropped + i], -dropped * theta)
    return buf[:, :, : kept + rest]


_GIVEN = [1.0, 0.71, 0.52, 0.33, 0.21, 0.125, 0.08, 0.05]


def evict_given(rotated_k, kept, dropped):
    """Given frequencies, factor 1.25 on cos and sin already in the keys (right)."""
    back = torch.polar(torch.ones(8, dtype=torch.float64), -dropped * torch.tensor(_GIVEN, dtype=torch.float64))
    sinks, gone, rest = torch.split(rotated_k, [kept, dropped, rotated_k.shape[2] - kept - dropped], 2)
    v = torch.view_as_complex(rest.double().reshape(*rest.shape[:-1], 8, 2)) * back
    return torch.cat([sinks, torch.view_as_real(v).flatten(-2).to(rotated_k.dtype)], 2)
