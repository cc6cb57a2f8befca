"""Wrong multi-axis rotary encodings: frequencies, scaling and layout."""

import numpy as np

from tests.mutants._axes import (
    FLUX,
    GEMMA4_VISION,
    GLM_V,
    KIMI_VISION,
    LLAMA4_VISION,
    PIXTRAL,
    QWEN2_VISION,
    QWEN2_VL,
    QWEN3_VL,
    WAN,
    angles,
    chunked,
    globally,
    interleaved,
    restarting,
    turn_blocks,
)
from tests.mutants._case import multi_axis, schedule, wrong
from tests.mutants._parts import turn_half, turn_pairs
from tests.mutants._scaled import magnitude, qwen

QWEN2_VL_LONG = {
    **QWEN2_VL,
    "scaling": schedule("YaRN", factor=4.0, original_max_position=32768),
}
HUNYUAN_VIDEO = multi_axis(128, (8, 28, 28), "interleaved", base=256.0, spacing="restart")
ALLEGRO = multi_axis(
    96, (16, 16, 16), "blockwise", spacing="restart", position_scale=[1.0, 0.5, 0.5]
)

# --- spacing -------------------------------------------------------------------------------------


@wrong("frequency-spacing", encoding=QWEN2_VL, thread="class: frequencies restart per section")
def mrope_restarts(x, positions):
    """Each section has a series of its own."""
    sizes = (16, 24, 24)
    return turn_half(x, angles(positions, chunked(sizes), restarting(sizes, 1e6)))


@wrong(
    "frequency-spacing",
    surface="frequencies",
    encoding=QWEN2_VL,
    thread="class: frequencies restart per section",
    held_out=True,
)
def mrope_frequencies_restart():
    """A table of three series."""
    return restarting((16, 24, 24), 1e6)


@wrong("frequency-spacing", encoding=QWEN2_VISION, thread="class: one series over both axes")
def vision_does_not_restart(x, positions):
    """The width goes on where the height stopped."""
    return turn_half(x, angles(positions, chunked((20, 20)), globally(40)))


@wrong("frequency-spacing", encoding=FLUX, thread="class: one series over all axes", held_out=True)
def flux_does_not_restart(x, positions):
    """One series over the 64 pairs of the three axes."""
    return turn_pairs(x, angles(positions, chunked((8, 28, 28)), globally(64)))


@wrong(
    "frequency-spacing",
    "denominator",
    encoding=FLUX,
    thread="class: head_dim in the exponent of each axis",
)
def flux_with_head_dim_denominators(x, positions):
    """Each axis starts again, with 128 for its own width in the exponent."""
    w = globally(64)
    w = np.concatenate([w[:8], w[:28], w[:28]])
    return turn_pairs(x, angles(positions, chunked((8, 28, 28)), w))


@wrong(
    "frequency-spacing",
    encoding=PIXTRAL,
    thread="trap: 'the same axial embedding' as Llama 4, whose axes share frequencies",
)
def pixtral_restarts(x, positions):
    """Both axes have the even frequencies."""
    return turn_half(x, angles(positions, chunked((16, 16)), restarting((16, 16))))


@wrong(
    "frequency-spacing",
    encoding=LLAMA4_VISION,
    thread="trap: 'the same axial embedding' as Pixtral, whose axes do not share frequencies",
    held_out=True,
)
def llama4_strided(x, positions):
    """The second axis has the odd frequencies."""
    w = globally(44)
    w = np.concatenate([w[::2], w[1::2]])
    return turn_pairs(x, angles(np.asarray(positions) + 1, chunked((22, 22)), w))


@wrong("frequency-spacing", encoding=PIXTRAL, thread="class: even and odd frequencies exchanged")
def pixtral_odd_frequencies_first(x, positions):
    """The height has the odd frequencies, the width the even ones."""
    w = globally(32)
    w = np.concatenate([w[1::2], w[::2]])
    return turn_half(x, angles(positions, chunked((16, 16)), w))


@wrong(
    "frequency-spacing",
    encoding=QWEN3_VL,
    thread="class: index within the section for the index of the pair",
)
def mrope_interleaved_restarts(x, positions):
    """The i-th pair of each axis has the i-th frequency of a series of its own."""
    axis = interleaved((24, 20, 20))
    w = np.empty(64, np.float32)
    for a, n in enumerate((24, 20, 20)):
        w[axis == a] = globally(n, 5e6)
    return turn_half(x, angles(positions, axis, w))


