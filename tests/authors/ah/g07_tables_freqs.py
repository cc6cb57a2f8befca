"""`cos_sin` and `frequencies`."""
import math
from decimal import Decimal, getcontext
import numpy as np
import torch


def _inv(d, base=10000.0):
    return base ** (-np.arange(0, d, 2) / d)


def _p(positions):
    return np.asarray(positions).astype(np.float64)


# ---------------------------------------------------------------- cos_sin, wrong
def interpolated_positions(positions):
    """Position interpolation: t // scale, as in the fork's RotaryEmbedding."""
    t = np.floor_divide(_p(positions), 4.0)
    ang = np.outer(t, _inv(32))
    return np.cos(ang), np.sin(ang)


def sine_from_cosine(positions):
    """One transcendental function per angle."""
    c = np.cos(np.outer(_p(positions), _inv(64, 500000.0)))
    return c, np.sqrt(np.maximum(1.0 - c * c, 0.0))


_SHORT = np.array([1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 1.8, 2.0])
_LONG = np.array([1.0, 1.4, 2.0, 3.5, 7.0, 13.0, 26.0, 32.0])


def longrope_scale_if_long(positions):
    """Both the list and the attention factor belong to the extended context."""
    p = _p(positions)
    long = p.size and int(p.max()) + 1 > 128
    ang = np.outer(p, _inv(16) / (_LONG if long else _SHORT))
    m = math.sqrt(1 + math.log(32.0) / math.log(128)) if long else 1.0
    return np.cos(ang) * m, np.sin(ang) * m


class CosSinCache:
    """vLLM's cos_sin_cache; rows are fetched with index_select and a clamp, for CUDA graphs."""

    def __init__(self, dim, rows, base):
        t = torch.outer(torch.arange(rows, dtype=torch.float64), torch.from_numpy(_inv(dim, base)))
        self.cache = torch.cat([t.cos(), t.sin()], -1).float()

    def __call__(self, positions):
        p = torch.as_tensor(positions)
        q = p.to(torch.int64)
        if (q != p).any() or (q < 0).any():
            raise ValueError("positions must be whole numbers from 0 on")
        rows = self.cache.index_select(0, q.clamp(max=len(self.cache) - 1))
        return rows.chunk(2, dim=-1)


_cache = CosSinCache(32, 2048, 1000000.0)


def clamped_cache(positions):
    return _cache(positions)


def yarn_rewritten(positions):
    """YaRN from memory: the mask says which pairs are interpolated, mscale is 0.1 log s + 1."""
    d, base, s, L = 64, 10000.0, 16.0, 4096

    def c(r):
        return d * math.log(L / (r * 2 * math.pi)) / (2 * math.log(base))

    lo, hi = math.floor(c(32.0)), math.ceil(c(1.0))
    mask = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    f = _inv(d, base)
    inv = f * mask + f / s * (1 - mask)
    m = 0.1 * math.log10(s) + 1.0
    ang = np.outer(_p(positions), inv)
    return m * np.cos(ang), m * np.sin(ang)


# ---------------------------------------------------------------- cos_sin, right
getcontext().prec = 40
_TURN = Decimal("6.283185307179586476925286766559005768394")


def decimal_turns(positions):
    """Angles in turns in 40-digit decimals: only the remainder of a turn becomes a float."""
    p = np.asarray(positions)
    f = [Decimal(10000) ** (Decimal(-2 * k) / 16) / Decimal(8) / _TURN for k in range(8)]
    rest = np.empty((p.size, 8))
    for i, t in enumerate(p.tolist()):
        t = Decimal(t)
        for k, w in enumerate(f):
            rest[i, k] = float(t * w % 1)
    ang = rest * (2 * np.pi)
    return np.cos(ang), np.sin(ang)


