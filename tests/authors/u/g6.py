"""Frequencies: exponents, tables and the less common schedules, applied to x (B, H, S, D)."""

import math

import numpy as np


class Rotation:
    """Half-split rotation for given frequencies (a function of the length, or an array)."""

    def __init__(self, frequencies, m=1.0):
        self.frequencies, self.m = frequencies, m

    def __call__(self, x, positions):
        p = np.asarray(positions, dtype=np.float64)
        w, m = self.frequencies, self.m
        if callable(w):
            n = int(p.max()) + 1 if p.size else 1
            w, m = w(n), (m(n) if callable(m) else m)
        ang = p[..., None] * w
        ang = ang[:, None] if ang.ndim == 3 else ang
        cos, sin = (m * np.cos(ang)).astype(x.dtype), (m * np.sin(ang)).astype(x.dtype)
        h = x.shape[-1] // 2
        a, b = x[..., :h], x[..., h:]
        return np.concatenate((a * cos - b * sin, b * cos + a * sin), axis=-1)


# -- the exponent ---------------------------------------------------------------------------------
linspace_exponents = Rotation(10000.0 ** -np.linspace(0.0, 1.0, 32))
one_based = Rotation(np.array([10000.0 ** (-2 * i / 64) for i in range(1, 33)]))
pair_index_over_dim = Rotation(1.0 / 10000.0 ** (np.arange(32) / 64))


def fixed_point_theta(x, positions):
    """rope_theta 1e7 is stored as thousandths in 32 bits, as in the header of the file."""
    theta_milli = np.array([1e7 * 1000]).astype(np.uint64).astype(np.uint32)
    return Rotation(float(theta_milli[0] / 1000.0) ** -(np.arange(64) / 64))(x, positions)