@wrong(
    "frequency-spacing",
    encoding=KIMI_VISION,
    thread="class: index of the pair for the index within the axis",
    held_out=True,
)
def kimi_does_not_restart(x, positions):
    """One series over all pairs, the axes alternating along it."""
    return turn_half(x, angles(positions, np.arange(36) % 2, globally(36)))


@wrong("base", encoding=HUNYUAN_VIDEO, thread="class: theta 10000 for 256")
def video_with_the_default_base(x, positions):
    """Base 10000 although 256 is declared."""
    return turn_pairs(x, angles(positions, chunked((8, 28, 28)), restarting((8, 28, 28))))


@wrong("base", encoding=GEMMA4_VISION, thread="class: theta of the text model", held_out=True)
def vision_with_the_base_of_the_text(x, positions):
    """Base 10000 although 100 is declared."""
    a = angles(positions, chunked((16, 16)), restarting((16, 16)))
    return turn_blocks(x, a, (16, 16))


# --- scaling -------------------------------------------------------------------------------------


@wrong(
    "scaling-missing",
    encoding=QWEN2_VL_LONG,
    thread="class: rope_type 'mrope' hides the scaling",
)
def mrope_scaling_dropped(x, positions):
    """Right sections, unscaled frequencies."""
    return turn_half(x, angles(positions, chunked((16, 24, 24)), globally(64, 1e6)))


@wrong(
    "sections",
    encoding=QWEN2_VL_LONG,
    thread="class: rope_type 'yarn' hides the sections",
    held_out=True,
)
def mrope_sections_dropped_for_yarn(x, positions):
    """Scaled frequencies, every pair turned by the temporal position."""
    a = angles(positions, np.zeros(64, int), qwen())
    return turn_half(x, a) * magnitude(4.0)


@wrong("position-scale", encoding=ALLEGRO, thread="class: interpolation scale not read")
def grid_interpolation_dropped(x, positions):
    """Leaves rows and columns unscaled."""
    sizes = (16, 16, 16)
    return turn_blocks(x, angles(positions, chunked(sizes), restarting(sizes)), sizes)


@wrong(
    "position-scale",
    encoding=ALLEGRO,
    thread="class: interpolation scale on every axis",
    held_out=True,
)
def grid_interpolation_on_time_as_well(x, positions):
    """Scales the frames like rows and columns."""
    sizes = (16, 16, 16)
    p = np.asarray(positions) / 2.0
    return turn_blocks(x, angles(p, chunked(sizes), restarting(sizes)), sizes)


# --- layout --------------------------------------------------------------------------------------


@wrong("layout", encoding=GEMMA4_VISION, thread="class: rotate_half over the whole head")
def blocks_rotated_as_one(x, positions):
    """Pairs (j, j + d/2) where each axis has its own block of channels."""
    a = angles(positions, chunked((16, 16)), restarting((16, 16), 100.0))
    return turn_half(x, a)


@wrong("layout", encoding=QWEN2_VISION, thread="class: rotate_half inside each axis", held_out=True)
def vision_rotated_in_blocks(x, positions):
    """Pairs inside the block of each axis where the whole head is split in the middle."""
    a = angles(positions, chunked((20, 20)), restarting((20, 20)))
    return turn_blocks(x, a, (20, 20))


@wrong("layout", encoding=GLM_V, thread="trap: glm4v is interleaved, glm4v_moe half-split")
def glm_in_halves(x, positions):
    """Half-split pairs in the slice of an interleaved model."""
    y = turn_half(x[..., :64], angles(positions, chunked((8, 12, 12)), globally(32)))
    return np.concatenate([y, x[..., 64:]], axis=-1)


@wrong("layout", encoding=QWEN3_VL, thread="class: 'interleaved' taken for the pairs")
def mrope_interleaved_pairs(x, positions):
    """Interleaves the channels of a pair as well as the sections."""
    return turn_pairs(x, angles(positions, interleaved((24, 20, 20)), globally(64, 5e6)))


@wrong("layout", encoding=WAN, thread="class: unbind(-2) for unbind(-1)", held_out=True)
def wan_in_halves(x, positions):
    """Half-split pairs over the whole head of an interleaved model."""
    sizes = (22, 21, 21)
    return turn_half(x, angles(positions, chunked(sizes), restarting(sizes)))


@wrong(
    "output-layout", strict=True, encoding=FLUX, thread="class: cat for stack after the rotation"
)
def flux_written_in_halves(x, positions):
    """Reads adjacent pairs and writes halves."""
    y = turn_pairs(x, angles(positions, chunked((8, 28, 28)), restarting((8, 28, 28))))
    return np.concatenate([y[..., ::2], y[..., 1::2]], axis=-1)
