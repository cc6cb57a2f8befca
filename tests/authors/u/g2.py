"""Context extension, one rotation for all: functions of (x, positions) in NumPy, half-split pairs."""

import math

import numpy as np


def _rotate(x, positions, inv_freq, m=1.0):
    ang = np.asarray(positions, dtype=np.float64)[..., None] * inv_freq
    if ang.ndim == 3:
        ang = ang[:, None]
    c, s = (m * np.cos(ang)).astype(x.dtype), (m * np.sin(ang)).astype(x.dtype)
    n = 2 * len(inv_freq)
    a, b, rest = x[..., : n // 2], x[..., n // 2 : n], x[..., n:]
    return np.concatenate([a * c - b * s, b * c + a * s, rest], axis=-1)


def _inv(dim, base):
    return base ** -(np.arange(0, dim, 2) / dim)


# ---------------------------------------------------------------------------------------------
def condensed(x, positions, rope_condense_ratio=8):
    """LLaMA-2-7B-32K."""
    t = np.asarray(positions) // rope_condense_ratio
    return _rotate(x, t, _inv(x.shape[-1], 10000.0))


# ---------------------------------------------------------------------------------------------
def interpolated(x, positions, scale=4.0):
    """MLX calls it `scale`: the positions are multiplied by it."""
    return _rotate(x, np.asarray(positions) * scale, _inv(x.shape[-1], 10000.0))


# ---------------------------------------------------------------------------------------------
def ntk_aware(x, positions, ntk_factor=4.0):
    theta = 10000.0
    theta = theta * ntk_factor
    return _rotate(x, positions, _inv(x.shape[-1], theta))


# ---------------------------------------------------------------------------------------------
def ntk_partial(x, positions, rotary_dim=32, alpha=8.0):
    head_dim = x.shape[-1]
    base = 10000.0 * alpha ** (head_dim / (head_dim - 2))
    return _rotate(x, positions, _inv(rotary_dim, base))


# ---------------------------------------------------------------------------------------------
def dynamic_by_tokens(x, positions, factor=2.0, max_position_embeddings=64, base=10000.0):
    dim = x.shape[-1]
    seq_len = x.shape[-2]
    if seq_len > max_position_embeddings:
        base = base * (
            (factor * seq_len / max_position_embeddings) - (factor - 1)
        ) ** (dim / (dim - 2))
    return _rotate(x, positions, _inv(dim, base))


# ---------------------------------------------------------------------------------------------
class DynamicNTKRotary:
    """Recomputes the frequencies whenever a longer sequence arrives."""

    def __init__(self, dim=64, factor=2.0, trained=64, base=10000.0):
        self.dim, self.factor, self.trained, self.base = dim, factor, trained, base
        self.longest = trained
        self.inv_freq = _inv(dim, base)

    def __call__(self, x, positions):
        need = int(np.max(positions)) + 1
        if need > self.longest:
            self.longest = need
            s = self.factor
            alpha = s * need / self.trained - (s - 1)
            self.inv_freq = _inv(self.dim, self.base * alpha ** (self.dim / (self.dim - 2)))
        return _rotate(x, positions, self.inv_freq)


dynamic_sticky = DynamicNTKRotary()


# ---------------------------------------------------------------------------------------------
def _range(dim, base, L0, fast, slow):
    def at(turns):
        return dim * math.log(L0 / (turns * 2 * math.pi)) / (2 * math.log(base))

    return max(math.floor(at(fast)), 0), min(math.ceil(at(slow)), dim - 1)


def yarn_no_mscale(x, positions, s=16.0, L0=4096, base=10000.0):
    """Frequencies of YaRN."""
    dim = x.shape[-1]
    lo, hi = _range(dim, base, L0, 32, 1)
    w = np.clip((np.arange(dim // 2) - lo) / (hi - lo), 0, 1)
    f = _inv(dim, base)
    return _rotate(x, positions, f * (1 - w) + f / s * w)


def yarn_mask_polarity(x, positions, s=16.0, L0=4096, base=10000.0):
    dim = x.shape[-1]
    lo, hi = _range(dim, base, L0, 32, 1)
    inv_freq_mask = np.clip((np.arange(dim // 2) - lo) / (hi - lo), 0, 1)
    extrapolation = _inv(dim, base)
    interpolation = extrapolation / s
    inv_freq = interpolation * (1 - inv_freq_mask) + extrapolation * inv_freq_mask
    return _rotate(x, positions, inv_freq, 0.1 * math.log(s) + 1)


def gpt_oss_rope(x, positions, s=32.0, L0=4096, base=150000.0):
    """gpt-oss; the correction range as in every other YaRN model."""
    dim = x.shape[-1]
    lo, hi = _range(dim, base, L0, 32.0, 1.0)
    w = np.clip((np.arange(dim // 2) - lo) / (hi - lo), 0, 1)
    f = _inv(dim, base)
    return _rotate(x, positions, f * (1 - w) + f / s * w, 0.1 * math.log(s) + 1)


def yarn_extended_length(x, positions, s=4.0, max_position_embeddings=131072, base=1e6):
    """Qwen2.5 with YaRN: config.json says max_position_embeddings 131072 after editing."""
    dim = x.shape[-1]
    lo, hi = _range(dim, base, max_position_embeddings, 32, 1)
    w = np.clip((np.arange(dim // 2) - lo) / (hi - lo), 0, 1)
    f = _inv(dim, base)
    return _rotate(x, positions, f * (1 - w) + f / s * w, 0.1 * math.log(s) + 1)


def mla_yarn_prescaled(x, positions, s=40.0, L0=4096):
    """MLX style: x is multiplied by m first, then rotated by unit cos and sin; partial head."""
    rotary = 32
    lo, hi = _range(rotary, 10000.0, L0, 32, 1)
    w = np.clip((np.arange(rotary // 2) - lo) / (hi - lo), 0, 1)
    f = _inv(rotary, 10000.0)
    m = 0.1 * math.log(s) + 1.0
    return _rotate((x * m).astype(x.dtype), positions, f * (1 - w) + f / s * w)


# ---------------------------------------------------------------------------------------------
def llama31(x, positions, factor=32.0, low=1.0, high=4.0, old=8192, base=500000.0):
    """Llama 3.2: branches on the wavelength."""
    f = _inv(x.shape[-1], base)
    out = []
    for freq in f:
        wavelen = 2 * math.pi / freq
        if wavelen < old / high:
            out.append(freq)
        elif wavelen > old / low:
            out.append(freq / factor)
        else:
            smooth = (old / wavelen - low) / (high - low)
            out.append(smooth * freq / factor + (1 - smooth) * freq)
    return _rotate(x, positions, np.array(out))


def llama31_two_bands(x, positions, factor=8.0, low=1.0, old=8192, base=500000.0):
    f = _inv(x.shape[-1], base)
    wavelen = 2 * np.pi / f
    return _rotate(x, positions, np.where(wavelen > old / low, f / factor, f))
