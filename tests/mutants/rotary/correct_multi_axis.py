"""Correct multi-axis rotary encodings in the styles people write them in."""

import ml_dtypes
import numpy as np

from tests.mutants._axes import (
    ERNIE,
    FLUX,
    GEMMA4_VISION,
    GLM_V,
    HUNYUAN_VL,
    KIMI_VISION,
    LLAMA4_VISION,
    PIXTRAL,
    QWEN2_VISION,
    QWEN2_VL,
    QWEN3_VL,
    WAN,
)
from tests.mutants._case import correct, multi_axis, schedule
from tests.mutants._parts import rows_of


def rotate_half(x):
    """(-x2, x1)."""
    half = x.shape[-1] // 2
    return np.concatenate([-x[..., half:], x[..., :half]], axis=-1)


# --- M-RoPE --------------------------------------------------------------------------------------


@correct(encoding=QWEN2_VL, thread="class: cos split by the doubled section list (transformers)")
def mrope_by_splitting_the_cosines(x, positions):
    """Tables (3, B, S, 128), cut into six pieces, piece i taken from axis i % 3."""
    inv = 1.0 / (1e6 ** (np.arange(0, 128, 2, dtype=np.float32) / 128))
    a = np.asarray(positions, np.float32)[..., None] * inv
    a = np.concatenate([a, a], axis=-1)
    edges = np.cumsum([16, 24, 24] * 2)[:-1]
    cos, sin = (
        np.concatenate(
            [piece[i % 3] for i, piece in enumerate(np.split(table, edges, axis=-1))], axis=-1
        )[:, None]
        for table in (np.cos(a), np.sin(a))
    )
    return x * cos + rotate_half(x) * sin


@correct(encoding=QWEN2_VL, thread="class: index map, float64")
def mrope_by_an_index_map(x, positions):
    """Gathers the position of each pair's axis."""
    axis = np.searchsorted([16, 40], np.arange(64), side="right")
    p = np.asarray(positions)[axis].transpose(1, 2, 0)
    a = (p * 1e6 ** (-np.arange(64) / 64))[:, None]
    z = (x[..., :64] + 1j * x[..., 64:]) * np.exp(1j * a)
    return np.concatenate([z.real, z.imag], axis=-1).astype(np.float32)


@correct(encoding=QWEN2_VL, thread="class: one rotation per axis, one after another")
def mrope_axis_after_axis(x, positions):
    """Three rotations, each with zero frequencies outside its section."""
    inv = 1.0 / (1e6 ** (np.arange(0, 128, 2, dtype=np.float32) / 128))
    for p, start, stop in zip(np.asarray(positions), (0, 16, 40), (16, 40, 64), strict=True):
        w = np.zeros(64, np.float32)
        w[start:stop] = inv[start:stop]
        a = np.tile(p.astype(np.float32)[:, None, :, None] * w, 2)
        x = x * np.cos(a) + rotate_half(x) * np.sin(a)
    return x


@correct(encoding=QWEN2_VL, thread="class: angle as a product with a frequency matrix")
def mrope_by_a_matrix(x, positions):
    """einsum of positions with W (3, 64), each column with one non-zero entry."""
    matrix = np.zeros((3, 64))
    for j in range(64):
        matrix[0 if j < 16 else 1 if j < 40 else 2, j] = 1e6 ** (-j / 64)
    a = np.einsum("abs,aj->bsj", np.asarray(positions, np.float64), matrix)[:, None]
    cos, sin = np.cos(a), np.sin(a)
    x1, x2 = x[..., :64], x[..., 64:]
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1).astype(x.dtype)


@correct(encoding=QWEN2_VL, thread="class: M-RoPE in bf16", dtype="bfloat16")
def mrope_in_bf16(x, positions):
    """float32 angles; tables, products and sums in bfloat16."""
    axis = np.repeat(np.arange(3), (16, 24, 24))
    inv = 1.0 / (1e6 ** (np.arange(0, 128, 2, dtype=np.float32) / 128))
    a = np.tile(np.moveaxis(np.asarray(positions, np.float32)[axis], 0, -1) * inv, 2)[:, None]
    cos, sin = np.cos(a).astype(ml_dtypes.bfloat16), np.sin(a).astype(ml_dtypes.bfloat16)
    return x * cos + rotate_half(x) * sin


