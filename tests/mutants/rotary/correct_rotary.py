"""Correct rotary encodings in the styles people write them in."""

import numpy as np

from tests.mutants._case import correct, rope
from tests.mutants._parts import rows_of, vector

# --- ways to rotate ------------------------------------------------------------------------------


@correct(encoding=rope(64, "half"), thread="class: rotate_half (Llama in transformers)")
def rotate_half_style(x, positions):
    """x cos + rotate_half(x) sin with doubled float32 tables."""
    inv = 1.0 / (10000.0 ** (np.arange(0, 64, 2, dtype=np.float32) / 64))
    freqs = np.asarray(positions)[..., None].astype(np.float32) * inv
    emb = np.concatenate((freqs, freqs), axis=-1)
    cos, sin = np.cos(emb), np.sin(emb)
    if emb.ndim == 3:
        cos, sin = cos[:, None], sin[:, None]
    rotated = np.concatenate((-x[..., 32:], x[..., :32]), axis=-1)
    return x * cos + rotated * sin


@correct(
    encoding=rope(128, "interleaved", base=500000.0),
    thread="class: complex multiplication (Meta Llama)",
)
def complex_multiplication(x, positions):
    """Views adjacent floats as complex64 and multiplies by unit phases."""
    positions = vector(positions)
    inv = 1.0 / (500000.0 ** (np.arange(0, 128, 2, dtype=np.float32) / 128))
    phases = np.exp(1j * np.outer(positions.astype(np.float32), inv)).astype(np.complex64)
    z = np.ascontiguousarray(x, np.float32).view(np.complex64)
    return (z * phases).view(np.float32)


