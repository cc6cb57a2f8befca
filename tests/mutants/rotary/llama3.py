"""Wrong Llama 3 frequencies."""

import math

import numpy as np

from tests.mutants._case import rope, schedule, wrong
from tests.mutants._parts import inv_freq, phase, turn_half
from tests.mutants._scaled import LLAMA_31, LLAMA_32, llama3

CWM = rope(
    128,
    base=1e6,
    scaling=schedule(
        "Llama3Scaling",
        factor=16.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position=8192,
    ),
)
NARROW = rope(
    128,
    base=5e5,
    scaling=schedule(
        "Llama3Scaling",
        factor=8.0,
        low_freq_factor=2.0,
        high_freq_factor=3.0,
        original_max_position=8192,
    ),
)


def rotations(w, length=8192):
    """Turns of each pair within the original length."""
    return length * w / (2 * math.pi)


@wrong("scaling-missing", encoding=LLAMA_31, thread="unslothai/unsloth#6197")
def llama3_dropped(x, positions):
    """Rotates with the unscaled frequencies."""
    return turn_half(x, phase(positions, inv_freq(128, 5e5)))


@wrong(
    "scaling-missing", surface="frequencies", encoding=LLAMA_32, thread="ggml-org/llama.cpp#8676"
)
def llama3_dropped_from_the_frequencies():
    """Stores the unscaled frequencies."""
    return inv_freq(64, 5e5)


@wrong(
    "scaling-missing",
    surface="cos_sin",
    encoding=LLAMA_32,
    thread="sbryngelson/ANEForge#58",
    held_out=True,
)
def llama3_dropped_from_the_tables(positions):
    """Tables of the unscaled frequencies."""
    a = np.asarray(positions, np.float32)[:, None] * inv_freq(64, 5e5)
    return np.cos(a), np.sin(a)


@wrong(
    "scaling-parameter",
    "scaling-formula",
    encoding=LLAMA_31,
    thread="class: low and high swapped, clipped ramp",
)
def llama3_low_and_high_swapped(x, positions):
    """Swapped factors turn the clipped ramp round."""
    return turn_half(x, phase(positions, llama3(128, 5e5, 8.0, low=4.0, high=1.0)))


@wrong(
    "scaling-parameter",
    "scaling-formula",
    encoding=LLAMA_31,
    thread="class: low and high swapped, three branches",
    held_out=True,
)
def llama3_low_and_high_swapped_in_branches(x, positions):
    """With branches, swapped factors leave no band: everything below 4 rotations is divided."""
    w = inv_freq(128, 5e5)
    wavelength = 2 * math.pi / w
    low, high = 8192 / 4.0, 8192 / 1.0
    smooth = (8192 / wavelength - 4.0) / (1.0 - 4.0)
    between = (wavelength >= high) & (wavelength <= low)
    w = np.where(wavelength > low, w / 8, np.where(between, (1 - smooth) * w / 8 + smooth * w, w))
    return turn_half(x, phase(positions, w))


@wrong("scaling-parameter", encoding=LLAMA_32, thread="class: factor of Llama 3.1 kept for 3.2")
def llama3_factor_eight_for_thirty_two(x, positions):
    """Divides by 8 although 32 is declared."""
    return turn_half(x, phase(positions, llama3(64, 5e5, 8.0)))


@wrong(
    "scaling-parameter",
    surface="frequencies",
    encoding=CWM,
    thread="trap: factor hard-coded (MaxText)",
    held_out=True,
)
def llama3_factor_hard_coded():
    """Divides by 8 although 16 is declared."""
    return llama3(128, 1e6, 8.0)


@wrong("scaling-parameter", encoding=NARROW, thread="trap: low and high hard-coded (Megatron)")
def llama3_low_and_high_hard_coded(x, positions):
    """Uses 1 and 4 although 2 and 3 are declared."""
    return turn_half(x, phase(positions, llama3(128, 5e5, 8.0)))


@wrong("scaling-parameter", encoding=LLAMA_31, thread="class: max_position_embeddings for original")
def llama3_extended_length(x, positions):
    """Takes 131072 for the original length."""
    return turn_half(x, phase(positions, llama3(128, 5e5, 8.0, length=131072)))


