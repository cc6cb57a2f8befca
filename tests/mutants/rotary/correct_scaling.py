"""Correct Llama 3 and LongRoPE in the styles people write them in."""

import math

import numpy as np

from tests.mutants._case import correct, rope, schedule
from tests.mutants._parts import rows_of, vector, whole
from tests.mutants._scaled import LLAMA_31, LLAMA_32, LONG, PHI, SHORT

# --- Llama 3 -------------------------------------------------------------------------------------


@correct(encoding=LLAMA_31, thread="class: three branches on the wavelength (transformers)")
def llama3_by_branches(x, positions):
    """np.where over wavelengths, smooth band from the length over the wavelength."""
    inv = 1.0 / (500000.0 ** (np.arange(0, 128, 2, dtype=np.float32) / 128))
    wavelength = 2 * math.pi / inv
    low, high = 8192 / 1.0, 8192 / 4.0
    scaled = np.where(wavelength > low, inv / 8.0, inv)
    smooth = (8192 / wavelength - 1.0) / (4.0 - 1.0)
    between = ~(wavelength < high) & ~(wavelength > low)
    inv = np.where(between, (1 - smooth) * scaled / 8.0 + smooth * scaled, scaled)
    a = np.asarray(positions, np.float32)[..., None] * inv
    a = np.tile(a[:, None] if a.ndim == 3 else a, 2)
    turned = np.concatenate([-x[..., 64:], x[..., :64]], axis=-1)
    return x * np.cos(a) + turned * np.sin(a)


@correct(encoding=LLAMA_32, thread="class: factors that divide (ggml rope_freqs)")
def llama3_by_divisors(x, positions):
    """Stores one float32 divisor per pair, as the converter writes them."""
    divisors = []
    for j in range(32):
        wavelength = 2 * math.pi * 500000.0 ** (j / 32)
        if wavelength < 8192 / 4.0:
            divisors.append(1.0)
        elif wavelength > 8192:
            divisors.append(32.0)
        else:
            smooth = (8192 / wavelength - 1.0) / 3.0
            divisors.append(1 / ((1 - smooth) / 32.0 + smooth))
    step = np.float32(500000.0) ** np.float32(-1 / 32)
    theta = np.asarray(positions, np.float32)
    theta = theta[:, None] if theta.ndim == 2 else theta
    out = np.empty_like(x)
    for j, divisor in enumerate(np.array(divisors, np.float32)):
        cos, sin = np.cos(theta / divisor), np.sin(theta / divisor)
        out[..., j] = x[..., j] * cos - x[..., j + 32] * sin
        out[..., j + 32] = x[..., j] * sin + x[..., j + 32] * cos
        theta = theta * step
    return out


@correct(
    encoding={**LLAMA_31, "layout": "interleaved"},
    thread="class: complex128, frequency by frequency (llama-models)",
)
def llama3_complex(x, positions):
    """Scales in a Python loop and multiplies complex numbers in Meta's layout."""
    scaled = []
    for w in 500000.0 ** (-np.arange(64) / 64):
        rotations = 8192 * w / (2 * math.pi)
        t = min(max((rotations - 1) / 3, 0.0), 1.0)
        scaled.append(w / 8 + (w - w / 8) * t)
    phases = np.exp(1j * np.outer(vector(positions), scaled))
    z = (x[..., ::2] + 1j * x[..., 1::2]) * phases
    return np.stack([z.real, z.imag], axis=-1).reshape(x.shape).astype(x.dtype)


@correct(surface="frequencies", encoding=LLAMA_32, thread="class: slope and intercept (FlashInfer)")
def llama3_by_slope_and_intercept():
    """smooth = a w + b, clipped, in float32."""
    w = np.float32(500000.0) ** -(np.arange(32, dtype=np.float32) / 32)
    slope = 8192 / (2 * math.pi * (4.0 - 1.0))
    smooth = np.clip(w * slope - 1 / (4.0 / 1.0 - 1.0), 0, 1)
    return (1 - smooth) * (w / 32) + smooth * w


@correct(surface="cos_sin", encoding=LLAMA_31, thread="class: integer table of 16384 rows")
class Llama3Table:
    """float64 angles, float32 rows, integer positions below 16384."""

    def __init__(self):
        w = 500000.0 ** (-np.arange(64) / 64)
        t = np.clip((8192 * w / (2 * np.pi) - 1) / 3, 0, 1)
        a = np.outer(np.arange(16384), w * ((1 - t) / 8 + t))
        self.cos, self.sin = np.cos(a).astype(np.float32), np.sin(a).astype(np.float32)

    def __call__(self, positions):
        p = rows_of(positions, 16384)
        return self.cos[p], self.sin[p]


@correct(
    encoding=rope(
        128,
        base=5e5,
        scaling=schedule(
            "Llama3Scaling",
            factor=8.0,
            low_freq_factor=2.0,
            high_freq_factor=2.0,
            original_max_position=8192,
        ),
    ),
    thread="trap: high == low is a step",
)
def llama3_step(x, positions):
    """Equal factors leave no band."""
    w = 500000.0 ** (-np.arange(64) / 64)
    w = np.where(2 * np.pi / w > 8192 / 2, w / 8, w)
    a = np.asarray(positions, np.float64)[..., None] * w
    a = a[:, None] if a.ndim == 3 else a
    z = (x[..., :64] + 1j * x[..., 64:]) * np.exp(1j * a)
    return np.concatenate([z.real, z.imag], axis=-1).astype(np.float32)


