"""Wrong LongRoPE: which factors, from which length on, and how they enter."""

import math

import numpy as np

from tests.mutants._case import rope, schedule, wrong
from tests.mutants._parts import inv_freq, phase, turn_half
from tests.mutants._scaled import LONG, PHI, SHORT, longrope, longrope_magnitude, magnitude, seq_len

M = longrope_magnitude(32.0, 4096)
SLOW, FAST = longrope(96, 10000.0, LONG), longrope(96, 10000.0, SHORT)
# Phi-4-mini: three quarters of a head of 128.
PHI_4 = rope(128, rotary_dim=96, scaling=PHI["scaling"])
# A switch at a length that is no usual probe, with an explicit factor.
MINI_CPM = rope(
    96,
    base=1e6,
    scaling=schedule(
        "LongRoPE",
        short_factor=SHORT,
        long_factor=LONG,
        original_max_position=3000,
        attention_factor=1.24,
    ),
)


def rotate(x, positions, w, m=M):
    """Rotate by the frequencies w, amplitude m."""
    return turn_half(x, phase(positions, w)) * m


# --- the switch ----------------------------------------------------------------------------------


@wrong(
    "scaling-parameter",
    "scaling-formula",
    encoding=PHI,
    thread="class: >= for > (length 4096 counts as long)",
)
def longrope_switches_one_token_early(x, positions):
    """A sequence of exactly 4096 tokens gets the long factors."""
    return rotate(x, positions, SLOW if seq_len(positions) >= 4096 else FAST)


@wrong(
    "scaling-parameter",
    "scaling-formula",
    encoding=PHI,
    thread="class: largest position compared for the length",
)
def longrope_switches_one_token_late(x, positions):
    """Compares the largest position, 4096, instead of the length, 4097."""
    return rotate(x, positions, SLOW if np.max(positions, initial=0) > 4096 else FAST)


@wrong(
    "scaling-parameter",
    "scaling-formula",
    encoding=MINI_CPM,
    thread="class: >= for > at an unusual length",
    held_out=True,
)
def longrope_switches_early_at_three_thousand(x, positions):
    """A sequence of exactly 3000 tokens gets the long factors."""
    w = longrope(96, 1e6, LONG if seq_len(positions) >= 3000 else SHORT)
    return rotate(x, positions, w, 1.24)


@wrong(
    "scaling-parameter",
    "scaling-formula",
    surface="frequencies",
    encoding=PHI,
    thread="class: >= for > (length 4096 counts as long)",
    held_out=True,
)
def longrope_frequencies_switch_early(seq_len):
    """Returns the long frequencies from 4096 on."""
    return SLOW if seq_len >= 4096 else FAST


@wrong(
    "scaling-parameter",
    "scaling-formula",
    encoding=PHI,
    thread="class: switch at max_position_embeddings",
)
def longrope_switches_at_the_extended_length(x, positions):
    """Switches past 131072 instead of 4096."""
    return rotate(x, positions, SLOW if seq_len(positions) > 131072 else FAST)


@wrong("scaling-parameter", "scaling-formula", encoding=PHI_4, thread="class: long factors unread")
def longrope_always_short(x, positions):
    """Never uses the long factors."""
    return np.concatenate([rotate(x[..., :96], positions, FAST), x[..., 96:]], axis=-1)


@wrong(
    "scaling-parameter",
    "scaling-formula",
    encoding=PHI,
    thread="trap: always long, short factors ignored (mlx-lm)",
)
def longrope_always_long(x, positions):
    """Uses the long factors for short inputs too."""
    return rotate(x, positions, SLOW)


@wrong(
    "scaling-parameter",
    "scaling-formula",
    "position-range",
    encoding=PHI,
    thread="class: number of tokens in the call for the length",
)
def longrope_switches_on_the_tokens_of_the_call(x, positions):
    """Decode steps of one token never count as long."""
    return rotate(x, positions, SLOW if x.shape[-2] > 4096 else FAST)


@wrong(
    "scaling-parameter",
    "scaling-formula",
    "position-range",
    encoding=PHI,
    thread="class: factors chosen per token",
    held_out=True,
)
def longrope_switches_token_by_token(x, positions):
    """Tokens below 4096 keep the short factors in a longer call."""
    w = np.where(np.asarray(positions)[..., None] >= 4096, SLOW, FAST)
    a = np.asarray(positions, np.float32)[..., None] * w
    return turn_half(x, a[:, None] if a.ndim == 3 else a) * M


@wrong(
    "state",
    encoding=PHI,
    thread="huggingface/transformers#33129",
)
class LongropeLatchedToLong:
    """A long call switches to the long factors for good."""

    def __init__(self):
        self.w = FAST

    def __call__(self, x, positions):
        if seq_len(positions) > 4096:
            self.w = SLOW
        return rotate(x, positions, self.w)


