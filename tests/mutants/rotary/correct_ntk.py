"""Correct NTK-aware, proportional and partial rotation in the styles people write them in."""

import math

import numpy as np

from tests.mutants._case import correct, rope, schedule
from tests.mutants._parts import whole

# --- NTK -----------------------------------------------------------------------------------------


@correct(
    encoding=rope(64, scaling=schedule("NTKScaling", factor=4.0)), thread="class: a larger base"
)
def ntk_by_the_base(x, positions):
    """base * s ** (d / (d - 2)), then plain float32 code."""
    base = 10000.0 * 4.0 ** (64 / 62)
    inv = 1.0 / (base ** (np.arange(0, 64, 2, dtype=np.float32) / 64))
    a = np.asarray(positions, np.float32)[..., None] * inv
    a = a[:, None] if a.ndim == 3 else a
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([x1 * np.cos(a) - x2 * np.sin(a), x2 * np.cos(a) + x1 * np.sin(a)], -1)


@correct(
    encoding=rope(128, "interleaved", scaling=schedule("NTKScaling", factor=8.0)),
    thread="class: one divisor per pair",
)
def ntk_by_divisors(x, positions):
    """Divides pair j by s ** (j / (P - 1)): one at the first pair, s at the last."""
    w = 10000.0 ** (-np.arange(64) / 64) / 8.0 ** (np.arange(64) / 63)
    a = np.asarray(positions, np.float64)[..., None] * w
    a = a[:, None] if a.ndim == 3 else a
    out = np.empty_like(x)
    out[..., ::2] = x[..., ::2] * np.cos(a) - x[..., 1::2] * np.sin(a)
    out[..., 1::2] = x[..., 1::2] * np.cos(a) + x[..., ::2] * np.sin(a)
    return out


@correct(
    encoding=rope(128, scaling=schedule("DynamicNTK", factor=2.0, max_position=4096)),
    thread="class: base recomputed per call (transformers)",
)
def dynamic_ntk_per_call(x, positions):
    """max(L, Lmax) with L the largest position of the batch plus one; torch inside."""
    import torch

    t = torch.tensor(whole(positions))
    length = max(int(t.max()) + 1 if t.numel() else 0, 4096)
    base = 10000.0 * ((2.0 * length / 4096) - 1.0) ** (128 / 126)
    inv = 1.0 / (base ** (torch.arange(0, 128, 2, dtype=torch.float32) / 128))
    a = t[..., None].float() * inv
    a = a[:, None] if a.ndim == 3 else a
    x1, x2 = torch.tensor(np.asarray(x)).chunk(2, dim=-1)
    return torch.cat([x1 * a.cos() - x2 * a.sin(), x2 * a.cos() + x1 * a.sin()], dim=-1).numpy()


@correct(
    encoding=rope(64, scaling=schedule("DynamicNTK", factor=4.0, max_position=2048)),
    thread="class: frequencies cached by length",
)
class DynamicNtkCachedByLength:
    """Keeps the frequencies of every length it has seen, and picks the right ones."""

    def __init__(self):
        self.seen = {}

    def __call__(self, x, positions):
        positions = whole(positions)
        length = max(int(positions.max(initial=0)) + 1, 2048)
        if length not in self.seen:
            grow = 1 + 4.0 * (length / 2048 - 1)
            self.seen[length] = 10000.0 ** (-np.arange(32) / 32) / grow ** (np.arange(32) / 31)
        a = positions[..., None] * self.seen[length]
        z = (x[..., :32] + 1j * x[..., 32:]) * np.exp(1j * (a[:, None] if a.ndim == 3 else a))
        return np.concatenate([z.real, z.imag], axis=-1).astype(np.float32)


@correct(
    surface="frequencies",
    encoding=rope(64, scaling=schedule("DynamicNTK", factor=4.0, max_position=2048)),
    thread="class: frequencies for a length",
)
def dynamic_ntk_frequencies(seq_len):
    """Plain up to 2048."""
    grow = 1.0 if seq_len <= 2048 else 4.0 * seq_len / 2048 - 3.0
    return 1.0 / (10000.0 * grow ** (64 / 62)) ** (np.arange(0, 64, 2, dtype=np.float32) / 64)


@correct(
    encoding=rope(
        128, scaling=schedule("DynamicNTK", factor=2.0, max_position=4096, policy="static")
    ),
    thread="vllm-project/vllm#5093 (as declared)",
)
def dynamic_ntk_static_as_declared(x, positions):
    """One base, s * s - s + 1 = 3 times the old one to the power d/(d-2)."""
    inv = (10000.0 * 3.0 ** (128 / 126)) ** -(np.arange(64, dtype=np.float32) / 64)
    a = np.asarray(positions, np.float32)[..., None] * inv
    a = a[:, None] if a.ndim == 3 else a
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([x1 * np.cos(a) - x2 * np.sin(a), x2 * np.cos(a) + x1 * np.sin(a)], -1)