@correct(
    encoding={**QWEN2_VL, "scaling": schedule("YaRN", factor=4.0, original_max_position=32768)},
    thread="class: YaRN under M-RoPE (Qwen2.5-VL)",
)
def mrope_with_yarn(x, positions):
    """Global YaRN frequencies, bounds 23 and 40, cut into sections."""
    w = 1e6 ** (-np.arange(64) / 64)
    w = w * (1 - 0.75 * np.clip((np.arange(64) - 23) / 17, 0, 1))
    p = np.repeat(np.asarray(positions, np.float64), (16, 24, 24), axis=0)
    a = (np.moveaxis(p, 0, -1) * w)[:, None]
    z = (x[..., :64] + 1j * x[..., 64:]) * (1.1386294361119891 * np.exp(1j * a))
    return np.concatenate([z.real, z.imag], axis=-1).astype(np.float32)


@correct(encoding=QWEN3_VL, thread="class: strided overwrite of the temporal angles (transformers)")
def mrope_interleaved_by_overwriting(x, positions):
    """Starts from the temporal angles and overwrites every third pair twice."""
    inv = 1.0 / (5e6 ** (np.arange(0, 128, 2, dtype=np.float32) / 128))
    a = np.asarray(positions, np.float32)[..., None] * inv
    mixed = a[0].copy()
    for axis, offset in ((1, 1), (2, 2)):
        mixed[..., offset:60:3] = a[axis][..., offset:60:3]
    mixed = np.tile(mixed, 2)[:, None]
    return x * np.cos(mixed) + rotate_half(x) * np.sin(mixed)


@correct(encoding=QWEN3_VL, thread="class: integer table, gathered per axis")
class MropeInterleavedTable:
    """8192 float32 rows; np.choose picks the axis of each pair."""

    def __init__(self):
        a = np.outer(np.arange(8192), 5e6 ** (-np.arange(64) / 64))
        self.cos, self.sin = np.cos(a).astype(np.float32), np.sin(a).astype(np.float32)
        self.axis = [j % 3 if j < 60 else 0 for j in range(64)]

    def __call__(self, x, positions):
        p = rows_of(positions, 8192)
        cos = np.choose(self.axis, self.cos[p])[:, None]
        sin = np.choose(self.axis, self.sin[p])[:, None]
        x1, x2 = np.split(x, 2, axis=-1)
        return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


@correct(encoding=GLM_V, thread="class: partial M-RoPE, adjacent pairs (GLM-4.1V), torch")
def mrope_partial_in_torch(x, positions):
    """repeat_interleave of the angles; the second half of the head is passed through."""
    import torch

    t = torch.tensor(np.asarray(positions, np.float32))
    inv = 1.0 / (10000.0 ** (torch.arange(0, 64, 2, dtype=torch.float32) / 64))
    pieces = torch.split(t[..., None] * inv, [8, 12, 12], dim=-1)
    a = torch.cat([piece[i] for i, piece in enumerate(pieces)], dim=-1)
    a = a.repeat_interleave(2, dim=-1)[:, None]
    x = torch.tensor(np.asarray(x))
    part, rest = x[..., :64], x[..., 64:]
    turned = torch.stack((-part[..., 1::2], part[..., ::2]), dim=-1).flatten(-2)
    return torch.cat([part * a.cos() + turned * a.sin(), rest], dim=-1).numpy()


@correct(encoding=HUNYUAN_VL, thread="class: four axes, split and rejoined (XD-RoPE)")
def four_axes(x, positions):
    """Sixteen pairs for each of four axes, cut from four full tables."""
    inv = 1.0 / (10000.0 ** (np.arange(0, 128, 2, dtype=np.float32) / 128))
    a = np.asarray(positions, np.float32)[..., None] * inv
    a = np.concatenate([a[i, ..., 16 * i : 16 * (i + 1)] for i in range(4)], axis=-1)
    a = np.concatenate([a, a], axis=-1)[:, None]
    return x * np.cos(a) + rotate_half(x) * np.sin(a)


