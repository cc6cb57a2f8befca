"""Wrong sinusoidal tables: frequencies, order of the columns."""

import numpy as np

from tests.mutants._case import sinusoidal, wrong
from tests.mutants._parts import angles, interleave, inv_freq, sines_then_cosines

# --- exponents and base --------------------------------------------------------------------------


@wrong(
    "exponent",
    surface="table",
    encoding=sinusoidal(64),
    thread="DongjunLee/transformer-tensorflow#6",
)
def own_exponent_for_each_channel(positions):
    """Channel j uses base^(-2j/d): a cosine has another frequency than its sine."""
    a = angles(positions, 10000.0 ** (-2.0 * np.arange(64, dtype=np.float32) / 64))
    return np.where(np.arange(64) % 2 == 0, np.sin(a), np.cos(a))


@wrong(
    "exponent",
    surface="table",
    encoding=sinusoidal(128),
    thread="BrianPulfer/PapersReimplementations#9",
    held_out=True,
)
def cosine_exponent_from_the_odd_channel(positions):
    """base^(-j/d) with the channel j itself, so cosines lag half a step."""
    a = angles(positions, 10000.0 ** (-np.arange(128, dtype=np.float32) / 128))
    a[:, 0::2], a[:, 1::2] = np.sin(a[:, 0::2]), np.cos(a[:, 1::2])
    return a


@wrong(
    "exponent",
    "base",
    surface="table",
    encoding=sinusoidal(64),
    thread="class: exponent 2 * i / d where i already steps by two",
)
def doubled_exponent_in_a_table(positions):
    """Frequencies base^(-4k/d)."""
    pe = np.empty((len(positions), 64), np.float32)
    for i in range(0, 64, 2):
        a = np.asarray(positions, np.float32) / np.float32(10000.0 ** (2 * i / 64))
        pe[:, i], pe[:, i + 1] = np.sin(a), np.cos(a)
    return pe


