"""Correct YaRN in the styles people write it in."""

import math

import ml_dtypes
import numpy as np

from tests.mutants._case import correct, rope, schedule
from tests.mutants._parts import rows_of, vector
from tests.mutants._scaled import DEEPSEEK, GPT_OSS, QWEN

MLA_YARN = {**DEEPSEEK, "head_dim": 192, "rotary_dim": 64, "rotary_start": 128}


def _range(dim, base, length, truncate=True):
    """Where the ramp starts and ends, for 32 and 1 rotations."""
    low, high = (dim * math.log(length / (r * 2 * math.pi)) / (2 * math.log(base)) for r in (32, 1))
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    return max(low, 0), min(high, dim - 1)


@correct(encoding=GPT_OSS, thread="class: interpolation and extrapolation masks (transformers)")
def yarn_by_masks(x, positions):
    """Mixes 1/(s t) and 1/t with the complement of the ramp, tables doubled."""
    low, high = _range(64, 150000.0, 4096, truncate=False)
    periods = 150000.0 ** (np.arange(0, 64, 2, dtype=np.float32) / 64)
    keep = 1 - np.clip((np.arange(32, dtype=np.float32) - low) / (high - low), 0, 1)
    inv = 1.0 / (32.0 * periods) * (1 - keep) + 1.0 / periods * keep
    a = np.asarray(positions, np.float32)[..., None] * inv
    a = np.concatenate([a, a], axis=-1)
    a = a[:, None] if a.ndim == 3 else a
    m = np.float32(0.1 * math.log(32.0) + 1.0)
    turned = np.concatenate([-x[..., 32:], x[..., :32]], axis=-1)
    return x * (np.cos(a) * m) + turned * (np.sin(a) * m)


@correct(encoding=QWEN, thread="class: blend of the angles (ggml)")
def yarn_blends_the_angles(x, positions):
    """Mixes p w / s and p w channel by channel, by repeated multiplication."""
    low, high = _range(128, 1e6, 32768)
    step = np.float32(1e6) ** np.float32(-2.0 / 128)
    theta = np.asarray(positions, np.float32)
    theta = theta[:, None] if theta.ndim == 2 else theta
    m = np.float32(1.0 + 0.1 * math.log(1 / 0.25))
    out = np.empty_like(x)
    for j in range(64):
        mix = 1 - min(1.0, max(0.0, (j - low) / max(0.001, high - low)))
        a = np.float32(0.25) * theta * np.float32(1 - mix) + theta * np.float32(mix)
        cos, sin = np.cos(a) * m, np.sin(a) * m
        out[..., j] = x[..., j] * cos - x[..., j + 64] * sin
        out[..., j + 64] = x[..., j] * sin + x[..., j + 64] * cos
        theta = theta * step
    return out


@correct(encoding=QWEN, thread="class: blend of reciprocals, x pre-multiplied (mlx-lm)")
def yarn_blends_the_periods(x, positions):
    """Blends periods as the harmonic mean they need, and multiplies x instead of the tables."""
    low, high = _range(128, 1e6, 32768)
    extra = 1e6 ** (np.arange(0, 128, 2, dtype=np.float32) / 128)
    inter = 4.0 * extra
    keep = 1 - np.clip((np.arange(64, dtype=np.float32) - low) / (high - low), 0, 1)
    periods = inter * extra / (inter * keep + extra * (1 - keep))
    a = np.asarray(positions, np.float32)[..., None] / periods
    a = a[:, None] if a.ndim == 3 else a
    x1, x2 = np.split(x * np.float32(0.1 * math.log(4.0) + 1), 2, axis=-1)
    return np.concatenate([x1 * np.cos(a) - x2 * np.sin(a), x2 * np.cos(a) + x1 * np.sin(a)], -1)


