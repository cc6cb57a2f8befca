"""Correct rotary encodings: results in another guise, narrow dtypes, tables, frequencies."""

import ml_dtypes
import numpy as np

from tests.mutants._case import correct, rope
from tests.mutants._parts import rows_of, vector

BF16 = ml_dtypes.bfloat16


# --- arrays that come back in another guise ------------------------------------------------------


@correct(encoding=rope(64, "half"), thread="class: column-major result")
def column_major_result(x, positions):
    """Returns a Fortran-ordered array."""
    a = np.asarray(positions, np.float64)[..., None] * 10000.0 ** (-np.arange(32) / 32)
    a = a[:, None] if a.ndim == 3 else a
    x1, x2 = np.split(x, 2, -1)
    y = np.concatenate((x1 * np.cos(a) - x2 * np.sin(a), x1 * np.sin(a) + x2 * np.cos(a)), -1)
    return np.asfortranarray(y.astype(np.float32))


@correct(encoding=rope(64, "interleaved"), thread="class: read-only result (JAX style)")
def read_only_result(x, positions):
    """Returns an array that cannot be written."""
    inv = 1.0 / (10000.0 ** (np.arange(0, 64, 2, dtype=np.float32) / 64))
    a = np.asarray(positions, np.float32)[..., None] * inv
    a = a[:, None] if a.ndim == 3 else a
    even, odd = x[..., ::2], x[..., 1::2]
    y = np.stack((even * np.cos(a) - odd * np.sin(a), odd * np.cos(a) + even * np.sin(a)), -1)
    y = y.reshape(x.shape)
    y.flags.writeable = False
    return y


@correct(encoding=rope(64, "half"), thread="class: view of a larger buffer")
def strided_view_result(x, positions):
    """Returns every second channel of a scratch array."""
    a = np.asarray(positions, np.float64)[..., None] * 10000.0 ** (-np.arange(32) / 32)
    a = a[:, None] if a.ndim == 3 else a
    scratch = np.full((*x.shape[:-1], 128), np.nan, np.float32)
    scratch[..., 0:64:2] = x[..., :32] * np.cos(a) - x[..., 32:] * np.sin(a)
    scratch[..., 64::2] = x[..., :32] * np.sin(a) + x[..., 32:] * np.cos(a)
    return scratch[..., ::2]


@correct(encoding=rope(64, "half"), thread="class: shared positions only")
def refuses_positions_per_row(x, positions):
    """Raises for positions (B, S)."""
    a = np.outer(vector(positions), 10000.0 ** (-np.arange(32) / 32))
    cos, sin = np.cos(a).astype(np.float32), np.sin(a).astype(np.float32)
    return np.concatenate(
        [x[..., :32] * cos - x[..., 32:] * sin, x[..., 32:] * cos + x[..., :32] * sin], axis=-1
    )


@correct(encoding=rope(64, "interleaved"), thread="class: unsigned integer positions only")
def refuses_negative_and_fractional(x, positions):
    """Raises for negative and for fractional positions."""
    p = rows_of(positions, 2**31)
    a = p[..., None] * 10000.0 ** (-np.arange(32) / 32)
    a = a[:, None] if a.ndim == 3 else a
    even, odd = x[..., ::2], x[..., 1::2]
    y = np.stack((even * np.cos(a) - odd * np.sin(a), odd * np.cos(a) + even * np.sin(a)), -1)
    return y.reshape(x.shape).astype(np.float32)


@correct(encoding=rope(64, "interleaved"), thread="class: fractional positions cast to integers")
def fractional_positions_truncated(x, positions):
    """Casts positions to int64: no model sends fractions, and a note says so."""
    p = np.asarray(positions).astype(np.int64)
    a = p[..., None] * 10000.0 ** (-np.arange(32) / 32)
    a = a[:, None] if a.ndim == 3 else a
    even, odd = x[..., ::2], x[..., 1::2]
    y = np.stack((even * np.cos(a) - odd * np.sin(a), odd * np.cos(a) + even * np.sin(a)), -1)
    return y.reshape(x.shape).astype(np.float32)


