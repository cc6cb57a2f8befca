"""Wrong rotary encodings: base, exponent, denominators, scaling of positions."""

import numpy as np

from tests.mutants._case import rope, wrong
from tests.mutants._parts import inv_freq, phase, turn_half, turn_pairs

# --- base and exponent ---------------------------------------------------------------------------


@wrong("base", encoding=rope(128, "half", base=500000.0), thread="class: rope_theta not read")
def default_base_for_500k(x, positions):
    """Uses 10000 although the model says 500000."""
    return turn_half(x, phase(positions, inv_freq(x.shape[-1])))


@wrong(
    "base",
    surface="frequencies",
    encoding=rope(128, "half", base=1000000.0),
    thread="class: rope_theta not read",
)
def default_base_for_1m():
    """Uses 10000 although the model says 1000000."""
    return np.exp(-np.log(10000.0) * np.arange(64, dtype=np.float32) / 64)


@wrong("base", encoding=rope(64, "interleaved"), thread="class: mistyped constant", held_out=True)
def base_10001(x, positions):
    """Base 10001."""
    return turn_pairs(x, phase(positions, inv_freq(64, 10001.0)))


@wrong(
    "base",
    surface="cos_sin",
    encoding=rope(128, "half", base=10000000.0),
    thread="1bit-MONSTER/1bit-MONSTER#634",
)
def base_overflows_fixed_point(positions):
    """Stores theta * 1000 in 32 unsigned bits."""
    stored = int(10000000.0 * 1000) % 2**32
    a = np.asarray(positions, np.float32)[:, None] * inv_freq(128, stored / 1000.0)
    return np.cos(a), np.sin(a)


@wrong("exponent", "base", encoding=rope(64, "half"), thread="class: exponent j/d instead of 2j/d")
def halved_exponent(x, positions):
    """Frequencies base^(-j/d)."""
    w = 10000.0 ** (-np.arange(32, dtype=np.float32) / 64)
    return turn_half(x, phase(positions, w))


@wrong(
    "exponent",
    "base",
    surface="frequencies",
    encoding=rope(64, "interleaved"),
    thread="class: 10000**(-2*arange(0, d, 2)/d)",
)
def doubled_exponent():
    """Doubles an index that already steps by two."""
    return 10000.0 ** (-2.0 * np.arange(0, 64, 2) / 64)


@wrong("angle-precision", encoding=rope(64, "half"), thread="class: a table pasted with 6 digits")
def frequencies_of_six_digits(x, positions):
    """Within the tolerance at every position, and 2 rad off at a million."""
    w = np.array([float(f"{10000.0 ** (-k / 32):.6g}") for k in range(32)])
    return turn_half(x, np.asarray(positions, np.float64)[..., None] * w).astype(np.float32)


@wrong("exponent", encoding=rope(128, "half"), thread="class: theta_i written with i from 1")
def one_based_exponent(x, positions):
    """Frequencies base^(-2j/d) with j = 1..d/2."""
    w = 10000.0 ** (-2.0 * np.arange(1, 65, dtype=np.float32) / 128)
    return turn_half(x, phase(positions, w))