@correct(encoding=DEEPSEEK, thread="class: complex phases, no factor (DeepSeek reference)")
def yarn_by_complex_phases(x, positions):
    """float32 frequencies, complex64 phases, amplitude one."""
    low, high = _range(64, 10000.0, 4096)
    inv = 1.0 / (10000.0 ** (np.arange(0, 64, 2, dtype=np.float32) / 64))
    smooth = 1 - np.clip((np.arange(32, dtype=np.float32) - low) / (high - low), 0, 1)
    inv = inv / 40.0 * (1 - smooth) + inv * smooth
    phases = np.exp(1j * np.outer(vector(positions).astype(np.float32), inv))
    z = np.ascontiguousarray(x, np.float32).view(np.complex64) * phases.astype(np.complex64)
    return z.view(np.float32)


@correct(encoding=GPT_OSS, thread="class: dense matrices (the paper)")
def yarn_by_dense_matrices(x, positions):
    """m times a block-diagonal rotation per position, one row at a time."""
    low, high = _range(64, 150000.0, 4096, truncate=False)
    positions = vector(positions)
    m = 0.1 * math.log(32.0) + 1
    matrices = np.zeros((len(positions), 64, 64))
    for j in range(32):
        w = 150000.0 ** (-j / 32)
        r = min(max((j - low) / (high - low), 0.0), 1.0)
        a = positions * ((1 - r) * w + r * w / 32)
        matrices[:, j, j] = matrices[:, j + 32, j + 32] = m * np.cos(a)
        matrices[:, j, j + 32], matrices[:, j + 32, j] = -m * np.sin(a), m * np.sin(a)
    return np.einsum("sij,bhsj->bhsi", matrices, x).astype(x.dtype)


@correct(encoding=QWEN, thread="class: float32 table of 8192 rows, factor in the table (vLLM)")
class YarnTable:
    """cos | sin rows, already multiplied, gathered per token."""

    def __init__(self):
        low, high = _range(128, 1e6, 32768)
        periods = 1e6 ** (np.arange(0, 128, 2, dtype=np.float32) / 128)
        keep = 1 - np.clip((np.arange(64, dtype=np.float32) - low) / (high - low), 0, 1)
        inv = 1.0 / (4.0 * periods) * (1 - keep) + 1.0 / periods * keep
        a = np.outer(np.arange(8192, dtype=np.float32), inv)
        m = np.float32(0.1 * math.log(4.0) + 1)
        self.cache = np.concatenate([np.cos(a) * m, np.sin(a) * m], axis=-1)

    def __call__(self, x, positions):
        rows = self.cache[rows_of(positions, 8192)]
        cos, sin = np.split(rows[:, None] if rows.ndim == 3 else rows, 2, axis=-1)
        x1, x2 = np.split(x, 2, axis=-1)
        return np.concatenate((x1 * cos - x2 * sin, x2 * cos + x1 * sin), axis=-1)


@correct(encoding=QWEN, thread="class: logarithms to base two, float64")
def yarn_in_binary_logarithms(x, positions):
    """The bounds through log2, which no ratio of logarithms minds."""
    j = np.arange(64)
    octaves = np.log2(1e6) / 64
    low = math.floor((15 - math.log2(2 * math.pi * 32)) / octaves)
    high = math.ceil((15 - math.log2(2 * math.pi)) / octaves)
    r = np.minimum(np.maximum(j - low, 0) / (high - low), 1)
    w = np.exp2(-octaves * j) * (1 - 0.75 * r)
    a = np.asarray(positions, np.float64)[..., None] * w
    a = a[:, None] if a.ndim == 3 else a
    z = (x[..., :64] + 1j * x[..., 64:]) * (1.1386294361119891 * np.exp(1j * a))
    return np.concatenate([z.real, z.imag], axis=-1).astype(np.float32)


@correct(surface="cos_sin", encoding=GPT_OSS, thread="class: cat(f, f) tables with the factor")
def yarn_doubled_tables(positions):
    """float32 tables (S, d) multiplied by the factor."""
    low, high = _range(64, 150000.0, 4096, truncate=False)
    inv = 1.0 / (150000.0 ** (np.arange(0, 64, 2, dtype=np.float32) / 64))
    r = np.clip((np.arange(32, dtype=np.float32) - low) / (high - low), 0, 1)
    a = np.asarray(positions, np.float32)[:, None] * (inv * (1 - r) + inv / 32 * r)
    a = np.concatenate([a, a], axis=-1)
    return np.cos(a) * 1.3465735902799727, np.sin(a) * 1.3465735902799727