@correct(encoding=rope(64, "half"), thread="class: contiguous windows only (start index API)")
def contiguous_windows_only(x, positions):
    """Takes a start index, so it refuses positions that do not rise by one."""
    p = vector(positions)
    if len(p) and np.any(p != p[0] + np.arange(len(p))):
        raise ValueError("positions must be contiguous")
    start = p[0] if len(p) else 0
    a = np.outer(start + np.arange(x.shape[2]), 10000.0 ** (-np.arange(32) / 32))
    z = (x[..., :32] + 1j * x[..., 32:]) * np.exp(1j * a)
    return np.concatenate((z.real, z.imag), axis=-1).astype(np.float32)


# --- bfloat16, declared --------------------------------------------------------------------------


@correct(
    encoding=rope(64, "half"),
    thread="class: float32 inside, one rounding (bf16 model)",
    dtype="bfloat16",
)
def bf16_rounded_once(x, positions):
    """Rotates in float32 and rounds to bfloat16 at the end."""
    inv = 1.0 / (10000.0 ** (np.arange(0, 64, 2, dtype=np.float32) / 64))
    a = np.asarray(positions, np.float32)[..., None] * inv
    a = a[:, None] if a.ndim == 3 else a
    x1, x2 = np.split(np.asarray(x, np.float32), 2, -1)
    y = np.concatenate((x1 * np.cos(a) - x2 * np.sin(a), x1 * np.sin(a) + x2 * np.cos(a)), -1)
    return y.astype(x.dtype)


@correct(
    encoding=rope(64, "interleaved", base=500000.0),
    thread="class: bf16 tables and bf16 arithmetic on float32 angles",
    dtype="bfloat16",
)
def bf16_arithmetic(x, positions):
    """Casts cos and sin to bfloat16 and rounds every product and sum."""
    inv = 1.0 / (500000.0 ** (np.arange(0, 64, 2, dtype=np.float32) / 64))
    a = np.asarray(positions, np.float32)[..., None] * inv
    a = a[:, None] if a.ndim == 3 else a
    cos, sin = np.cos(a).astype(x.dtype), np.sin(a).astype(x.dtype)
    even, odd = x[..., ::2], x[..., 1::2]
    return np.stack((even * cos - odd * sin, odd * cos + even * sin), axis=-1).reshape(x.shape)


@correct(
    encoding=rope(128, "half"),
    thread="class: bf16 kernel behind a float32 interface",
    precision="bfloat16",
)
def bf16_kernel_behind_float32(x, positions):
    """Rounds input, tables and result to bfloat16; the arrays are float32."""
    inv = 1.0 / (10000.0 ** (np.arange(0, 128, 2, dtype=np.float32) / 128))
    a = np.asarray(positions, np.float32)[..., None] * inv
    a = np.tile(a[:, None] if a.ndim == 3 else a, 2)
    x = x.astype(BF16)
    turned = np.concatenate((-x[..., 64:], x[..., :64]), axis=-1)
    y = x * np.cos(a).astype(BF16) + turned * np.sin(a).astype(BF16)
    return y.astype(np.float32)


@correct(
    encoding=rope(64, "half", scaling=2.0),
    thread="class: float16 result of a float32 rotation",
    dtype="float16",
)
def float16_rounded_once(x, positions):
    """float16 in and out, float32 in between."""
    inv = 0.5 / (10000.0 ** (np.arange(0, 64, 2, dtype=np.float32) / 64))
    a = np.asarray(positions, np.float32)[..., None] * inv
    a = a[:, None] if a.ndim == 3 else a
    x1, x2 = np.split(x.astype(np.float32), 2, -1)
    y = np.concatenate((x1 * np.cos(a) - x2 * np.sin(a), x1 * np.sin(a) + x2 * np.cos(a)), -1)
    return y.astype(np.float16)


# --- cos_sin and frequencies ---------------------------------------------------------------------


@correct(surface="cos_sin", encoding=rope(64, "half"), thread="class: tables of width d/2")
def half_width_tables(positions):
    """float32 tables (S, d/2)."""
    inv = 1.0 / (10000.0 ** (np.arange(0, 64, 2, dtype=np.float32) / 64))
    a = np.asarray(positions, np.float32)[:, None] * inv
    return np.cos(a), np.sin(a)


@correct(surface="cos_sin", encoding=rope(128, "half", base=500000.0), thread="class: cat(f, f)")
def doubled_tables(positions):
    """Tables (S, d) with both halves equal."""
    a = np.outer(positions, 500000.0 ** (-np.arange(64) / 64))
    a = np.concatenate([a, a], axis=-1)
    return np.cos(a).astype(np.float32), np.sin(a).astype(np.float32)


