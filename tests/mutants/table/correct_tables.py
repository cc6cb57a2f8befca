"""Correct sinusoidal tables, one for each combination of conventions found in the wild."""

import math

import ml_dtypes
import numpy as np

from tests.mutants._case import correct, sinusoidal


@correct(surface="table", encoding=sinusoidal(64), thread="class: the paper, exp and log form")
def paper_with_div_term(positions):
    """The annotated-transformer module."""
    div = np.exp(np.arange(0, 64, 2, dtype=np.float32) * np.float32(-math.log(10000.0) / 64))
    pe = np.zeros((len(positions), 64), np.float32)
    pe[:, 0::2] = np.sin(np.asarray(positions, np.float32)[:, None] * div)
    pe[:, 1::2] = np.cos(np.asarray(positions, np.float32)[:, None] * div)
    return pe


@correct(surface="table", encoding=sinusoidal(32), thread="class: the paper, element by element")
def paper_with_loops(positions):
    """A double loop over Python floats, float64 result."""
    table = np.empty((len(positions), 32))
    for row, p in enumerate(np.asarray(positions).tolist()):
        for j in range(32):
            a = p / 10000.0 ** ((j - j % 2) / 32)
            table[row, j] = math.cos(a) if j % 2 else math.sin(a)
    return table