# --- LongRoPE ------------------------------------------------------------------------------------


@correct(encoding=PHI, thread="class: extension factors chosen per call (transformers)")
def longrope_per_call(x, positions):
    """float32 throughout; long factors when the largest position reaches 4096."""
    positions = whole(positions)
    longest = positions.max(initial=-1) + 1
    factors = np.array(LONG if longest > 4096 else SHORT, np.float32)
    inv = 1.0 / (factors * 10000.0 ** (np.arange(0, 96, 2, dtype=np.float32) / 96))
    a = positions.astype(np.float32)[..., None] * inv
    a = np.tile(a[:, None] if a.ndim == 3 else a, 2)
    m = math.sqrt(1 + math.log(32.0) / math.log(4096))
    turned = np.concatenate([-x[..., 48:], x[..., :48]], axis=-1)
    return x * (np.cos(a) * m) + turned * (np.sin(a) * m)


@correct(encoding=PHI, thread="class: two stacked tables, rows shifted for long calls (vLLM)")
class LongropeStackedTables:
    """Short rows 0..4095, then 16384 long ones; a long call adds 4096 to every index."""

    def __init__(self):
        m = math.sqrt(1 + math.log(32.0) / math.log(4096))
        rows = []
        for factors, n in ((SHORT, 4096), (LONG, 16384)):
            w = 10000.0 ** (-np.arange(48) / 48) / np.array(factors)
            a = np.outer(np.arange(n), w)
            rows.append(np.concatenate([np.cos(a) * m, np.sin(a) * m], axis=-1))
        self.cache = np.concatenate(rows).astype(np.float32)

    def __call__(self, x, positions):
        p = rows_of(positions, 16384)
        rows = self.cache[p + (4096 if p.max(initial=0) >= 4096 else 0)]
        cos, sin = np.split(rows[:, None] if rows.ndim == 3 else rows, 2, axis=-1)
        x1, x2 = np.split(x, 2, axis=-1)
        return np.concatenate((x1 * cos - x2 * sin, x2 * cos + x1 * sin), axis=-1)


@correct(
    encoding=rope(128, rotary_dim=96, scaling=PHI["scaling"]),
    thread="class: partial slice pre-multiplied (mlx-lm)",
)
def longrope_premultiplied_slice(x, positions):
    """Multiplies the slice by the factor and divides positions by periods."""
    positions = whole(positions)
    factors = LONG if positions.max(initial=-1) + 1 > 4096 else SHORT
    periods = np.array(factors) * 10000.0 ** (np.arange(48) / 48)
    part = x[..., :96] * (1 + math.log(32) / math.log(4096)) ** 0.5
    a = positions[..., None] / periods
    a = a[:, None] if a.ndim == 3 else a
    z = (part[..., :48] + 1j * part[..., 48:]) * np.exp(1j * a)
    return np.concatenate([z.real, z.imag, x[..., 96:]], axis=-1).astype(np.float32)


@correct(surface="frequencies", encoding=PHI, thread="class: frequencies for a length")
def longrope_frequencies_and_factor(seq_len):
    """(frequencies, factor), the switch strictly after 4096."""
    factors = SHORT if seq_len <= 4096 else LONG
    w = [10000.0 ** (-j / 48) / factor for j, factor in enumerate(factors)]
    return np.array(w), math.sqrt(1.0 + math.log(32.0, 4096))


@correct(
    encoding=rope(96, scaling={**PHI["scaling"], "policy": "long"}),
    thread="trap: always long (mlx-lm), as declared",
)
def longrope_always_long_as_declared(x, positions):
    """Ignores the short factors, as the declared policy says."""
    inv = 1.0 / (np.array(LONG, "f4") * 10000.0 ** (np.arange(0, 96, 2, dtype=np.float32) / 96))
    a = np.asarray(positions, np.float32)[..., None] * inv
    a = a[:, None] if a.ndim == 3 else a
    m = np.float32(math.sqrt(1 + math.log(32.0) / math.log(4096)))
    x1, x2 = np.split(x * m, 2, axis=-1)
    return np.concatenate([x1 * np.cos(a) - x2 * np.sin(a), x2 * np.cos(a) + x1 * np.sin(a)], -1)


@correct(
    encoding=rope(
        96,
        "interleaved",
        base=1e6,
        scaling=schedule(
            "LongRoPE",
            short_factor=SHORT,
            long_factor=LONG,
            original_max_position=3000,
            attention_factor=1.24,
        ),
    ),
    thread="class: explicit factor, switch at an unusual length",
)
def longrope_with_an_explicit_factor(x, positions):
    """Both complex tables per call, one of them taken."""
    positions = whole(positions)
    w = 1e6 ** (-np.arange(48) / 48)
    both = [np.exp(1j * positions[..., None] * (w / np.array(f))) for f in (SHORT, LONG)]
    phases = 1.24 * both[int(positions.max(initial=0) >= 3000)]
    z = x[..., ::2] + 1j * x[..., 1::2]
    z = z * (phases[:, None] if phases.ndim == 3 else phases)
    return np.stack([z.real, z.imag], axis=-1).reshape(x.shape).astype(np.float32)