@correct(surface="cos_sin", encoding=rope(64, "interleaved"), thread="class: repeat_interleave(2)")
def repeated_tables(positions):
    """Tables (S, d) with every column twice, in float64."""
    a = np.repeat(np.outer(positions, 10000.0 ** (-np.arange(32) / 32)), 2, axis=-1)
    return np.cos(a), np.sin(a)


@correct(
    surface="cos_sin",
    encoding=rope(80, "half", rotary_dim=32, scaling=8.0),
    thread="class: exact rational positions, limited table",
)
class ScaledPartialTable:
    """4096 interpolated rows for a partial slice."""

    def __init__(self):
        t = np.arange(4096, dtype=np.float32) / 8
        a = np.outer(t, 1.0 / (10000.0 ** (np.arange(0, 32, 2, dtype=np.float32) / 32)))
        self.cos, self.sin = np.cos(a), np.sin(a)

    def __call__(self, positions):
        p = rows_of(positions, 4096)
        return self.cos[p], self.sin[p]


@correct(
    surface="frequencies",
    encoding=rope(128, "half", base=1000000.0),
    thread="class: float32 power",
)
def frequencies_by_float32_power():
    """1 / base ** (2j/d) in float32."""
    return 1.0 / (1000000.0 ** (np.arange(0, 128, 2, dtype=np.float32) / 128))


@correct(
    surface="frequencies",
    encoding=rope(96, "interleaved", rotary_dim=48, scaling=4.0),
    thread="class: logspace",
)
def frequencies_by_logspace():
    """logspace without its endpoint, divided by the factor."""
    return np.logspace(0, -4, 24, endpoint=False) / 4


@correct(
    surface="cos_sin",
    encoding=rope(64, "half"),
    thread="class: bf16 tables, declared",
    precision="bfloat16",
)
def bf16_tables_as_declared(positions):
    """float32 angles, tables rounded to bfloat16 and handed out as float32."""
    a = np.asarray(positions, np.float32)[:, None] * (10000.0 ** (-np.arange(32) / 32)).astype("f4")
    return np.cos(a).astype(BF16).astype("f4"), np.sin(a).astype(BF16).astype("f4")


@correct(encoding=rope(64, "half"), thread="class: in-place kernel, declared", inplace=True)
def rotates_in_place_as_declared(x, positions):
    """Writes the result into x and returns x."""
    a = np.asarray(positions, np.float64)[..., None] * 10000.0 ** (-np.arange(32) / 32)
    a = a[:, None] if a.ndim == 3 else a
    x1 = x[..., :32] * np.cos(a) - x[..., 32:] * np.sin(a)
    x[..., 32:] = x[..., 32:] * np.cos(a) + x[..., :32] * np.sin(a)
    x[..., :32] = x1
    return x


@correct(encoding=rope(64, "interleaved"), thread="class: cache keyed by the positions")
class CacheKeyedByPositions:
    """Angles are cached under the bytes of the positions, so the cache never lies."""

    def __init__(self):
        self.cache = {}

    def __call__(self, x, positions):
        positions = np.asarray(positions)
        key = positions.shape, positions.dtype.str, positions.tobytes()
        if key not in self.cache:
            a = np.multiply.outer(positions, 10000.0 ** (-np.arange(32) / 32))
            self.cache = {key: np.exp(1j * (a[:, None] if a.ndim == 3 else a))}
        z = (x[..., ::2] + 1j * x[..., 1::2]) * self.cache[key]
        return np.stack((z.real, z.imag), axis=-1).reshape(x.shape).astype(np.float32)


@correct(encoding=rope(64, "half"), thread="class: a table indexed as it is")
class PlainGather:
    """Indexes a precomputed float32 table with positions, for 0..4095."""

    def __init__(self):
        inv = 1.0 / (10000.0 ** (np.arange(0, 64, 2, dtype=np.float32) / 64))
        angles = np.outer(np.arange(4096, dtype=np.float32), inv)
        self.cos, self.sin = np.cos(angles), np.sin(angles)

    def __call__(self, x, positions):
        cos, sin = self.cos[positions], self.sin[positions]
        x1, x2 = np.split(x, 2, -1)
        return np.concatenate((x1 * cos - x2 * sin, x1 * sin + x2 * cos), -1)