@correct(encoding=ERNIE, thread="class: h and w stacked, time appended (Ernie 4.5 VL)")
def ernie_stacked(x, positions):
    """Interleaves even angles of height with odd ones of width and appends time."""
    inv = 1.0 / (500000.0 ** (np.arange(0, 128, 2, dtype=np.float32) / 128))
    t, h, w = np.asarray(positions, np.float32)[..., None] * inv
    hw = np.stack([h[..., :44:2], w[..., 1:44:2]], axis=-1).reshape(*h.shape[:-1], 44)
    a = np.repeat(np.concatenate([hw, t[..., 44:]], axis=-1), 2, axis=-1)[:, None]
    turned = np.stack([-x[..., 1::2], x[..., ::2]], axis=-1).reshape(x.shape)
    return x * np.cos(a) + turned * np.sin(a)


# --- vision towers -------------------------------------------------------------------------------


@correct(encoding=QWEN2_VISION, thread="class: grid table flattened over two axes (Qwen2-VL)")
def vision_by_a_grid_table(x, positions):
    """Rows of outer(arange, inv_freq(40)) gathered by row and column, side by side."""
    p = rows_of(positions, 262144).transpose(1, 2, 0)
    inv = 1.0 / (10000.0 ** (np.arange(0, 40, 2, dtype=np.float32) / 40))
    a = (p[..., None].astype(np.float32) * inv).reshape(*p.shape[:2], 40)
    a = np.concatenate([a, a], axis=-1)[:, None]
    return x * np.cos(a) + rotate_half(x) * np.sin(a)


@correct(encoding=PIXTRAL, thread="class: even frequencies for rows, odd for columns (Pixtral)")
def pixtral_even_and_odd(x, positions):
    """freqs[::2] with the row, freqs[1::2] with the column."""
    freqs = 1.0 / (10000.0 ** (np.arange(0, 64, 2, dtype=np.float32) / 64))
    row, column = np.asarray(positions, np.float32)[..., None]
    a = np.concatenate([row * freqs[::2], column * freqs[1::2]], axis=-1)
    a = np.concatenate([a, a], axis=-1)[:, None]
    return x * np.cos(a) + rotate_half(x) * np.sin(a)


@correct(encoding=GEMMA4_VISION, thread="class: a rotation per axis and block (Gemma 4)")
def vision_block_by_block(x, positions):
    """Cuts the head in one block per axis and rotates each half-split."""
    inv = 1.0 / (100.0 ** (np.arange(0, 32, 2, dtype=np.float32) / 32))
    out = []
    for part, p in zip(np.split(x, 2, axis=-1), np.asarray(positions, "f4"), strict=True):
        a = np.tile(p[:, None, :, None] * inv, 2)
        out.append(part * np.cos(a) + rotate_half(part) * np.sin(a))
    return np.concatenate(out, axis=-1)


@correct(encoding=LLAMA4_VISION, thread="class: complex phases of a grid from one (Llama 4)")
def llama4_complex(x, positions):
    """exp(i (p + 1) w) for both axes, joined, times adjacent pairs."""
    inv = 1.0 / (10000.0 ** (np.arange(0, 44, 2, dtype=np.float32) / 44))
    p = np.asarray(positions, np.float32)[..., None] + 1
    phases = np.exp(1j * np.concatenate(list(p * inv), axis=-1)).astype(np.complex64)
    z = np.ascontiguousarray(x, np.float32).view(np.complex64) * phases[:, None]
    return z.view(np.float32)


@correct(encoding=KIMI_VISION, thread="class: axes alternating by stack and flatten (MoonViT)")
def kimi_stacked(x, positions):
    """Stacks the angles of both axes in the last dimension and flattens."""
    w = 10000.0 ** (-np.arange(18) / 18)
    a = np.stack(list(np.asarray(positions, np.float64)[..., None] * w), axis=-1)
    a = a.reshape(*a.shape[:2], 36)[:, None]
    z = (x[..., :36] + 1j * x[..., 36:]) * np.exp(1j * a)
    return np.concatenate([z.real, z.imag], axis=-1).astype(np.float32)


# --- image and video generators ------------------------------------------------------------------


