"""Wrong sinusoidal tables: values, rows, widths, arrays."""

import numpy as np

from tests.mutants._case import sinusoidal, wrong
from tests.mutants._parts import angles, bf16, fp16, interleave, inv_freq, sines_then_cosines, whole

# --- amplitude and precision ---------------------------------------------------------------------


@wrong(
    "amplitude",
    surface="table",
    encoding=sinusoidal(64),
    thread="class: table divided by sqrt(d) (NeMo style) where it is not declared",
)
def divided_by_sqrt_dim(positions):
    """The whole table is divided by 8."""
    a = angles(positions, inv_freq(64))
    return interleave(np.sin(a), np.cos(a)) / np.float32(8.0)


@wrong(
    "amplitude",
    surface="table",
    encoding=sinusoidal(64, layout="concat", scale=0.125),
    thread="class: declared scale dropped",
)
def declared_scale_dropped(positions):
    """The table is not divided by sqrt(d) although that is declared."""
    return sines_then_cosines(angles(positions, inv_freq(64)))


@wrong(
    "angle-precision",
    surface="table",
    encoding=sinusoidal(128, layout="concat"),
    thread="class: table built in the activation dtype",
)
def frequencies_in_bf16(positions):
    """The frequencies are rounded to bfloat16."""
    return sines_then_cosines(angles(positions, bf16(inv_freq(128))))


@wrong(
    "angle-precision",
    surface="table",
    encoding=sinusoidal(64),
    thread="class: table built in the activation dtype",
)
def angles_in_fp16(positions):
    """The angles are rounded to float16; positions past 4095 are refused."""
    if positions.size and np.max(np.abs(positions)) > 4095:
        raise IndexError("position outside the table")
    a = fp16(angles(positions, inv_freq(64)))
    return interleave(np.sin(a), np.cos(a))


@wrong(
    "position-precision",
    "angle-precision",
    surface="table",
    encoding=sinusoidal(64, layout="concat", denominator="half-1"),
    thread="class: arange in the model dtype (769 distinct rows of 4096)",
)
def positions_in_bf16(positions):
    """The positions are rounded to bfloat16."""
    return sines_then_cosines(
        angles(bf16(positions), 10000.0 ** (-np.arange(32, dtype=np.float32) / 31))
    )


@wrong(
    "table-precision",
    surface="table",
    encoding=sinusoidal(64),
    thread="class: table cast to the checkpoint dtype and back",
)
def stored_in_fp16(positions):
    """float32 values that passed through float16."""
    a = angles(positions, inv_freq(64))
    return fp16(interleave(np.sin(a), np.cos(a)))


@wrong(
    "table-precision",
    surface="table",
    encoding=sinusoidal(256, layout="concat"),
    thread="class: table cast to the checkpoint dtype and back",
)
class StoredInBfloat16:
    """A gather from 4096 rows kept in bfloat16."""

    def __init__(self):
        self.rows = bf16(sines_then_cosines(angles(np.arange(4096), inv_freq(256))))

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
    a = angles(np.asarray(positions) + 1, inv_freq(64))
    return interleave(np.sin(a), np.cos(a))


@wrong(
    "position-origin",
    surface="table",
    encoding=sinusoidal(64, layout="concat", denominator="half-1"),
    thread="class: padding_idx + 1 (fairseq) where no offset is declared",
    held_out=True,
)
def first_row_follows_the_padding_row(positions):
    """Row p holds the encoding of p + 2."""
    a = angles(np.asarray(positions) + 2, 10000.0 ** (-np.arange(32, dtype=np.float32) / 31))
    return sines_then_cosines(a)


@wrong(
    "position-origin",
    surface="table",
    encoding=sinusoidal(64, offset=2),
    thread="class: declared offset dropped",
)
def declared_offset_dropped(positions):
    """Starts at zero although an offset of two is declared."""
    a = angles(positions, inv_freq(64))
    return interleave(np.sin(a), np.cos(a))


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
    a = angles(p, inv_freq(64))
    return interleave(np.sin(a), np.cos(a))


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
        a = angles(p + (p > 700), inv_freq(128))
        self.rows = interleave(np.sin(a), np.cos(a))

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
    return sines_then_cosines(angles(np.asarray(positions)[::-1], inv_freq(64)))


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
    a = angles(np.minimum(positions, 511), inv_freq(64))
    return interleave(np.sin(a), np.cos(a))


@wrong(
    "position-range",
    surface="table",
    encoding=sinusoidal(128, layout="concat"),
    thread="class: gather with wrap-around (np.take mode='wrap')",
)
def rows_wrap_at_5000(positions):
    """Positions wrap at the table length 5000."""
    return sines_then_cosines(angles(np.mod(positions, 5000), inv_freq(128)))


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
    a = angles(p, inv_freq(64))
    return interleave(np.sin(a), np.cos(a))


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
    a = angles(positions, inv_freq(66))
    return interleave(np.sin(a), np.cos(a))[:, :65]


@wrong(
    "shape",
    surface="table",
    encoding=sinusoidal(33, layout="concat", denominator="half-1", odd="zero-pad"),
    thread="class: odd width floored",
)
def odd_width_loses_a_column(positions):
    """Returns 32 columns for 33."""
    return sines_then_cosines(angles(positions, 10000.0 ** (-np.arange(16, dtype=np.float32) / 15)))


# --- arrays that come and go ---------------------------------------------------------------------


@wrong("shape", surface="table", encoding=sinusoidal(64), thread="class: outer product transposed")
def channels_come_first(positions):
    """Returns (dim, S)."""
    a = angles(positions, inv_freq(64))
    return interleave(np.sin(a), np.cos(a)).T


@wrong(
    "state",
    surface="table",
    encoding=sinusoidal(64, layout="concat"),
    thread="class: rows cached by the length of the call",
)
class RowsOfTheFirstCall:
    """The rows of the first call of a length are returned for every later one."""

    def __init__(self):
        self.rows = {}

    def __call__(self, positions):
        return self.rows.setdefault(
            len(positions), sines_then_cosines(angles(positions, inv_freq(64)))
        ).copy()


@wrong(
    "mutates-input",
    surface="table",
    encoding=sinusoidal(64, offset=1),
    thread="vllm-project/vllm#37884",
)
def offset_added_in_place(positions):
    """Adds the declared offset to the caller's positions."""
    positions += 1
    a = angles(positions, inv_freq(64))
    return interleave(np.sin(a), np.cos(a))


@wrong(
    "nonfinite",
    surface="table",
    encoding=sinusoidal(64, layout="concat", denominator="half-1"),
    thread="class: standardised columns of a single row",
)
def standardised_and_restored(positions):
    """Divides by the spread of the call and multiplies it back, which is 0/0 for one row."""
    table = sines_then_cosines(
        angles(positions, 10000.0 ** (-np.arange(32, dtype=np.float32) / 31))
    )
    spread = np.ptp(np.asarray(positions, np.float32)) if len(positions) else np.float32(1.0)
    with np.errstate(invalid="ignore"):
        return table * np.float32(spread) / np.float32(spread)


@wrong(
    "dtype",
    surface="table",
    encoding=sinusoidal(128),
    thread="class: hard-coded half()",
)
def table_comes_back_in_float16(positions):
    """A float16 table with no dtype declared."""
    a = angles(positions, inv_freq(128))
    return interleave(np.sin(a), np.cos(a)).astype(np.float16)
