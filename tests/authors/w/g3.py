"""Context extension: linear, NTK, dynamic NTK, YaRN, LongRoPE, Llama 3, proportional."""
import math

import numpy as np
import torch

TWO_PI = 2 * math.pi


def _rotate(x, ang, m=1.0):
    if ang.ndim == 3:
        ang = ang[:, None]
    h = ang.shape[-1]
    c, s = m * np.cos(ang), m * np.sin(ang)
    a, b, rest = x[..., :h], x[..., h: 2 * h], x[..., 2 * h:]
    return np.concatenate([a * c - b * s, b * c + a * s, rest], -1).astype(x.dtype)


# ---- linear ------------------------------------------------------------------------------
class ScaledSteps:
    """Position interpolation; incremental, with a running offset."""

    def __init__(self, dim, base, factor):
        self.inv = base ** (-np.arange(0, dim, 2) / dim)
        self.factor, self.offset = factor, 0

    def step(self, x):
        n = x.shape[-2]
        t = np.arange(n) / self.factor + self.offset
        self.offset += n
        return _rotate(x, t[:, None] * self.inv)


def linear_decode(x, chunks):
    rope, outs, i = ScaledSteps(64, 10000.0, 8.0), [], 0
    for c in chunks:
        outs.append(rope.step(x[..., i: i + c, :]))
        i += c
    return np.concatenate(outs, axis=-2)


def linear_condensed(x, positions):
    """rope_condense_ratio: eight neighbours share one trained position."""
    p = torch.as_tensor(positions) // 8
    inv = 10000.0 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64)
    a = p[..., None].double() * inv
    if a.dim() == 3:
        a = a.unsqueeze(1)
    z = torch.polar(torch.ones_like(a), a)
    w = torch.complex(x[..., :32].double(), x[..., 32:].double()) * z
    return torch.cat((w.real, w.imag), -1).to(x.dtype)


# ---- NTK -----------------------------------------------------------------------------------
def ntk_head_size():
    """head_dim 128, partial_rotary_factor 0.5."""
    head_dim, rotary_dim, base, factor = 128, 64, 10000.0, 4.0
    base = base * factor ** (head_dim / (head_dim - 2))
    return base ** (-np.arange(0, rotary_dim, 2) / rotary_dim)




# ---- dynamic NTK ------------------------------------------------------------------------------
def dynamic_last_position(x, positions):
    d, base, factor, limit = 64, 10000.0, 2.0, 2048
    pos = np.asarray(positions, np.float64)
    seq_len = pos.max()
    if seq_len > limit:
        base = base * (factor * seq_len / limit - (factor - 1)) ** (d / (d - 2))
    return _rotate(x, pos[..., None] * base ** (-np.arange(0, d, 2) / d))


class DynamicModule:
    """dynamic_frequency_update: grow when longer, reset when short again."""

    def __init__(self, dim, base, factor, original):
        self.dim, self.base, self.factor, self.original = dim, base, factor, original
        self.cached = original
        self.inv = base ** (-np.arange(0, dim, 2) / dim)

    def update(self, n):
        if n > self.cached:
            b = self.base * (self.factor * n / self.original - (self.factor - 1)) ** (self.dim / (self.dim - 2))
            self.inv = b ** (-np.arange(0, self.dim, 2) / self.dim)
            self.cached = n
        if n < self.original and self.cached > self.original:
            self.inv = self.base ** (-np.arange(0, self.dim, 2) / self.dim)
            self.cached = self.original

    def __call__(self, x, offset):
        n = offset + x.shape[-2]
        self.update(n)
        return _rotate(x, np.arange(offset, n)[:, None] * self.inv)


def dynamic_calls(calls):
    rope = DynamicModule(64, 10000.0, 4.0, 64)
    return [rope(x, int(o)) for x, o in calls]


def dynamic_key_cache(k, chunks):
    rope = DynamicModule(64, 10000.0, 4.0, 64)
    cache, n = [], 0
    for c in chunks:
        cache.append(rope(k[..., n: n + c, :], n))
        n += c
    return np.concatenate(cache, -2)


# ---- YaRN ----------------------------------------------------------------------------------------


def yarn_channel_ramp():
    """The ramp is built for all channels, then every other one is kept, as for inv_freq."""
    d, base, factor, L0 = 64, 150000.0, 32.0, 4096
    channels = torch.arange(0, d, dtype=torch.float64)
    f = 1.0 / base ** (channels[::2] / d)
    lo = d * math.log(L0 / (32 * TWO_PI)) / (2 * math.log(base))
    hi = d * math.log(L0 / (1 * TWO_PI)) / (2 * math.log(base))
    ramp = ((channels - lo) / (hi - lo)).clamp(0, 1)[::2]
    return f * (1 - ramp) + f / factor * ramp, 0.1 * math.log(factor) + 1


def yarn_period_blend():
    """This framework's kernel wants periods, so the ramp is applied to them."""
    d, base, factor, L0 = 128, 1e6, 4.0, 32768
    period = base ** (np.arange(0, d, 2) / d)
    corr = [d * math.log(L0 / (b * TWO_PI)) / (2 * math.log(base)) for b in (32, 1)]
    lo, hi = math.floor(corr[0]), math.ceil(corr[1])
    w = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    return 1.0 / ((1 - w) * period + w * period * factor)