def emb_of_torch(positions):
    """(S, d) in Hugging Face's form: the angles twice, times attention_scaling."""
    d, base, s, L = 64, 10000.0, 40.0, 4096
    f = torch.from_numpy(_inv(d, base))
    lo = d * math.log(L / (32 * 2 * math.pi)) / (2 * math.log(base))
    hi = d * math.log(L / (1 * 2 * math.pi)) / (2 * math.log(base))
    lo, hi = math.floor(lo), math.ceil(hi)
    keep = 1 - torch.clamp((torch.arange(d // 2, dtype=torch.float64) - lo) / (hi - lo), 0, 1)
    inv = f / s * (1 - keep) + f * keep
    scaling = (0.1 * 1.0 * math.log(s) + 1) / (0.1 * 0.5 * math.log(s) + 1)
    t = torch.as_tensor(positions).double()
    emb = torch.cat([torch.outer(t, inv)] * 2, dim=-1)
    return (emb.cos() * scaling).float(), (emb.sin() * scaling).float()


# ---------------------------------------------------------------- frequencies, wrong
def gpt_oss_truncated():
    """gpt-oss: base 150000, factor 32, 4096 trained; the range in whole pairs."""
    d, base = 64, 150000.0

    def c(r):
        return d * math.log(4096 / (r * 2 * math.pi)) / (2 * math.log(base))

    lo, hi = max(math.floor(c(32.0)), 0), min(math.ceil(c(1.0)), d - 1)
    f = _inv(d, base)
    w = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    return f * (1 - w) + f / 32.0 * w, 0.1 * math.log(32.0) + 1.0


def yarn_from_max_positions():
    """config.max_position_embeddings = 131072 is passed as the trained length."""
    d, base, factor, max_position_embeddings = 128, 1000000.0, 4.0, 131072

    def pair(turns):
        return d * math.log(max_position_embeddings / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(math.floor(pair(32)), 0), min(math.ceil(pair(1)), d - 1)
    out = []
    for k in range(d // 2):
        f = base ** (-2 * k / d)
        w = min(max((k - low) / (high - low), 0.0), 1.0)
        out.append((1 - w) * f + w * f / factor)
    return np.array(out), 0.1 * math.log(factor) + 1.0


def part_ntk():
    """LlamaPartNTKScaledRotaryEmbedding with a middle part base * s, without the exponent."""
    d, base, s, L = 64, 10000.0, 8.0, 2048

    def ramp(first, last):
        def c(r):
            return d * math.log(L / (r * 2 * math.pi)) / (2 * math.log(base))
        lo, hi = max(math.floor(c(first)), 0), min(math.ceil(c(last)), d - 1)
        return np.clip((np.arange(d // 2) - lo) / max(hi - lo, 0.001), 0, 1)

    f, ntk = _inv(d, base), _inv(d, base * s)
    b, c = ramp(1.25, 0.75), ramp(16.0, 2.0)
    mix = ntk * (1 - b) + f / s * b
    return f * (1 - c) + mix * c


def su_mixed_from_zero():
    """NTK-RoPE-mixed of vLLM: inv_freq / exp(a i ** b)."""
    d, s, b = 32, 16.0, 0.625
    a = math.log(s) / (d / 2) ** b
    i = np.arange(d // 2)
    return _inv(d) / np.exp(a * i ** b)


def video_axes():
    """CogVideoX-like: axes of 16, 24 and 24 channels, each with its own frequencies."""
    dims, base = (16, 24, 24), 10000.0
    total = sum(dims)
    return np.concatenate([base ** (-np.arange(0, n, 2) / total) for n in dims])


def dynamic_below_length(seq_len):
    """base * (s L / L0 - (s - 1)) ** (d / (d - 2)), guarded against what is not positive."""
    d, trained, s = 64, 2048, 2.0
    alpha = max(s * seq_len / trained - (s - 1), 0.1)
    return _inv(d, 10000.0 * alpha ** (d / (d - 2)))


def llama32_defaults():
    """Llama 3.2 1B with what was hard-coded for Llama 3.1 in one place and for Llama 2 in another."""
    d, base, factor, low, high, old = 64, 10000.0, 8.0, 1.0, 4.0, 8192
    f = _inv(d, base)
    turns = old * f / (2 * np.pi)
    t = np.clip((turns - low) / (high - low), 0, 1)
    return f * ((1 - t) / factor + t)


# ---------------------------------------------------------------- frequencies, right
def qwen_steps(seq_len):
    """get_ntk_alpha in a loop, and pair k divided by alpha ** (2k / (d - 2))."""
    d, length, alpha = 64, 1024, 1
    while length < seq_len:
        length *= 2
        alpha = 2 * alpha + 1
    k = np.arange(d // 2)
    return np.exp(-2 * k / d * math.log(10000.0) - 2 * k / (d - 2) * math.log(alpha))