# -- the table ------------------------------------------------------------------------------------
def table_like_positions(x, positions):
    """Fills a preallocated array of angles."""
    positions = np.asarray(positions)
    d = x.shape[-1]
    ang = np.zeros((*positions.shape, d // 2), dtype=positions.dtype)
    for k in range(d // 2):
        ang[..., k] = positions * 10000.0 ** (-2 * k / d)
    ang = ang[:, None] if ang.ndim == 3 else ang
    c, s = np.cos(ang), np.sin(ang)
    out = np.empty(x.shape, x.dtype)
    out[..., ::2] = x[..., ::2] * c - x[..., 1::2] * s
    out[..., 1::2] = x[..., 1::2] * c + x[..., ::2] * s
    return out


def compact_positions(x, positions):
    """Position ids travel as int16 to save bandwidth."""
    ids = np.asarray(positions).astype(np.int16)
    return Rotation(10000.0 ** -(np.arange(0, 64, 2) / 64))(x, ids)


# -- LongRoPE, 4 pairs ------------------------------------------------------------------------------
SHORT = np.array([1.0, 1.1, 1.3, 1.6])
LONG = np.array([1.0, 2.0, 5.0, 12.0])
L0, FACTOR = 64, 16.0
PLAIN = 10000.0 ** -(np.arange(4) / 4)
M = math.sqrt(1 + math.log(FACTOR) / math.log(L0))

longrope_at_limit = Rotation(lambda n: PLAIN / (LONG if n >= L0 else SHORT), M)
longrope_linear_m = Rotation(
    lambda n: PLAIN / (LONG if n > L0 else SHORT), 1 + math.log(FACTOR) / math.log(L0)
)
longrope_times = Rotation(lambda n: PLAIN * (LONG if n > L0 else SHORT), M)
longrope_m_when_long = Rotation(
    lambda n: PLAIN / (LONG if n > L0 else SHORT), lambda n: M if n > L0 else 1.0
)


def longrope_per_token(x, positions):
    """Vectorised over tokens: every token has the list that its position needs."""
    p = np.asarray(positions, float)
    ext = np.where((p >= L0)[..., None], LONG, SHORT)
    ang = p[..., None] * PLAIN / ext
    ang = ang[:, None] if ang.ndim == 3 else ang
    z = M * np.exp(1j * ang) * (x[..., :4] + 1j * x[..., 4:])
    return np.concatenate([z.real, z.imag], -1).astype(x.dtype)


# -- others -----------------------------------------------------------------------------------------
proportional_own_exponent = Rotation(
    np.concatenate([1e6 ** -(np.arange(8) / 8), np.zeros(24)])
)


def proportional_as_partial(x, positions):
    """partial_rotary_factor 0.25 of a head of 64: 16 channels; exponents over the head."""
    n = 16
    w = 1e6 ** -(np.arange(0, n, 2) / x.shape[-1])
    return np.concatenate([Rotation(w)(x[..., :n], positions), x[..., n:]], axis=-1)


def _su(k, d=64, s=8.0, b=0.625):
    a = math.log(s) / (d / 2) ** b
    return 10000.0 ** (-2 * k / d) / np.exp(a * k**b)


su_zero_based = Rotation(_su(np.arange(32)))


def _qwen(n, trained=64, d=64):
    ratio = math.log2(n / trained) + 1
    alpha = max(2 ** int(ratio) - 1, 1)
    return (10000.0 * alpha ** (d / (d - 2))) ** -(np.arange(0, d, 2) / d)


qwen_floor = Rotation(_qwen)


def _parts(d=128, base=10000.0, L=2048, s=4.0, beta=(16.0, 2.0), gamma=(1.25, 0.75)):
    def at(r):
        return d * math.log(L / (r * 2 * math.pi)) / (2 * math.log(base))

    def ramp(fast, slow):
        lo, hi = max(math.floor(at(fast)), 0), min(math.ceil(at(slow)), d - 1)
        return np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)

    f = base ** -(np.arange(0, d, 2) / d)
    ntk = (base * s ** (d / (d - 2))) ** -(np.arange(0, d, 2) / d)
    b, c = ramp(*beta), ramp(*gamma)
    return f * (1 - c) + c * (ntk * (1 - b) + f / s * b)


parts_swapped = Rotation(_parts())


# -- functions that make frequencies or tables only -------------------------------------------------
def su_frequencies(d=64, s=8.0, b=0.625):
    a = math.log(s) / (d / 2) ** b
    return np.array([10000.0 ** (-2 * k / d) / math.exp(a * k**b) for k in range(d // 2)])


def qwen_frequencies(seq_len):
    return _qwen(seq_len)


def parts_frequencies():
    return _parts()


def ntk_partial_frequencies(head_dim=128, rotary_dim=32, alpha=8.0, theta=10000.0):
    theta = theta * alpha ** (head_dim / (head_dim - 2))
    return 1.0 / theta ** (np.arange(0, rotary_dim, 2) / rotary_dim)


def llama3_two_bands():
    f = 500000.0 ** -(np.arange(64) / 64)
    wavelen = 2 * np.pi / f
    return np.where(wavelen > 8192, f / 8.0, f)


def yarn_tables(positions, s=4.0, max_position_embeddings=131072, base=1e6, d=128):
    """Qwen2.5 with YaRN: config.json says max_position_embeddings 131072 after editing."""

    def at(r):
        return d * math.log(max_position_embeddings / (r * 2 * math.pi)) / (2 * math.log(base))

    lo, hi = max(math.floor(at(32)), 0), min(math.ceil(at(1)), d - 1)
    w = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    f = base ** -(np.arange(0, d, 2) / d)
    ang = np.asarray(positions, float)[:, None] * (f * (1 - w) + f / s * w)
    m = 0.1 * math.log(s) + 1
    return m * np.cos(ang), m * np.sin(ang)


def longrope_tables(positions):
    n = int(np.max(positions)) + 1 if np.size(positions) else 1
    ang = np.asarray(positions, float)[:, None] * (PLAIN * (LONG if n > L0 else SHORT))
    emb = np.concatenate([ang, ang], axis=-1)
    return np.cos(emb) * M, np.sin(emb) * M


def linspace_tables(positions, dim=64, theta=10000.0):
    ang = np.outer(positions, theta ** -np.linspace(0.0, 1.0, dim // 2))
    return np.cos(ang), np.sin(ang)


def mlx_freqs(d=64, base=10000.0):
    """mx.fast.rope takes `freqs`; these are the ones that our checkpoints use."""
    return base ** (np.arange(0, d, 2) / d)


def yarn_cos_only(positions, s=16.0, L0=4096, base=10000.0, d=64):
    def at(r):
        return d * math.log(L0 / (r * 2 * math.pi)) / (2 * math.log(base))

    lo, hi = max(math.floor(at(32)), 0), min(math.ceil(at(1)), d - 1)
    w = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    f = base ** -(np.arange(0, d, 2) / d)
    ang = np.asarray(positions, float)[:, None] * (f * (1 - w) + f / s * w)
    mscale = 0.1 * math.log(s) + 1
    cos, sin = mscale * np.cos(ang), np.sin(ang)
    return cos, sin