def _yarn_cos_sin(pos, d, base, s, L0, m):
    f = base ** (-np.arange(0, d, 2) / d)
    lo = max(math.floor(d * math.log(L0 / (32 * TWO_PI)) / (2 * math.log(base))), 0)
    hi = min(math.ceil(d * math.log(L0 / TWO_PI) / (2 * math.log(base))), d - 1)
    w = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    a = np.asarray(pos, np.float64)[..., None] * (f * (1 - w) + f * w / s)
    return m * np.cos(a), m * np.sin(a)


def yarn_mscale_twice(x, positions):
    """The table is made by the rope utility, the layer pre-multiplies x by mscale."""
    m = 0.1 * math.log(4.0) + 1.0
    c, s = _yarn_cos_sin(positions, 128, 1e6, 4.0, 32768, m)
    if c.ndim == 3:
        c, s = c[:, None], s[:, None]
    x = x * x.dtype.type(m)
    a, b = x[..., :64], x[..., 64:]
    return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)




def yarn_backward_inverse(x, positions, dy):
    """Backward of the scaled rotation: rotate back with the inverse table."""
    m = 0.1 * math.log(8.0) + 1.0
    c, s = _yarn_cos_sin(positions, 64, 500000.0, 8.0, 8192, 1.0)
    if c.ndim == 3:
        c, s = c[:, None], s[:, None]
    g1, g2 = dy[..., :32], dy[..., 32:]
    return (np.concatenate([g1 * c + g2 * s, g2 * c - g1 * s], -1) / m).astype(dy.dtype)


# ---- LongRoPE --------------------------------------------------------------------------------------
SHORT = np.array([1.0, 1.02, 1.03, 1.05, 1.08, 1.1, 1.2, 1.25])
LONG = np.array([1.1, 1.3, 2.0, 3.5, 6.0, 10.0, 20.0, 32.0])


def longrope_at_limit(seq_len):
    factors = LONG if seq_len >= 64 else SHORT
    m = math.sqrt(1 + math.log(32.0) / math.log(64))
    return 10000.0 ** (-np.arange(0, 16, 2) / 16) / factors, m


def longrope_by_chunk(x, positions):
    """Phi-3: the list of factors is chosen by the length of the hidden states."""
    seq_len = x.shape[-2]
    factors = torch.as_tensor(LONG if seq_len > 64 else SHORT)
    inv = 1.0 / (factors * 10000.0 ** (torch.arange(0, 16, 2, dtype=torch.float64) / 16))
    a = torch.as_tensor(positions).double()[..., None] * inv
    if a.dim() == 3:
        a = a[:, None]
    m = math.sqrt(1 + math.log(32.0) / math.log(64))
    c, s = (m * a.cos()).to(x.dtype), (m * a.sin()).to(x.dtype)
    u, v = x[..., :8], x[..., 8:]
    return torch.cat((u * c - v * s, v * c + u * s), -1)


def longrope_short_unscaled(seq_len):
    if seq_len <= 64:
        return 10000.0 ** (-np.arange(0, 16, 2) / 16) / SHORT, 1.0
    return 10000.0 ** (-np.arange(0, 16, 2) / 16) / LONG, math.sqrt(1 + math.log(32.0) / math.log(64))


class LongCache:
    """Keys are rotated on insertion; when the context outgrows the short factors, all again."""

    def __init__(self):
        self.raw, self.rot, self.n = [], [], 0
        self.base = 10000.0 ** (-np.arange(0, 16, 2) / 16)
        self.m = math.sqrt(1 + math.log(32.0) / math.log(64))

    def _apply(self, k, first, factors):
        p = np.arange(first, first + k.shape[-2])
        return _rotate(k, p[:, None] * (self.base / factors), self.m)

    def append(self, k):
        before, after = self.n, self.n + k.shape[-2]
        self.raw.append(k)
        if before < 64 < after:
            self.rot = [self._apply(np.concatenate(self.raw, -2), 0, LONG)]
        else:
            self.rot.append(self._apply(k, before, LONG if after > 64 else SHORT))
        self.n = after
        return np.concatenate(self.rot, -2)


def longrope_key_cache(k, chunks):
    cache, i, out = LongCache(), 0, None
    for c in chunks:
        out = cache.append(k[..., i: i + c, :])
        i += c
    return out


# ---- Llama 3 ----------------------------------------------------------------------------------------
def llama3_by_wavelength():
    d, base, s, low, high, L0 = 128, 500000.0, 8.0, 1.0, 4.0, 8192
    out = []
    for k in range(d // 2):
        f = base ** (-2 * k / d)
        wavelength = TWO_PI / f
        shortest, longest = L0 / high, L0 / low
        if wavelength < shortest:
            out.append(f)
        elif wavelength > longest:
            out.append(f / s)
        else:
            smooth = (longest - wavelength) / (longest - shortest)
            out.append((1 - smooth) * f / s + smooth * f)
    return np.array(out)


def llama3_fixed_bounds(positions):
    """use_scaled_rope: only the factor is an argument."""
    f = 500000.0 ** (-torch.arange(0, 128, 2, dtype=torch.float64) / 128)
    low, high, old = 1, 4, 8192
    turns = old * f / TWO_PI
    t = ((turns - low) / (high - low)).clamp(0, 1)
    a = torch.as_tensor(positions).double()[:, None] * (f * ((1 - t) / 16.0 + t))
    return a.cos(), a.sin()


# ---- proportional --------------------------------------------------------------------------------------
