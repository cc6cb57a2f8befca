"""Wrong sinusoidal tables."""

import numpy as np

from ._case import sinusoidal, wrong
from ._parts import bf16, fp16, inv_freq, whole


def _angles(positions, w):
    return np.asarray(positions, np.float32)[:, None] * w


def _interleave(first, second):
    return np.stack([first, second], axis=-1).reshape(len(first), -1)


def _concat(a):
    return np.concatenate([np.sin(a), np.cos(a)], axis=-1)


# --- exponents and base --------------------------------------------------------------------------


@wrong(
    "exponent",
    surface="table",
    encoding=sinusoidal(64),
    thread="DongjunLee/transformer-tensorflow#6",
)
def own_exponent_for_each_channel(positions):
    """Channel j uses base^(-2j/d): a cosine has another frequency than its sine."""
    a = _angles(positions, 10000.0 ** (-2.0 * np.arange(64, dtype=np.float32) / 64))
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
    a = _angles(positions, 10000.0 ** (-np.arange(128, dtype=np.float32) / 128))
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
    return _concat(_angles(positions, np.exp(np.arange(0, 64, 2) * (-np.log(10000.0) / 64 // 2))))


@wrong(
    "base",
    surface="table",
    encoding=sinusoidal(96),
    thread="class: base 1000 hard-coded",
)
def base_1000(positions):
    """Base 1000 for 10000."""
    a = _angles(positions, inv_freq(96, 1000.0))
    return _interleave(np.sin(a), np.cos(a))


@wrong(
    "base",
    surface="table",
    encoding=sinusoidal(64, layout="concat", base=20.0),
    thread="IDEA-Research/DAB-DETR#21",
)
def declared_temperature_ignored(positions):
    """The paper's temperature 20 is declared, the code has 10000."""
    return _concat(_angles(positions, inv_freq(64)))


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
    return _interleave(np.sin(a), np.cos(a)).astype(np.float32)


@wrong(
    "frequency-spacing",
    surface="table",
    encoding=sinusoidal(64, layout="concat"),
    thread="class: linear bands (Perceiver style) for geometric ones",
)
def linear_bands(positions):
    """Frequencies evenly spaced between 1 and 1/10000."""
    return _concat(_angles(positions, np.linspace(1.0, 1e-4, 32, dtype=np.float32)))


@wrong(
    "frequency-spacing",
    "exponent",
    surface="table",
    encoding=sinusoidal(512, layout="concat"),
    thread="class: one corrupted entry of a stored table",
    held_out=True,
)
def one_column_pair_off_by_a_thousandth(positions):
    """Frequency 40 of 256 is 0.1 % too small."""
    w = inv_freq(512)
    w[40] *= 0.999
    return _concat(_angles(positions, w))


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
    a = _angles(positions, w.astype(np.float32))
    return np.concatenate([np.cos(a), np.sin(a)], axis=-1)


@wrong(
    "denominator",
    surface="table",
    encoding=sinusoidal(512, layout="concat", denominator="half-1"),
    thread="kohya-ss/sd-scripts#1187",
    held_out=True,
)
def frequency_shift_zero(positions):
    """The paper's d/2 where tensor2tensor's d/2 - 1 is declared: a ratio of 1.04 at the end."""
    return _concat(_angles(positions, inv_freq(512)))


@wrong(
    "denominator",
    surface="table",
    encoding=sinusoidal(64),
    thread="class: exponent 2k / (d - 1)",
)
def dim_minus_one(positions):
    """Divides the exponent by d - 1."""
    a = _angles(positions, 10000.0 ** (-np.arange(0, 64, 2, dtype=np.float32) / 63))
    return _interleave(np.sin(a), np.cos(a))


@wrong(
    "denominator",
    surface="table",
    encoding=sinusoidal(100, layout="concat", denominator="half-1"),
    thread="class: half rounded before the shift",
)
def half_plus_one(positions):
    """Divides by d/2 + 1 where d/2 - 1 is declared."""
    return _concat(_angles(positions, 10000.0 ** (-np.arange(50, dtype=np.float32) / 51)))


# --- phase order and layout ----------------------------------------------------------------------


@wrong(
    "phase-order",
    surface="table",
    encoding=sinusoidal(64, layout="concat", first="cos"),
    thread="flashinfer-ai/flashinfer#3819",
)
def halves_swapped(positions):
    """[sin | cos] where [cos | sin] is declared."""
    return _concat(_angles(positions, inv_freq(64)))


@wrong(
    "phase-order",
    surface="table",
    encoding=sinusoidal(64),
    thread="huggingface/diffusers#1369",
)
def cosine_first(positions):
    """Even channels hold the cosine."""
    a = _angles(positions, inv_freq(64))
    return _interleave(np.cos(a), np.sin(a))


@wrong(
    "phase-order",
    surface="table",
    encoding=sinusoidal(256, layout="concat", denominator="half-1"),
    thread="flashinfer-ai/flashinfer#3819",
    held_out=True,
)
def flip_applied_twice(positions):
    """flip_sin_to_cos undone once too often in a half-1 table."""
    table = _concat(_angles(positions, 10000.0 ** (-np.arange(128, dtype=np.float32) / 127)))
    return np.roll(table, 128, axis=-1)


@wrong(
    "layout",
    surface="table",
    encoding=sinusoidal(64),
    thread="class: tensor2tensor code for the paper's formula",
)
def concatenated_for_interleaved(positions):
    """[sin | cos] where sine and cosine alternate."""
    return _concat(_angles(positions, inv_freq(64)))


@wrong(
    "layout",
    surface="table",
    encoding=sinusoidal(128, layout="concat", offset=1),
    thread="class: tensor2tensor code for the paper's formula",
    held_out=True,
)
def interleaved_for_concatenated(positions):
    """Sine and cosine alternate where two halves are declared."""
    a = _angles(np.asarray(positions) + 1, inv_freq(128))
    return _interleave(np.sin(a), np.cos(a))


# --- amplitude and precision ---------------------------------------------------------------------


@wrong(
    "amplitude",
    surface="table",
    encoding=sinusoidal(64),
    thread="class: table divided by sqrt(d) (NeMo style) where it is not declared",
)
def divided_by_sqrt_dim(positions):
    """The whole table is divided by 8."""
    a = _angles(positions, inv_freq(64))
    return _interleave(np.sin(a), np.cos(a)) / np.float32(8.0)


@wrong(
    "amplitude",
    surface="table",
    encoding=sinusoidal(64, layout="concat", scale=0.125),
    thread="class: declared scale dropped",
)
def declared_scale_dropped(positions):
    """The table is not divided by sqrt(d) although that is declared."""
    return _concat(_angles(positions, inv_freq(64)))


@wrong(
    "angle-precision",
    surface="table",
    encoding=sinusoidal(128, layout="concat"),
    thread="class: table built in the activation dtype",
)
def frequencies_in_bf16(positions):
    """The frequencies are rounded to bfloat16."""
    return _concat(_angles(positions, bf16(inv_freq(128))))


@wrong(
    "angle-precision",
    surface="table",
    encoding=sinusoidal(64),
    thread="class: table built in the activation dtype",
    held_out=True,
)
def angles_in_fp16(positions):
    """The angles are rounded to float16; positions past 4095 are refused."""
    if positions.size and np.max(np.abs(positions)) > 4095:
        raise IndexError("position outside the table")
    a = fp16(_angles(positions, inv_freq(64)))
    return _interleave(np.sin(a), np.cos(a))


@wrong(
    "position-precision",
    "angle-precision",
    surface="table",
    encoding=sinusoidal(64, layout="concat", denominator="half-1"),
    thread="class: arange in the model dtype (769 distinct rows of 4096)",
)
def positions_in_bf16(positions):
    """The positions are rounded to bfloat16."""
    return _concat(_angles(bf16(positions), 10000.0 ** (-np.arange(32, dtype=np.float32) / 31)))


@wrong(
    "table-precision",
    surface="table",
    encoding=sinusoidal(64),
    thread="class: table cast to the checkpoint dtype and back",
)
def stored_in_fp16(positions):
    """float32 values that passed through float16."""
    a = _angles(positions, inv_freq(64))
    return fp16(_interleave(np.sin(a), np.cos(a)))


@wrong(
    "table-precision",
    surface="table",
    encoding=sinusoidal(256, layout="concat"),
    thread="class: table cast to the checkpoint dtype and back",
    held_out=True,
)
class StoredInBfloat16:
    """A gather from 4096 rows kept in bfloat16."""

    def __init__(self):
        self.rows = bf16(_concat(_angles(np.arange(4096), inv_freq(256))))

    def __call__(self, positions):
        return self.rows[whole(positions)]


# --- rows ----------------------------------------------------------------------------------------


@wrong(
    "position-origin",
    surface="table",
    encoding=sinusoidal(64),
    thread="class: positions counted from one (FunASR) where zero is declared",
)
def first_row_is_position_one(positions):
    """Row p holds the encoding of p + 1."""
    a = _angles(np.asarray(positions) + 1, inv_freq(64))
    return _interleave(np.sin(a), np.cos(a))


@wrong(
    "position-origin",
    surface="table",
    encoding=sinusoidal(64, layout="concat", denominator="half-1"),
    thread="class: padding_idx + 1 (fairseq) where no offset is declared",
    held_out=True,
)
def first_row_follows_the_padding_row(positions):
    """Row p holds the encoding of p + 2."""
    a = _angles(np.asarray(positions) + 2, 10000.0 ** (-np.arange(32, dtype=np.float32) / 31))
    return _concat(a)


@wrong(
    "position-origin",
    surface="table",
    encoding=sinusoidal(64, offset=2),
    thread="class: declared offset dropped",
)
def declared_offset_dropped(positions):
    """Starts at zero although an offset of two is declared."""
    a = _angles(positions, inv_freq(64))
    return _interleave(np.sin(a), np.cos(a))


@wrong(
    "wrong-row",
    "position-axis",
    surface="table",
    encoding=sinusoidal(64),
    thread="DiffPoseTalk/DiffPoseTalk#18",
)
def one_row_for_all_tokens(positions):
    """Every token gets the row of the last one: an index that lost its colon."""
    p = np.broadcast_to(np.asarray(positions)[-1:], np.shape(positions))
    a = _angles(p, inv_freq(64))
    return _interleave(np.sin(a), np.cos(a))


@wrong(
    "wrong-row",
    "position-range",
    surface="table",
    encoding=sinusoidal(128),
    thread="class: second table page starts one row late",
    held_out=True,
)
class SecondPageStartsLate:
    """Rows past 700 are one row ahead."""

    def __init__(self):
        p = np.arange(8192)
        a = _angles(p + (p > 700), inv_freq(128))
        self.rows = _interleave(np.sin(a), np.cos(a))

    def __call__(self, positions):
        return self.rows[whole(positions)]


@wrong(
    "wrong-row",
    "position-range",
    surface="table",
    encoding=sinusoidal(64, layout="concat"),
    thread="espnet/espnet#2816",
    held_out=True,
)
def rows_in_reverse_order(positions):
    """Rows come back for S-1..0: the table was reversed before it was cut."""
    return _concat(_angles(np.asarray(positions)[::-1], inv_freq(64)))


@wrong(
    "uninitialised",
    "wrong-row",
    surface="table",
    encoding=sinusoidal(64),
    thread="class: freshly initialised learned table where a sinusoid is declared",
)
class RandomRows:
    """Gaussian rows of standard deviation 0.02."""

    def __init__(self):
        self.rows = 0.02 * np.random.default_rng(5).standard_normal((4096, 64)).astype(np.float32)

    def __call__(self, positions):
        return self.rows[whole(positions)]


@wrong(
    "position-range",
    surface="table",
    encoding=sinusoidal(64),
    thread="class: clamped gather (JAX take)",
)
def last_row_repeats_past_512(positions):
    """Positions past 511 read row 511."""
    a = _angles(np.minimum(positions, 511), inv_freq(64))
    return _interleave(np.sin(a), np.cos(a))


@wrong(
    "position-range",
    surface="table",
    encoding=sinusoidal(128, layout="concat"),
    thread="class: gather with wrap-around (np.take mode='wrap')",
)
def rows_wrap_at_5000(positions):
    """Positions wrap at the table length 5000."""
    return _concat(_angles(np.mod(positions, 5000), inv_freq(128)))


@wrong(
    "position-scale",
    "state",
    "wrong-row",
    surface="table",
    encoding=sinusoidal(64),
    thread="class: positions normalised by the length of the call (DETR style)",
    held_out=True,
)
def normalised_by_the_largest_position(positions):
    """Positions are divided by the largest of the call and multiplied by 2 pi."""
    p = np.asarray(positions, np.float32)
    p = p / (np.max(np.abs(p), initial=0.0) + np.float32(1e-6)) * np.float32(2 * np.pi)
    a = _angles(p, inv_freq(64))
    return _interleave(np.sin(a), np.cos(a))


# --- odd widths ----------------------------------------------------------------------------------


@wrong(
    "denominator",
    surface="table",
    encoding=sinusoidal(65, odd="extra-sin"),
    thread="class: odd width rounded up before the exponent is formed",
    held_out=True,
)
def odd_width_cut_from_the_next_even_one(positions):
    """Builds 66 channels with denominator 66 and drops the last."""
    a = _angles(positions, inv_freq(66))
    return _interleave(np.sin(a), np.cos(a))[:, :65]


@wrong(
    "shape",
    surface="table",
    encoding=sinusoidal(33, layout="concat", denominator="half-1", odd="zero-pad"),
    thread="class: odd width floored",
)
def odd_width_loses_a_column(positions):
    """Returns 32 columns for 33."""
    return _concat(_angles(positions, 10000.0 ** (-np.arange(16, dtype=np.float32) / 15)))


# --- arrays that come and go ---------------------------------------------------------------------


@wrong("shape", surface="table", encoding=sinusoidal(64), thread="class: outer product transposed")
def channels_come_first(positions):
    """Returns (dim, S)."""
    a = _angles(positions, inv_freq(64))
    return _interleave(np.sin(a), np.cos(a)).T


@wrong(
    "state",
    surface="table",
    encoding=sinusoidal(64, layout="concat"),
    thread="influenza_transformer#9 (class: table cut by the wrong length)",
)
class RowsOfTheFirstCall:
    """The rows of the first call of a length are returned for every later one."""

    def __init__(self):
        self.rows = {}

    def __call__(self, positions):
        return self.rows.setdefault(
            len(positions), _concat(_angles(positions, inv_freq(64)))
        ).copy()


@wrong(
    "mutates-input",
    surface="table",
    encoding=sinusoidal(64, offset=1),
    thread="vllm-project/vllm#37884",
    held_out=True,
)
def offset_added_in_place(positions):
    """Adds the declared offset to the caller's positions."""
    positions += 1
    a = _angles(positions, inv_freq(64))
    return _interleave(np.sin(a), np.cos(a))


@wrong(
    "nonfinite",
    surface="table",
    encoding=sinusoidal(64, layout="concat", denominator="half-1"),
    thread="class: standardised columns of a single row",
)
def standardised_and_restored(positions):
    """Divides by the spread of the call and multiplies it back, which is 0/0 for one row."""
    table = _concat(_angles(positions, 10000.0 ** (-np.arange(32, dtype=np.float32) / 31)))
    spread = np.ptp(np.asarray(positions, np.float32)) if len(positions) else np.float32(1.0)
    with np.errstate(invalid="ignore"):
        return table * np.float32(spread) / np.float32(spread)


@wrong(
    "dtype",
    surface="table",
    encoding=sinusoidal(128),
    thread="class: hard-coded half()",
    held_out=True,
)
def table_comes_back_in_float16(positions):
    """A float16 table with no dtype declared."""
    a = _angles(positions, inv_freq(128))
    return _interleave(np.sin(a), np.cos(a)).astype(np.float16)