@correct(encoding=rope(32, "interleaved"), thread="class: dense rotation matrices (the paper)")
def dense_matrices(x, positions):
    """One block-diagonal matrix per position, applied with einsum."""
    positions = vector(positions)
    matrices = np.zeros((len(positions), 32, 32))
    for s, p in enumerate(positions):
        for j in range(16):
            a = p * 10000.0 ** (-2 * j / 32)
            block = [[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]
            matrices[s, 2 * j : 2 * j + 2, 2 * j : 2 * j + 2] = block
    return np.einsum("sij,bhsj->bhsi", matrices, x).astype(x.dtype)


@correct(encoding=rope(96, "half"), thread="class: frequencies through exp and log")
def exponential_of_logarithms(x, positions):
    """Frequencies exp(-2j ln(base)/d) in float32."""
    step = np.float32(-2.0 * np.log(10000.0) / 96)
    inv = np.exp(np.arange(48, dtype=np.float32) * step)
    a = np.asarray(positions, np.float32)[..., None] * inv
    a = a[:, None] if a.ndim == 3 else a
    lower, upper = x[..., :48], x[..., 48:]
    out = np.empty_like(x)
    out[..., :48] = lower * np.cos(a) - upper * np.sin(a)
    out[..., 48:] = lower * np.sin(a) + upper * np.cos(a)
    return out


@correct(encoding=rope(64, "interleaved", base=1000000.0), thread="class: float64 throughout")
def float64_throughout(x, positions):
    """Everything in float64, one cast at the end."""
    inv = np.power(1000000.0, -np.arange(32) / 32.0)
    a = np.multiply.outer(np.asarray(positions, np.float64), inv)
    a = a[:, None] if a.ndim == 3 else a
    even, odd = x[..., ::2].astype(np.float64), x[..., 1::2].astype(np.float64)
    out = np.empty(x.shape)
    out[..., ::2] = even * np.cos(a) - odd * np.sin(a)
    out[..., 1::2] = odd * np.cos(a) + even * np.sin(a)
    return out.astype(x.dtype)


@correct(encoding=rope(64, "half"), thread="class: float64 left in the result")
def float64_result(x, positions):
    """NumPy promotion leaves a float64 result for float32 input."""
    a = np.asarray(positions, np.float64)[..., None] / 10000.0 ** (np.arange(32) / 32)
    a = a[:, None] if a.ndim == 3 else a
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([x1 * np.cos(a) - x2 * np.sin(a), x2 * np.cos(a) + x1 * np.sin(a)], -1)


@correct(encoding=rope(64, "interleaved"), thread="class: frequencies by repeated product (ggml)")
def iterative_frequencies(x, positions):
    """theta *= theta_scale in float32, channel after channel."""
    scale = np.float32(10000.0) ** np.float32(-2.0 / 64)
    theta = np.asarray(positions, np.float32)
    theta = theta[:, None, :] if theta.ndim == 2 else theta
    out = np.empty_like(x)
    for i in range(0, 64, 2):
        cos, sin = np.cos(theta), np.sin(theta)
        out[..., i] = x[..., i] * cos - x[..., i + 1] * sin
        out[..., i + 1] = x[..., i] * sin + x[..., i + 1] * cos
        theta = theta * scale
    return out


@correct(encoding=rope(64, "half"), thread="class: two-level angle addition")
class AngleAddition:
    """exp(i w p) from float64 tables for p // 512 and p % 512, themselves built by recurrence."""

    def __init__(self):
        step = np.exp(1j * 10000.0 ** (-np.arange(32) / 32))
        self.fine = np.cumprod(np.vstack([np.ones(32), np.tile(step, (511, 1))]), axis=0)
        block = self.fine[-1] * step
        self.coarse = np.cumprod(np.vstack([np.ones(32), np.tile(block, (511, 1))]), axis=0)

    def __call__(self, x, positions):
        p = vector(rows_of(positions, 262144))
        z = (x[..., :32] + 1j * x[..., 32:]) * (self.coarse[p // 512] * self.fine[p % 512])
        return np.concatenate([z.real, z.imag], axis=-1).astype(np.float32)


@correct(encoding=rope(64, "half"), thread="class: table of 4096 rows, refuses the rest")
class TableOf4096:
    """cos | sin rows gathered per token (vLLM cache shape)."""

    def __init__(self):
        inv = 1.0 / (10000.0 ** (np.arange(0, 64, 2, dtype=np.float32) / 64))
        freqs = np.einsum("i,j->ij", np.arange(4096, dtype=np.float32), inv)
        self.cache = np.concatenate([np.cos(freqs), np.sin(freqs)], axis=-1)

    def __call__(self, x, positions):
        rows = self.cache[rows_of(positions, 4096)]
        cos, sin = np.split(rows[:, None] if rows.ndim == 3 else rows, 2, axis=-1)
        x1, x2 = np.split(x, 2, axis=-1)
        return np.concatenate((x1 * cos - x2 * sin, x2 * cos + x1 * sin), axis=-1)


@correct(encoding=rope(64, "interleaved"), thread="class: cache grown on demand")
class GrowingTable:
    """A table that doubles until it holds the largest position, up to 262144."""

    def __init__(self):
        self.inv = 10000.0 ** (-np.arange(32, dtype=np.float64) / 32)
        self._build(64)

    def _build(self, rows):
        a = np.arange(rows)[:, None] * self.inv
        self.cos, self.sin = np.cos(a).astype(np.float32), np.sin(a).astype(np.float32)

    def __call__(self, x, positions):
        p = rows_of(positions, 262144)
        while p.size and p.max() >= len(self.cos):
            self._build(2 * len(self.cos))
        cos, sin = self.cos[p], self.sin[p]
        if p.ndim == 2:
            cos, sin = cos[:, None], sin[:, None]
        pairs = x.reshape(*x.shape[:-1], 32, 2)
        a, b = pairs[..., 0], pairs[..., 1]
        return np.stack((a * cos - b * sin, b * cos + a * sin), axis=-1).reshape(x.shape)


@correct(encoding=rope(128, "half", base=10000000.0), thread="class: pairs gathered by index")
def permuted_to_pairs_and_back(x, positions):
    """Permutes halves to pairs, rotates adjacent channels, permutes back."""
    order = np.arange(128).reshape(2, 64).T.reshape(-1)
    back = np.argsort(order)
    inv = 10000000.0 ** (-np.arange(64, dtype=np.float64) / 64)
    a = np.asarray(positions, np.float64)[..., None] * inv
    a = np.repeat(a[:, None] if a.ndim == 3 else a, 2, axis=-1)
    z = x[..., order]
    swapped = np.empty_like(z)
    swapped[..., ::2], swapped[..., 1::2] = -z[..., 1::2], z[..., ::2]
    return (z * np.cos(a) + swapped * np.sin(a))[..., back].astype(np.float32)


@correct(encoding=rope(64, "interleaved"), thread="class: half-angle form")
def tangent_of_the_half_angle(x, positions):
    """Three shears by tan(a/2) and sin(a), in float64."""
    a = np.asarray(positions, np.float64)[..., None] * 10000.0 ** (-np.arange(32) / 32)
    a = a[:, None] if a.ndim == 3 else a
    t, s = np.tan(a / 2), np.sin(a)
    u, v = x[..., ::2], x[..., 1::2]
    u = u - t * v
    v = v + s * u
    u = u - t * v
    return np.stack([u, v], axis=-1).reshape(x.shape).astype(np.float32)


@correct(encoding=rope(64, "half"), thread="class: quarter-turn lookup")
def sine_from_the_cosine(x, positions):
    """sin a as cos(a - pi/2), in float64."""
    a = np.asarray(positions, np.float64)[..., None] * 10000.0 ** (-np.arange(0, 64, 2) / 64)
    a = a[:, None] if a.ndim == 3 else a
    cos, sin = np.cos(a), np.cos(a - np.pi / 2)
    sin = np.where(a == 0.0, 0.0, sin)
    x1, x2 = x[..., :32], x[..., 32:]
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1).astype(x.dtype)


@correct(encoding=rope(32, "half"), thread="class: scalar loops (C style)")
def scalar_loops(x, positions):
    """Four nested loops over Python floats."""
    positions = np.asarray(positions)
    out = np.array(x)
    for b, h, s in np.ndindex(x.shape[:3]):
        p = float(positions[b, s] if positions.ndim == 2 else positions[s])
        for j in range(16):
            a = p / 10000.0 ** (j / 16)
            c, d = float(x[b, h, s, j]), float(x[b, h, s, j + 16])
            out[b, h, s, j] = c * np.cos(a) - d * np.sin(a)
            out[b, h, s, j + 16] = d * np.cos(a) + c * np.sin(a)
    return out


# --- partial, scaled, signed, transposed ---------------------------------------------------------


@correct(encoding=rope(80, "half", rotary_dim=32), thread="class: partial rotary by concat (Phi)")
def partial_by_concatenation(x, positions):
    """Splits off the rotary slice, rotates it, joins it with the rest."""
    rot, rest = x[..., :32], x[..., 32:]
    inv = 1.0 / (10000.0 ** (np.arange(0, 32, 2, dtype=np.float32) / 32))
    a = np.asarray(positions, np.float32)[..., None] * inv
    a = np.tile(a[:, None] if a.ndim == 3 else a, 2)
    turned = np.concatenate((-rot[..., 16:], rot[..., :16]), axis=-1)
    return np.concatenate((rot * np.cos(a) + turned * np.sin(a), rest), axis=-1)


@correct(encoding=rope(256, "interleaved", rotary_dim=64), thread="class: partial rotary (GPT-J)")
def partial_in_a_copy(x, positions):
    """Writes the rotated slice into a copy with strided stores."""
    out = x.copy()
    a = np.asarray(positions, np.float64)[..., None] * 10000.0 ** (-np.arange(0, 64, 2) / 64)
    a = a[:, None] if a.ndim == 3 else a
    out[..., 0:64:2] = x[..., 0:64:2] * np.cos(a) - x[..., 1:64:2] * np.sin(a)
    out[..., 1:64:2] = x[..., 0:64:2] * np.sin(a) + x[..., 1:64:2] * np.cos(a)
    return out


@correct(encoding=rope(64, "half", rotary_dim=16), thread="class: zero frequencies as padding")
def partial_by_identity_tables(x, positions):
    """Multiplies the whole head by tables that are 1 and 0 outside the slice."""
    a = np.asarray(positions, np.float64)[..., None] * 10000.0 ** (-np.arange(8) / 8)
    a = a[:, None] if a.ndim == 3 else a
    cos = np.ones((*a.shape[:-1], 64))
    sin = np.zeros((*a.shape[:-1], 64))
    cos[..., :8] = cos[..., 8:16] = np.cos(a)
    sin[..., :8] = sin[..., 8:16] = np.sin(a)
    turned = np.concatenate([-x[..., 8:16], x[..., :8], x[..., 16:]], axis=-1)
    return (x * cos + turned * sin).astype(x.dtype)


@correct(encoding=rope(64, "half", scaling=4.0), thread="class: interpolated positions")
def linear_scaling_of_positions(x, positions):
    """Divides the positions by the factor."""
    t = np.asarray(positions, np.float32) / 4.0
    a = t[..., None] * (1.0 / 10000.0 ** (np.arange(0, 64, 2, dtype=np.float32) / 64))
    a = a[:, None] if a.ndim == 3 else a
    x1, x2 = np.split(x, 2, -1)
    return np.concatenate((x1 * np.cos(a) - x2 * np.sin(a), x1 * np.sin(a) + x2 * np.cos(a)), -1)


@correct(
    encoding=rope(64, "interleaved", scaling=3.0),
    thread="class: interpolated frequencies",
)
def linear_scaling_of_frequencies(x, positions):
    """Divides the float32 frequencies by a factor that is no power of two."""
    inv = 1.0 / (10000.0 ** (np.arange(0, 64, 2, dtype=np.float32) / 64)) / np.float32(3.0)
    z = x[..., ::2] + 1j * x[..., 1::2]
    a = np.asarray(positions, np.float32)[..., None] * inv
    z = z * np.exp(1j * (a[:, None] if a.ndim == 3 else a))
    return np.stack((z.real, z.imag), -1).reshape(x.shape).astype(np.float32)


@correct(encoding=rope(64, "interleaved", sign=-1), thread="class: declared negative angle")
def negative_angle(x, positions):
    """Multiplies by exp(-i p w), as declared."""
    a = np.asarray(positions, np.float64)[..., None] * -(10000.0 ** (-np.arange(32) / 32))
    a = a[:, None] if a.ndim == 3 else a
    out = np.empty_like(x)
    out[..., ::2] = x[..., ::2] * np.cos(a) - x[..., 1::2] * np.sin(a)
    out[..., 1::2] = x[..., 1::2] * np.cos(a) + x[..., ::2] * np.sin(a)
    return out


@correct(
    encoding=rope(64, "half"),
    thread="class: sequence before heads (flash-attn)",
    tensor_layout="bshd",
)
def sequence_before_heads(x, positions):
    """Broadcasts the tables over axis 2."""
    inv = 1.0 / (10000.0 ** (np.arange(0, 64, 2, dtype=np.float32) / 64))
    a = np.asarray(positions, np.float32)[..., None] * inv
    cos, sin = np.cos(a)[..., None, :], np.sin(a)[..., None, :]
    x1, x2 = x[..., :32], x[..., 32:]
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


@correct(
    encoding=rope(128, "interleaved", base=1000000.0, rotary_dim=64),
    thread="class: sequence before heads, complex",
    tensor_layout="bshd",
)
def complex_sequence_before_heads(x, positions):
    """complex128 phases, one row at a time."""
    out = np.array(x)
    inv = 1000000.0 ** (-np.arange(32) / 32)
    rows = np.broadcast_to(positions, x.shape[:2])
    for b, row in enumerate(rows):
        phases = np.exp(1j * np.multiply.outer(row, inv))[:, None, :]
        z = (x[b, ..., 0:64:2] + 1j * x[b, ..., 1:64:2]) * phases
        out[b, ..., 0:64:2], out[b, ..., 1:64:2] = z.real, z.imag
    return out