@correct(surface="frequencies", encoding=GPT_OSS, thread="class: (inv_freq, attention_factor)")
def yarn_frequencies_and_factor():
    """float64 frequencies with the factor beside them."""
    low, high = _range(64, 150000.0, 4096, truncate=False)
    w = 150000.0 ** (-np.arange(32) / 32)
    r = np.clip((np.arange(32) - low) / (high - low), 0, 1)
    return w * (1 - r) + w * r / 32, 0.1 * math.log(32) + 1


@correct(surface="frequencies", encoding=QWEN, thread="class: inv_freq alone")
def yarn_frequencies_alone():
    """float32 frequencies; the factor lives elsewhere."""
    low, high = _range(128, 1e6, 32768)
    w = 1.0 / (1e6 ** (np.arange(0, 128, 2, dtype=np.float32) / 128))
    r = np.clip((np.arange(64, dtype=np.float32) - low) / (high - low), 0, 1)
    return w * (1 - r) + w / 4 * r


@correct(encoding=QWEN, thread="class: bf16 tables and arithmetic", dtype="bfloat16")
def yarn_in_bf16(x, positions):
    """float32 angles; tables, products and sums in bfloat16."""
    low, high = _range(128, 1e6, 32768)
    inv = 1.0 / (1e6 ** (np.arange(0, 128, 2, dtype=np.float32) / 128))
    r = np.clip((np.arange(64, dtype=np.float32) - low) / (high - low), 0, 1)
    a = np.asarray(positions, np.float32)[..., None] * (inv * (1 - r) + inv / 4 * r)
    a = a[:, None] if a.ndim == 3 else a
    m = np.float32(0.1 * math.log(4.0) + 1)
    cos, sin = (np.cos(a) * m).astype(x.dtype), (np.sin(a) * m).astype(x.dtype)
    x1, x2 = np.split(x, 2, -1)
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


@correct(
    encoding=GPT_OSS,
    thread="class: bf16 tables behind a float32 interface, declared",
    precision="bfloat16",
)
def yarn_with_bf16_tables(x, positions):
    """Only cos and sin are rounded, the factor before the rounding."""
    low, high = _range(64, 150000.0, 4096, truncate=False)
    inv = 1.0 / (150000.0 ** (np.arange(0, 64, 2, dtype=np.float32) / 64))
    r = np.clip((np.arange(32, dtype=np.float32) - low) / (high - low), 0, 1)
    a = np.asarray(positions, np.float32)[..., None] * (inv * (1 - r) + inv / 32 * r)
    a = a[:, None] if a.ndim == 3 else a
    cos, sin = (
        (f(a) * np.float32(1.3465736)).astype(ml_dtypes.bfloat16).astype(np.float32)
        for f in (np.cos, np.sin)
    )
    return np.concatenate(
        [x[..., :32] * cos - x[..., 32:] * sin, x[..., 32:] * cos + x[..., :32] * sin], axis=-1
    )


@correct(
    encoding=rope(
        128,
        base=1e6,
        rotary_dim=64,
        scaling=schedule("YaRN", factor=4.0, original_max_position=32768),
    ),
    thread="class: partial rotary, factor on the slice only",
)
def yarn_partial(x, positions):
    """Bounds of the slice; the rest of the head is copied."""
    low, high = _range(64, 1e6, 32768)
    w = 1e6 ** (-np.arange(32) / 32)
    r = np.clip((np.arange(32) - low) / (high - low), 0, 1)
    a = np.asarray(positions, np.float64)[..., None] * (w - 0.75 * w * r)
    a = a[:, None] if a.ndim == 3 else a
    out = x.copy()
    cos, sin = 1.1386294361119891 * np.cos(a), 1.1386294361119891 * np.sin(a)
    out[..., :32] = x[..., :32] * cos - x[..., 32:64] * sin
    out[..., 32:64] = x[..., :32] * sin + x[..., 32:64] * cos
    return out