@wrong(
    "exponent",
    "base",
    surface="table",
    encoding=sinusoidal(64, layout="concat"),
    thread="class: operator precedence in -log(base) / d // 2 (LoFTR)",
    held_out=True,
)
def precedence_in_the_exponent(positions):
    """-log(base) / d // 2 is -1, so the frequencies are exp(-2k)."""
    return sines_then_cosines(
        angles(positions, np.exp(np.arange(0, 64, 2) * (-np.log(10000.0) / 64 // 2)))
    )


@wrong(
    "base",
    surface="table",
    encoding=sinusoidal(96),
    thread="class: base 1000 hard-coded",
)
def base_1000(positions):
    """Base 1000 for 10000."""
    a = angles(positions, inv_freq(96, 1000.0))
    return interleave(np.sin(a), np.cos(a))


@wrong(
    "base",
    surface="table",
    encoding=sinusoidal(64, layout="concat", base=20.0),
    thread="IDEA-Research/DAB-DETR#21",
)
def declared_temperature_ignored(positions):
    """The paper's temperature 20 is declared, the code has 10000."""
    return sines_then_cosines(angles(positions, inv_freq(64)))


@wrong(
    "position-scale",
    "exponent",
    "base",
    "sign",
    surface="table",
    encoding=sinusoidal(32),
    thread="goodfire-ai/spd#88",
    held_out=True,
)
def multiplied_by_the_divisor(positions):
    """Multiplies the position by base^(2k/d)."""
    a = np.asarray(positions, np.float64)[:, None] * 10000.0 ** (np.arange(0, 32, 2) / 32)
    return interleave(np.sin(a), np.cos(a)).astype(np.float32)


@wrong(
    "frequency-spacing",
    surface="table",
    encoding=sinusoidal(64, layout="concat"),
    thread="class: linear bands (Perceiver style) for geometric ones",
)
def linear_bands(positions):
    """Frequencies evenly spaced between 1 and 1/10000."""
    return sines_then_cosines(angles(positions, np.linspace(1.0, 1e-4, 32, dtype=np.float32)))


@wrong(
    "frequency-spacing",
    "exponent",
    surface="table",
    encoding=sinusoidal(512, layout="concat"),
    thread="class: one corrupted entry of a stored table",
)
def one_column_pair_off_by_a_thousandth(positions):
    """Frequency 40 of 256 is 0.1 % too small."""
    w = inv_freq(512)
    w[40] *= 0.999
    return sines_then_cosines(angles(positions, w))


# --- denominators --------------------------------------------------------------------------------


@wrong(
    "denominator",
    surface="table",
    encoding=sinusoidal(64, layout="concat", first="cos"),
    thread="huggingface/diffusers#12791",
)
def frequency_shift_one(positions):
    """downscale_freq_shift 1 where 0 is declared."""
    w = np.exp(-np.log(10000.0) * np.arange(32, dtype=np.float32) / (32 - 1))
    a = angles(positions, w.astype(np.float32))
    return np.concatenate([np.cos(a), np.sin(a)], axis=-1)


@wrong(
    "denominator",
    surface="table",
    encoding=sinusoidal(512, layout="concat", denominator="half-1"),
    thread="kohya-ss/sd-scripts#1187",
)
def frequency_shift_zero(positions):
    """The paper's d/2 where tensor2tensor's d/2 - 1 is declared: a ratio of 1.04 at the end."""
    return sines_then_cosines(angles(positions, inv_freq(512)))


@wrong(
    "denominator",
    surface="table",
    encoding=sinusoidal(64),
    thread="class: exponent 2k / (d - 1)",
)
def dim_minus_one(positions):
    """Divides the exponent by d - 1."""
    a = angles(positions, 10000.0 ** (-np.arange(0, 64, 2, dtype=np.float32) / 63))
    return interleave(np.sin(a), np.cos(a))


@wrong(
    "denominator",
    surface="table",
    encoding=sinusoidal(100, layout="concat", denominator="half-1"),
    thread="class: half rounded before the shift",
)
def half_plus_one(positions):
    """Divides by d/2 + 1 where d/2 - 1 is declared."""
    return sines_then_cosines(angles(positions, 10000.0 ** (-np.arange(50, dtype=np.float32) / 51)))


# --- phase order and layout ----------------------------------------------------------------------


@wrong(
    "phase-order",
    surface="table",
    encoding=sinusoidal(64, layout="concat", first="cos"),
    thread="flashinfer-ai/flashinfer#3819",
)
def halves_swapped(positions):
    """[sin | cos] where [cos | sin] is declared."""
    return sines_then_cosines(angles(positions, inv_freq(64)))


@wrong(
    "phase-order",
    surface="table",
    encoding=sinusoidal(64),
    thread="huggingface/diffusers#1369",
)
def cosine_first(positions):
    """Even channels hold the cosine."""
    a = angles(positions, inv_freq(64))
    return interleave(np.cos(a), np.sin(a))


@wrong(
    "phase-order",
    surface="table",
    encoding=sinusoidal(256, layout="concat", denominator="half-1"),
    thread="flashinfer-ai/flashinfer#3819",
    held_out=True,
)
def flip_applied_twice(positions):
    """flip_sin_to_cos undone once too often in a half-1 table."""
    table = sines_then_cosines(
        angles(positions, 10000.0 ** (-np.arange(128, dtype=np.float32) / 127))
    )
    return np.roll(table, 128, axis=-1)


@wrong(
    "layout",
    surface="table",
    encoding=sinusoidal(64),
    thread="class: tensor2tensor code for the paper's formula",
)
def concatenated_for_interleaved(positions):
    """[sin | cos] where sine and cosine alternate."""
    return sines_then_cosines(angles(positions, inv_freq(64)))


@wrong(
    "layout",
    surface="table",
    encoding=sinusoidal(128, layout="concat", offset=1),
    thread="class: tensor2tensor code for the paper's formula",
)
def interleaved_for_concatenated(positions):
    """Sine and cosine alternate where two halves are declared."""
    a = angles(np.asarray(positions) + 1, inv_freq(128))
    return interleave(np.sin(a), np.cos(a))