@wrong(
    "scaling-parameter",
    encoding=LLAMA_32,
    thread="class: max_position_embeddings / factor for original",
    held_out=True,
)
def llama3_length_from_the_ratio(x, positions):
    """Takes 131072 / 32 = 4096 for the original length, 8192."""
    return turn_half(x, phase(positions, llama3(64, 5e5, 32.0, length=4096)))


@wrong(
    "scaling-parameter",
    "scaling-formula",
    encoding=LLAMA_31,
    thread="class: 2 pi lost from the wavelength",
)
def llama3_two_pi_forgotten(x, positions):
    """Takes 1 / w for the wavelength."""
    w = llama3(128, 5e5, 8.0, length=8192 * 2 * math.pi)
    return turn_half(x, phase(positions, w))


@wrong(
    "scaling-parameter",
    encoding=LLAMA_31,
    thread="class: factor applied twice",
    held_out=True,
)
def llama3_factor_applied_twice(x, positions):
    """Divides the slow band by 64."""
    return turn_half(x, phase(positions, llama3(128, 5e5, 64.0)))


@wrong("scaling-formula", encoding=LLAMA_31, thread="class: smooth factor the wrong way round")
def llama3_smooth_inverted(x, positions):
    """Both ends are right; the band between them runs from fast to slow and back."""
    w = inv_freq(128, 5e5)
    r = rotations(w)
    t = (r - 1.0) / 3.0
    band = t * w / 8 + (1 - t) * w
    return turn_half(x, phase(positions, np.where(r > 4, w, np.where(r < 1, w / 8, band))))


@wrong("scaling-formula", encoding=LLAMA_31, thread="class: comparison of wavelengths reversed")
def llama3_comparisons_reversed(x, positions):
    """Divides the fast frequencies and keeps the slow ones, with a right smooth band."""
    w = inv_freq(128, 5e5)
    r = rotations(w)
    t = (r - 1.0) / 3.0
    band = (1 - t) * w / 8 + t * w
    return turn_half(x, phase(positions, np.where(r > 4, w / 8, np.where(r < 1, w, band))))


@wrong(
    "scaling-formula",
    "scaling-parameter",
    encoding=LLAMA_32,
    thread="class: no smooth band",
)
def llama3_hard_switch(x, positions):
    """Divides whatever turns less than low_freq_factor times, and nothing else."""
    w = inv_freq(64, 5e5)
    return turn_half(x, phase(positions, np.where(rotations(w) < 1, w / 32, w)))


@wrong("scaling-formula", encoding=LLAMA_31, thread="class: smoothing on the wavelength")
def llama3_smooth_in_the_wavelength(x, positions):
    """The band is linear in the wavelength instead of the frequency."""
    w = inv_freq(128, 5e5)
    wavelength = 2 * math.pi / w
    t = np.clip((8192 - wavelength) / (8192 - 2048), 0, 1)
    return turn_half(x, phase(positions, w * ((1 - t) / 8 + t)))


@wrong(
    "scaling-formula",
    surface="frequencies",
    encoding=LLAMA_31,
    thread="trap: logarithmic blend",
    held_out=True,
)
def llama3_geometric_band():
    """The band blends logarithms."""
    w = inv_freq(128, 5e5)
    t = np.clip((rotations(w) - 1) / 3, 0, 1)
    return w * np.float32(8.0) ** (t - 1)


@wrong("scaling-formula", encoding=LLAMA_31, thread="class: every rope_type treated as linear")
def llama3_as_linear(x, positions):
    """Interpolates every pair."""
    return turn_half(x, phase(positions, inv_freq(128, 5e5) / 8))


@wrong("attention-factor", "amplitude", encoding=LLAMA_31, thread="class: YaRN's factor for all")
def llama3_with_the_factor_of_yarn(x, positions):
    """Multiplies by 0.1 ln(8) + 1, which Llama 3 does not."""
    return turn_half(x, phase(positions, llama3(128, 5e5, 8.0))) * (0.1 * math.log(8.0) + 1)