@correct(encoding=FLUX, thread="class: float64 frequencies, one table per axis (diffusers)")
def flux_table_per_axis(x, positions):
    """Each axis has its own width; tables repeated for adjacent channels and joined."""
    tables = []
    for p, dim in zip(np.asarray(positions, np.float64), (16, 56, 56), strict=True):
        a = p[..., None] / 10000.0 ** (np.arange(0, dim, 2) / dim)
        tables.append(np.repeat(a, 2, axis=-1))
    a = np.concatenate(tables, axis=-1)[:, None]
    cos, sin = np.cos(a).astype(np.float32), np.sin(a).astype(np.float32)
    turned = np.stack([-x[..., 1::2], x[..., ::2]], axis=-1).reshape(x.shape)
    return x * cos + turned * sin


@correct(
    encoding=multi_axis(128, (16, 16, 16, 16), "interleaved", base=2000.0, spacing="restart"),
    thread="class: rotation matrices per pair (Flux.2)",
)
def flux2_by_small_matrices(x, positions):
    """One 2 x 2 matrix per pair, summed over its columns."""
    w = 2000.0 ** (-np.arange(0, 32, 2) / 32)
    a = np.concatenate(list(np.asarray(positions, np.float64)[..., None] * w), axis=-1)
    matrix = np.stack([np.cos(a), -np.sin(a), np.sin(a), np.cos(a)], axis=-1)
    matrix = matrix.reshape(*a.shape, 2, 2).astype(np.float32)[:, None]
    pairs = x.reshape(*x.shape[:-1], 64, 1, 2)
    return (matrix * pairs).sum(axis=-1).reshape(x.shape)


@correct(encoding=WAN, thread="class: complex128 phases split by axis (Wan)")
def wan_complex(x, positions):
    """44, 42, 42 channels, each with denominators of its own."""
    phases = []
    for p, dim in zip(np.asarray(positions), (44, 42, 42), strict=True):
        phases.append(
            np.exp(1j * np.multiply.outer(p, 1 / 10000.0 ** (np.arange(0, dim, 2) / dim)))
        )
    z = (x[..., ::2] + 1j * x[..., 1::2]) * np.concatenate(phases, axis=-1)[:, None]
    return np.stack([z.real, z.imag], axis=-1).reshape(x.shape).astype(np.float32)


@correct(
    encoding=multi_axis(
        96, (16, 16, 16), "blockwise", spacing="restart", position_scale=[1.0, 0.5, 0.5]
    ),
    thread="class: interpolated grids, blockwise (Allegro)",
)
def grid_interpolated(x, positions):
    """Scales the frequencies of rows and columns instead of the positions."""
    inv = 1.0 / (10000.0 ** (np.arange(0, 32, 2, dtype=np.float32) / 32))
    out = np.empty_like(x)
    for i, scale in enumerate((1.0, 2.0, 2.0)):
        a = np.asarray(positions[i], np.float32)[:, None, :, None] * (inv / np.float32(scale))
        u, v = x[..., 32 * i : 32 * i + 16], x[..., 32 * i + 16 : 32 * i + 32]
        out[..., 32 * i : 32 * i + 16] = u * np.cos(a) - v * np.sin(a)
        out[..., 32 * i + 16 : 32 * i + 32] = v * np.cos(a) + u * np.sin(a)
    return out


@correct(
    encoding=multi_axis(64, (8, 12, 12), "interleaved", spacing="restart"),
    thread="class: scalar loops over three axes (CogVideoX shapes)",
)
def video_by_loops(x, positions):
    """Loops over rows, axes and pairs with Python floats."""
    out = np.array(x)
    for b, s in np.ndindex(x.shape[0], x.shape[2]):
        pair = 0
        for axis, n in enumerate((8, 12, 12)):
            for i in range(n):
                a = float(positions[axis][b][s]) / 10000.0 ** (i / n)
                u = x[b, :, s, 2 * pair].astype(np.float64)
                v = x[b, :, s, 2 * pair + 1].astype(np.float64)
                out[b, :, s, 2 * pair] = u * np.cos(a) - v * np.sin(a)
                out[b, :, s, 2 * pair + 1] = u * np.sin(a) + v * np.cos(a)
                pair += 1
    return out