@correct(surface="table", encoding=sinusoidal(128), thread="class: sine of a shifted angle")
def cosine_as_shifted_sine(positions):
    """sin(a + pi/2) on the odd channels, float64 inside."""
    j = np.arange(128)
    a = np.asarray(positions, np.float64)[:, None] / 10000.0 ** (2 * (j // 2) / 128)
    return np.sin(a + (j % 2) * (np.pi / 2)).astype(np.float32)


@correct(
    surface="table",
    encoding=sinusoidal(512, layout="concat", denominator="half-1", offset=2),
    thread="class: fairseq / M2M-100 (padding_idx 1)",
)
class FairseqTable:
    """tensor2tensor frequencies, first token in row two, 4096 rows."""

    def __init__(self):
        emb = np.exp(np.arange(256, dtype=np.float32) * np.float32(-math.log(10000) / 255))
        emb = np.arange(4098, dtype=np.float32)[:, None] * emb[None, :]
        self.weights = np.concatenate([np.sin(emb), np.cos(emb)], axis=1)
        self.weights[1] = 0.0

    def __call__(self, positions):
        positions = np.asarray(positions)
        if positions.dtype.kind not in "iu":
            raise IndexError("positions must be integers")
        if positions.size and (positions.min() < 0 or positions.max() >= 4096):
            raise IndexError("position outside the table")
        return self.weights[positions + 2]


@correct(
    surface="table",
    encoding=sinusoidal(256, layout="concat", denominator="half-1", first="cos"),
    thread="class: MusicGen",
)
def cosine_half_first(positions):
    """[cos | sin] with denominator d/2 - 1."""
    a = np.asarray(positions, np.float32)[:, None] * np.exp(
        np.arange(128, dtype=np.float32) * -np.float32(math.log(10000) / 127)
    )
    return np.concatenate([np.cos(a), np.sin(a)], axis=1)


@correct(
    surface="table",
    encoding=sinusoidal(320, layout="concat", first="cos"),
    thread="class: diffusion timesteps (flip_sin_to_cos, shift 0)",
)
def timestep_embedding(positions):
    """Denominator d/2, halves flipped after the fact, fractional timesteps welcome."""
    exponent = -math.log(10000) * np.arange(0, 160, dtype=np.float32) / (160 - 0)
    emb = np.asarray(positions, np.float32)[:, None] * np.exp(exponent)[None, :]
    emb = np.concatenate([np.sin(emb), np.cos(emb)], axis=-1)
    return np.concatenate([emb[:, 160:], emb[:, :160]], axis=-1)


@correct(
    surface="table",
    encoding=sinusoidal(384, layout="concat", denominator="half-1"),
    thread="class: Whisper encoder",
)
class WhisperTable:
    """1500 rows, the rest is refused."""

    def __init__(self):
        increment = np.log(10000.0) / (384 // 2 - 1)
        inverse = np.exp(-increment * np.arange(192, dtype=np.float32)).astype(np.float32)
        scaled = np.arange(1500, dtype=np.float32)[:, None] * inverse
        self.table = np.concatenate([np.sin(scaled), np.cos(scaled)], axis=1)

    def __call__(self, positions):
        positions = np.asarray(positions)
        if positions.dtype.kind not in "iu" or np.any((positions < 0) | (positions >= 1500)):
            raise IndexError("position outside the 1500 rows")
        return self.table[positions]


@correct(
    surface="table",
    encoding=sinusoidal(512, layout="concat"),
    thread="class: Marian (float64, then cast)",
)
def marian_table(positions):
    """Computed in float64 by list comprehension over channels, cast to float32."""
    p = np.asarray(positions, np.float64)
    columns = [p / np.power(10000, 2 * (j // 2) / 512) for j in range(0, 512, 2)]
    a = np.stack(columns, axis=1)
    return np.concatenate([np.sin(a), np.cos(a)], axis=1).astype(np.float32)


@correct(
    surface="table",
    encoding=sinusoidal(65, layout="concat", odd="extra-sin"),
    thread="class: XLM / Marian rule for odd widths, concatenated",
)
def odd_width_with_an_extra_sine(positions):
    """33 sines and 32 cosines."""
    w = 10000.0 ** (-2.0 * np.arange(33) / 65)
    a = np.asarray(positions, np.float64)[:, None] * w
    return np.concatenate([np.sin(a), np.cos(a[:, :32])], axis=1).astype(np.float32)


@correct(
    surface="table",
    encoding=sinusoidal(33, odd="extra-sin"),
    thread="class: XLM rule for odd widths, interleaved",
)
def odd_width_interleaved(positions):
    """Columns 0, 2, ..., 32 are sines, the 16 others cosines."""
    a = np.asarray(positions, np.float64)[:, None] / 10000.0 ** (2 * (np.arange(33) // 2) / 33)
    a[:, 0::2] = np.sin(a[:, 0::2])
    a[:, 1::2] = np.cos(a[:, 1::2])
    return a.astype(np.float32)


@correct(
    surface="table",
    encoding=sinusoidal(65, layout="concat", denominator="half-1", odd="zero-pad"),
    thread="class: fairseq rule for odd widths",
)
def odd_width_zero_padded(positions):
    """64 channels and a zero column."""
    w = np.exp(np.arange(32, dtype=np.float32) * np.float32(-math.log(10000.0) / 31))
    a = np.asarray(positions, np.float32)[:, None] * w
    return np.pad(np.concatenate([np.sin(a), np.cos(a)], axis=1), ((0, 0), (0, 1)))


@correct(
    surface="table",
    encoding=sinusoidal(64, layout="concat", denominator="half-1", offset=1),
    thread="class: FunASR (positions counted from one)",
)
def counted_from_one(positions):
    """Row p holds the encoding of p + 1, as declared."""
    w = np.exp(np.arange(32, dtype=np.float32) * np.float32(-math.log(10000.0) / 31))
    a = (np.asarray(positions, np.float32) + 1)[:, None] * w
    return np.concatenate([np.sin(a), np.cos(a)], axis=1)


@correct(
    surface="table",
    encoding=sinusoidal(64, layout="concat", scale=64**-0.5),
    thread="class: Canary / x-transformers (divided by sqrt(d))",
)
def divided_by_sqrt_dim_as_declared(positions):
    """The table times d ** -0.5."""
    a = np.asarray(positions, np.float64)[:, None] * 10000.0 ** (-np.arange(32) / 32)
    return (np.hstack([np.sin(a), np.cos(a)]) * 64**-0.5).astype(np.float32)


@correct(
    surface="table",
    encoding=sinusoidal(64, first="cos", denominator="half-1", base=20.0),
    thread="class: cos first, interleaved, small temperature",
)
def interleaved_cosine_first(positions):
    """Real part before imaginary part of exp(i p w)."""
    w = 20.0 ** (-np.arange(32) / 31)
    z = np.exp(1j * np.outer(positions, w))
    return z.view(np.float64).astype(np.float32)


@correct(
    surface="table",
    encoding=sinusoidal(64, layout="concat", position_scale=1000.0, first="cos"),
    thread="class: diffusion time in [0, 1] times 1000",
)
def scaled_time(positions):
    """Positions are multiplied by 1000."""
    t = 1000.0 * np.asarray(positions, np.float64)
    a = t[:, None] * np.exp(-math.log(10000.0) * np.arange(32) / 32)
    return np.concatenate([np.cos(a), np.sin(a)], axis=1).astype(np.float32)


@correct(
    surface="table",
    encoding=sinusoidal(64, denominator=30.0, position_scale=0.25, offset=3, scale=2.0),
    thread="class: every field away from its default",
)
def every_field_moved(positions):
    """2 sin(0.25 (p + 3) base^(-k/30)), interleaved."""
    a = np.outer(0.25 * (np.asarray(positions) + 3.0), 10000.0 ** (-np.arange(32) / 30))
    return 2.0 * np.stack([np.sin(a), np.cos(a)], axis=2).reshape(len(a), 64)


@correct(
    surface="table",
    encoding=sinusoidal(64, layout="concat"),
    thread="class: rows by angle addition from the first two",
)
def rows_by_rotation(positions):
    """exp(i w p) as an integer power of exp(i w), by squaring, in complex128."""
    positions = np.asarray(positions)
    if positions.dtype.kind not in "iu" or np.any(positions < 0) or np.any(positions > 2**20):
        raise ValueError("positions must be integers in 0..2**20")
    step = np.exp(1j * 10000.0 ** (-np.arange(32) / 32))
    rows = np.ones((len(positions), 32), np.complex128)
    for bit in range(21):
        rows[(positions >> bit) & 1 == 1] *= step
        step = step * step
    return np.concatenate([rows.imag, rows.real], axis=1).astype(np.float32)


@correct(
    surface="table",
    encoding=sinusoidal(256),
    thread="class: bf16 table, declared",
    precision="bfloat16",
)
def bf16_table_as_declared(positions):
    """float32 angles, rows rounded to bfloat16."""
    a = np.asarray(positions, np.float32)[:, None] * (
        1.0 / 10000.0 ** (np.arange(0, 256, 2, dtype=np.float32) / 256)
    )
    pe = np.stack([np.sin(a), np.cos(a)], axis=-1).reshape(len(a), 256)
    return pe.astype(ml_dtypes.bfloat16).astype(np.float32)