@wrong(
    "exponent",
    "frequency-spacing",
    "uninitialised",
    surface="cos_sin",
    encoding=rope(64, "half"),
    thread="class: integer division in the exponent",
)
def integer_division_in_the_exponent(positions):
    """arange(0, d, 2) // d is zero, so every frequency is one."""
    w = 1.0 / 10000.0 ** (np.arange(0, 64, 2) // 64)
    a = np.asarray(positions, np.float32)[:, None] * w.astype(np.float32)
    return np.cos(a), np.sin(a)


@wrong(
    "frequency-spacing",
    encoding=rope(64, "half"),
    thread="class: linear bands (Perceiver style) for geometric ones",
)
def linearly_spaced_frequencies(x, positions):
    """linspace between the first and the last frequency."""
    w = np.linspace(1.0, 10000.0 ** (-62 / 64), 32, dtype=np.float32)
    return turn_half(x, phase(positions, w))


@wrong(
    "frequency-spacing",
    "exponent",
    encoding=rope(64, "half"),
    thread="class: frequencies sorted ascending",
)
def frequencies_in_reverse_order(x, positions):
    """The right frequencies, slowest first."""
    return turn_half(x, phase(positions, inv_freq(64)[::-1]))


@wrong(
    "frequency-spacing",
    "exponent",
    encoding=rope(128, "interleaved", base=500000.0),
    thread="class: one corrupted entry of a stored table",
    held_out=True,
)
def one_frequency_off_by_a_thousandth(x, positions):
    """Frequency 17 is 0.1 % too large."""
    w = inv_freq(128, 500000.0)
    w[17] *= 1.001
    return turn_pairs(x, phase(positions, w))


@wrong("denominator", encoding=rope(64, "half", rotary_dim=16), thread="zml/zml#660")
def head_dim_in_the_denominator(x, positions):
    """Rotates the right slice with frequencies base^(-2j/head_dim)."""
    y = turn_half(x[..., :16], phase(positions, inv_freq(64)[:8]))
    return np.concatenate([y, x[..., 16:]], axis=-1)


@wrong(
    "denominator",
    "proportional",
    surface="frequencies",
    encoding=rope(128, "interleaved", rotary_dim=48),
    thread="zml/zml#660",
    held_out=True,
)
def head_dim_in_the_denominator_of_the_table():
    """The first rotary_dim/2 frequencies of the full head."""
    return 1.0 / 10000.0 ** (np.arange(0, 48, 2) / 128)


@wrong(
    "denominator",
    encoding=rope(64, "interleaved"),
    thread="class: linspace with both endpoints (LTX style)",
    held_out=True,
)
def endpoints_included(x, positions):
    """Frequencies base^(-j/(d/2 - 1)), so the last is exactly 1/base."""
    w = 10000.0 ** -np.linspace(0.0, 1.0, 32, dtype=np.float32)
    return turn_pairs(x, phase(positions, w))


# --- scaling of positions ------------------------------------------------------------------------


@wrong(
    "scaling-missing",
    "position-scale",
    encoding=rope(64, "half", scaling=4.0),
    thread="unslothai/unsloth#6197",
)
def linear_scaling_dropped(x, positions):
    """Reads no scaling at all."""
    return turn_half(x, phase(positions, inv_freq(64)))


@wrong(
    "scaling-missing",
    "position-scale",
    surface="frequencies",
    encoding=rope(128, "half", base=1000000.0, scaling=8.0),
    thread="sbryngelson/ANEForge#58",
)
def linear_scaling_dropped_from_the_table():
    """The stored frequencies are the unscaled ones."""
    return 1.0 / 1000000.0 ** (np.arange(0, 128, 2) / 128)


@wrong(
    "position-scale",
    "scaling-parameter",
    encoding=rope(64, "interleaved", scaling=4.0),
    thread="class: factor applied to positions and to frequencies",
)
def linear_scaling_applied_twice(x, positions):
    """Divides both the positions and the frequencies by the factor."""
    return turn_pairs(x, phase(np.asarray(positions) / 4.0, inv_freq(64) / 4.0))


@wrong(
    "position-scale",
    "scaling-parameter",
    encoding=rope(128, "half", scaling=2.0),
    thread="class: multiplied by the factor instead of divided",
)
def linear_scaling_inverted(x, positions):
    """Multiplies positions by the factor."""
    return turn_half(x, phase(np.asarray(positions) * 2.0, inv_freq(128)))


@wrong("position-scale", encoding=rope(64, "half"), thread="NVIDIA/TensorRT-LLM#16378")
def rotated_twice(x, positions):
    """The wrapper rotates and the kernel rotates again."""
    a = phase(positions, inv_freq(64))
    return turn_half(turn_half(x, a), a)


@wrong(
    "position-scale",
    "position-precision",
    "position-range",
    "wrong-row",
    "scaling-formula",
    encoding=rope(64, "half", scaling=4.0),
    thread="class: integer division of positions",
    held_out=True,
)
def scaled_positions_floored(x, positions):
    """Interpolates with integer division, so four tokens share each angle."""
    return turn_half(x, phase(np.asarray(positions) // 4, inv_freq(64)))


@wrong(
    "scaling-formula",
    "base",
    encoding=rope(64, "half", scaling=4.0),
    thread="class: another scaling rule under the same factor",
    held_out=True,
)
def ntk_where_linear_is_declared(x, positions):
    """Raises the base by factor^(d/(d-2)) instead of interpolating."""
    return turn_half(x, phase(positions, inv_freq(64, 10000.0 * 4.0 ** (64 / 62))))


# --- uninitialised -------------------------------------------------------------------------------


@wrong(
    "uninitialised",
    "frequency-spacing",
    encoding=rope(64, "half"),
    thread="huggingface/transformers#34234",
)
class FrequencyBufferNeverFilled:
    """The frequency buffer holds what the allocator left there."""

    def __init__(self):
        self.w = np.random.default_rng(34234).standard_normal(32).astype(np.float32)

    def __call__(self, x, positions):
        return turn_half(x, phase(positions, self.w))


@wrong(
    "uninitialised",
    "frequency-spacing",
    "rotary-dim",
    surface="frequencies",
    encoding=rope(64, "interleaved"),
    thread="huggingface/transformers#45902",
    held_out=True,
)
def frequency_buffer_of_zeros():
    """A zero-filled buffer was never rebuilt."""
    return np.zeros(32, np.float32)


@wrong(
    "uninitialised",
    "not-a-rotation",
    "rotary-dim",
    "frequency-spacing",
    encoding=rope(128, "half"),
    thread="huggingface/transformers#45902",
)
def zero_frequencies_rotate_nothing(x, positions):
    """All frequencies are zero, so the input comes back."""
    return turn_half(x, phase(positions, np.zeros(64, np.float32)))


# --- several at once, and parameters -------------------------------------------------------------


@wrong(
    "scaling-parameter",
    "position-scale",
    encoding=rope(64, "half", scaling=4.0),
    thread="class: factor of another checkpoint",
)
def factor_eight_for_four(x, positions):
    """Interpolates by 8 although 4 is declared."""
    return turn_half(x, phase(np.asarray(positions) / 8.0, inv_freq(64)))


@wrong(
    "scaling-parameter",
    "position-scale",
    surface="frequencies",
    encoding=rope(128, "half", base=500000.0, scaling=32.0),
    thread="class: square root of the factor",
    held_out=True,
)
def square_root_of_the_factor():
    """Divides by sqrt(32)."""
    return inv_freq(128, 500000.0) / np.sqrt(np.float32(32.0))


@wrong(
    "layout",
    "base",
    encoding=rope(64, "interleaved", base=500000.0),
    thread="class: two independent bugs",
)
def half_split_and_default_base(x, positions):
    """Half-split pairs and base 10000 at once."""
    return turn_half(x, phase(positions, inv_freq(64)))


@wrong(
    "sign",
    "scaling-missing",
    "position-scale",
    encoding=rope(128, "half", scaling=4.0),
    thread="class: two independent bugs",
    held_out=True,
)
def backwards_and_unscaled(x, positions):
    """Rotates the other way and drops the scaling."""
    return turn_half(x, -phase(positions, inv_freq(128)))