@correct(
    encoding={**MLA_YARN, "output_layout": "half"},
    thread="vllm-project/vllm#26995 (de-interleaves, as declared)",
)
def mla_yarn_written_in_halves(x, positions):
    """Permutes the trailing slice to halves and rotates it there (DeepSeek-V3 in transformers)."""
    low, high = _range(64, 10000.0, 4096)
    inv = 1.0 / (10000.0 ** (np.arange(0, 64, 2, dtype=np.float32) / 64))
    r = np.clip((np.arange(32, dtype=np.float32) - low) / (high - low), 0, 1)
    a = np.asarray(positions, np.float32)[..., None] * (inv * (1 - r) + inv / 40 * r)
    a = np.concatenate([a, a], axis=-1)
    a = a[:, None] if a.ndim == 3 else a
    nope, pe = x[..., :128], x[..., 128:]
    pe = pe.reshape(*pe.shape[:-1], 32, 2).swapaxes(-1, -2).reshape(pe.shape)
    turned = np.concatenate([-pe[..., 32:], pe[..., :32]], axis=-1)
    return np.concatenate([nope, pe * np.cos(a) + turned * np.sin(a)], axis=-1)


@correct(encoding=MLA_YARN, thread="class: contiguous windows only (start index API)")
def mla_yarn_complex(x, positions):
    """Takes the start of a window; complex128 phases on the trailing slice."""
    p = vector(positions)
    if len(p) and np.any(p != p[0] + np.arange(len(p))):
        raise ValueError("positions must be contiguous")
    low, high = _range(64, 10000.0, 4096)
    w = 10000.0 ** (-np.arange(32) / 32)
    r = np.clip((np.arange(32) - low) / (high - low), 0, 1)
    phases = np.exp(1j * np.outer(p, w * (1 - r) + w / 40 * r))
    z = (x[..., 128::2] + 1j * x[..., 129::2]) * phases
    out = x.copy()
    out[..., 128::2], out[..., 129::2] = z.real, z.imag
    return out


@correct(
    encoding=rope(
        64,
        scaling=schedule("YaRN", factor=8.0, original_max_position=131072, attention_factor=1.0),
    ),
    thread="keras-team/keras-hub#2981 (upper bound past the last pair)",
)
def yarn_ramp_past_the_last_pair(x, positions):
    """The ramp is still rising where the pairs end."""
    low, high = _range(64, 10000.0, 131072)
    inv = 1.0 / (10000.0 ** (np.arange(0, 64, 2, dtype=np.float32) / 64))
    r = np.clip((np.arange(32, dtype=np.float32) - low) / (high - low), 0, 1)
    a = np.asarray(positions, np.float32)[..., None] * (inv * (1 - r) + inv / 8 * r)
    a = a[:, None] if a.ndim == 3 else a
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([x1 * np.cos(a) - x2 * np.sin(a), x2 * np.cos(a) + x1 * np.sin(a)], -1)


@correct(encoding=GPT_OSS, thread="class: torch, outer product and chunk (gpt-oss)")
def yarn_in_torch(x, positions):
    """float32 tensors throughout; positions (S,) or (B, S)."""
    import torch

    low, high = _range(64, 150000.0, 4096, truncate=False)
    freq = torch.tensor(150000.0) ** (torch.arange(0, 64, 2, dtype=torch.float32) / 64)
    keep = 1 - ((torch.arange(32, dtype=torch.float32) - low) / (high - low)).clamp(0, 1)
    inv = 1.0 / (32.0 * freq) * (1 - keep) + 1.0 / freq * keep
    t = torch.tensor(np.asarray(positions, np.float32))
    a = t[..., None] * inv
    a = a[:, None] if a.ndim == 3 else a
    m = 0.1 * math.log(32.0) + 1.0
    cos, sin = a.cos() * m, a.sin() * m
    x1, x2 = torch.chunk(torch.tensor(np.asarray(x)), 2, dim=-1)
    return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1).numpy()