@wrong(
    "state",
    "scaling-parameter",
    "scaling-formula",
    encoding=PHI_4,
    thread="microsoft/onnxruntime-genai#1161",
    held_out=True,
)
class LongropeDecidedByTheFirstCall:
    """The first call decides, and the table is kept."""

    def __init__(self):
        self.w = None

    def __call__(self, x, positions):
        if self.w is None:
            self.w = SLOW if seq_len(positions) > 4096 else FAST
        return np.concatenate([rotate(x[..., :96], positions, self.w), x[..., 96:]], axis=-1)


# --- the factors ---------------------------------------------------------------------------------


@wrong(
    "scaling-parameter", "scaling-formula", encoding=PHI, thread="class: the two lists exchanged"
)
def longrope_short_and_long_exchanged(x, positions):
    """Long factors for short inputs and the reverse."""
    return rotate(x, positions, FAST if seq_len(positions) > 4096 else SLOW)


@wrong(
    "scaling-formula",
    "scaling-parameter",
    encoding=PHI,
    thread="trap: factors divide the frequencies (ggml freq_factors)",
)
def longrope_factors_multiply(x, positions):
    """Multiplies the frequencies by the factors."""
    factors = LONG if seq_len(positions) > 4096 else SHORT
    return rotate(x, positions, inv_freq(96) * np.array(factors, np.float32))


@wrong(
    "scaling-formula",
    "scaling-parameter",
    surface="frequencies",
    encoding=PHI,
    thread="class: factor inside the power",
    held_out=True,
)
def longrope_factor_inside_the_power(seq_len):
    """(factor * base) ** -(2j/d)."""
    factors = np.array(LONG if seq_len > 4096 else SHORT, np.float32)
    return (factors * 10000.0) ** -(np.arange(48, dtype=np.float32) / 48)


@wrong(
    "scaling-parameter",
    "scaling-formula",
    encoding=PHI,
    thread="class: list read from the slow end",
    held_out=True,
)
def longrope_factors_in_reverse(x, positions):
    """The first pair gets the last factor."""
    factors = LONG if seq_len(positions) > 4096 else SHORT
    return rotate(x, positions, longrope(96, 10000.0, factors[::-1]))


@wrong("scaling-missing", encoding=PHI, thread="class: 'su' is not among the known rope types")
def longrope_lists_not_read(x, positions):
    """Plain frequencies and amplitude one."""
    return turn_half(x, phase(positions, inv_freq(96)))


@wrong("scaling-formula", encoding=PHI, thread="class: every rope_type treated as linear")
def longrope_as_linear(x, positions):
    """Divides every frequency by 32."""
    return rotate(x, positions, inv_freq(96) / 32)


# --- the amplitude -------------------------------------------------------------------------------


def frequencies(positions):
    """The right frequencies."""
    return SLOW if seq_len(positions) > 4096 else FAST


@wrong("attention-factor", encoding=PHI, thread="class: attention factor missing")
def longrope_factor_missing(x, positions):
    """Amplitude one."""
    return turn_half(x, phase(positions, frequencies(positions)))


@wrong("attention-factor", encoding=PHI, thread="class: square root missing")
def longrope_square_root_missing(x, positions):
    """1 + ln(s) / ln(L0)."""
    return rotate(x, positions, frequencies(positions), 1 + math.log(32.0) / math.log(4096))


@wrong(
    "attention-factor",
    encoding=PHI,
    thread="class: logarithm of the extended length",
    held_out=True,
)
def longrope_factor_of_the_extended_length(x, positions):
    """sqrt(1 + ln(s) / ln(131072))."""
    return rotate(x, positions, frequencies(positions), longrope_magnitude(32.0, 131072))


@wrong("attention-factor", encoding=PHI, thread="trap: 'yarn' in old Phi-3 configs")
def longrope_with_the_factor_of_yarn(x, positions):
    """0.1 ln(s) + 1."""
    return rotate(x, positions, frequencies(positions), magnitude(32.0))


@wrong(
    "attention-factor",
    "scaling-parameter",
    "scaling-formula",
    encoding=PHI,
    thread="trap: the same factor on both sides of the switch",
)
def longrope_factor_only_when_long(x, positions):
    """Amplitude one for short inputs."""
    return rotate(x, positions, frequencies(positions), M if seq_len(positions) > 4096 else 1.0)


@wrong(
    "attention-factor",
    surface="frequencies",
    encoding=MINI_CPM,
    thread="class: explicit attention_factor not read",
    held_out=True,
)
def longrope_explicit_factor_ignored(seq_len):
    """Returns the default factor where 1.24 is given."""
    factors = LONG if seq_len > 3000 else SHORT
    return longrope(96, 1e6, factors), longrope_magnitude(131072 / 3000, 3000)