@correct(
    encoding=rope(128, scaling=schedule("NTKByParts", factor=4.0, original_max_position=2048)),
    thread="class: two masks, three frequencies (jquesnelle/yarn)",
)
def ntk_by_parts(x, positions):
    """Linear to NTK-aware between 1.25 and 0.75 rotations, to plain between 16 and 2."""
    periods = 10000.0 ** (np.arange(0, 128, 2, dtype=np.float32) / 128)
    stretched = (10000.0 * 4.0 ** (128 / 126)) ** (np.arange(0, 128, 2, dtype=np.float32) / 128)

    def keep(fast, slow):
        low, high = (
            128 * math.log(2048 / (r * 2 * math.pi)) / (2 * math.log(10000)) for r in (fast, slow)
        )
        low, high = max(math.floor(low), 0), min(math.ceil(high), 127)
        return 1 - np.clip((np.arange(64, dtype=np.float32) - low) / (high - low), 0, 1)

    mask = keep(1.25, 0.75)
    inv = 1.0 / (4.0 * periods) * (1 - mask) + 1.0 / stretched * mask
    mask = keep(16.0, 2.0)
    inv = inv * (1 - mask) + 1.0 / periods * mask
    a = np.asarray(positions, np.float32)[..., None] * inv
    a = a[:, None] if a.ndim == 3 else a
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([x1 * np.cos(a) - x2 * np.sin(a), x2 * np.cos(a) + x1 * np.sin(a)], -1)


# --- proportional and partial --------------------------------------------------------------------


@correct(
    encoding=rope(256, base=1e6, scaling=schedule("Proportional", fraction=0.25)),
    thread="class: zero frequencies for pairs that rest (Gemma 4)",
)
def proportional_by_zeros(x, positions):
    """The fastest quarter of the head's frequencies, zeros behind them."""
    inv = 1.0 / (1e6 ** (np.arange(0, 64, 2, dtype=np.float32) / 256))
    inv = np.concatenate([inv, np.zeros(96, np.float32)])
    a = np.asarray(positions, np.float32)[..., None] * inv
    a = np.tile(a[:, None] if a.ndim == 3 else a, 2)
    turned = np.concatenate([-x[..., 128:], x[..., :128]], axis=-1)
    return x * np.cos(a) + turned * np.sin(a)


@correct(
    encoding=rope(256, base=1e6, scaling=schedule("Proportional", fraction=0.25, factor=8.0)),
    thread="class: infinite periods (mlx-lm)",
)
def proportional_by_infinite_periods(x, positions):
    """Divides positions by periods, infinite where nothing rotates."""
    periods = np.full(128, np.inf)
    periods[:32] = 8.0 * 1e6 ** (np.arange(32) / 128)
    a = np.asarray(positions, np.float64)[..., None] / periods
    a = a[:, None] if a.ndim == 3 else a
    z = (x[..., :128] + 1j * x[..., 128:]) * np.exp(1j * a)
    return np.concatenate([z.real, z.imag], axis=-1).astype(np.float32)


@correct(
    encoding=rope(256, "interleaved", rotary_dim=64, scaling=8.0),
    thread="class: fractional float32 positions in a slice (GPT-J)",
)
def partial_and_interpolated(x, positions):
    """Divides the positions by 8 and rotates a quarter of the head."""
    t = np.asarray(positions, np.float32) * np.float32(0.125)
    a = t[..., None] * (1.0 / 10000.0 ** (np.arange(0, 64, 2, dtype=np.float32) / 64))
    a = a[:, None] if a.ndim == 3 else a
    y = x.copy()
    y[..., 0:64:2] = x[..., 0:64:2] * np.cos(a) - x[..., 1:64:2] * np.sin(a)
    y[..., 1:64:2] = x[..., 1:64:2] * np.cos(a) + x[..., 0:64:2] * np.sin(a)
    return y


@correct(
    encoding=rope(96, rotary_dim=24), thread="class: identity padding of the tables (GPT-NeoX)"
)
def neox_by_padded_phases(x, positions):
    """Permutes the slice to complex numbers and leaves the rest alone."""
    a = np.multiply.outer(np.asarray(positions), 10000.0 ** (-np.arange(12) / 12))
    phases = np.exp(1j * (a[:, None] if a.ndim == 3 else a))
    z = (x[..., :12] + 1j * x[..., 12:24]) * phases
    return np.concatenate([z.real, z.imag, x[..., 24:]], axis=-1).astype(np.float32)


@correct(
    encoding=rope(192, "interleaved", rotary_dim=64, rotary_start=128),
    thread="class: trailing slice (MLA)",
)
def mla_by_views(x, positions):
    """Rotates a reshaped view of the last 64 channels in a copy."""
    inv = 1.0 / (10000.0 ** (np.arange(0, 64, 2, dtype=np.float32) / 64))
    a = np.asarray(positions, np.float32)[..., None] * inv
    a = a[:, None] if a.ndim == 3 else a
    out = x.copy()
    pairs = out[..., 128:].reshape(*x.shape[:-1], 32, 2)
    u, v = pairs[..., 0], pairs[..., 1]
    turned = np.stack([u * np.cos(a) - v * np.sin(a), u * np.sin(a) + v * np.cos(a)], axis=-1)
    out[..., 128:] = turned.reshape(*x.shape[:-1], 64)
    return out
