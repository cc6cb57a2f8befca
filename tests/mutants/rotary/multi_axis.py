"""Wrong multi-axis rotary encodings: which axis turns which pair."""

import numpy as np

from tests.mutants._axes import (
    ERNIE,
    ERNIE_MAP,
    FLUX,
    GLM_V,
    HUNYUAN_VL,
    KIMI_VISION,
    LLAMA4_VISION,
    QWEN2_VISION,
    QWEN2_VL,
    QWEN3_VL,
    WAN,
    angles,
    chunked,
    globally,
    interleaved,
    restarting,
)
from tests.mutants._case import wrong
from tests.mutants._parts import swap_half, turn_half, turn_pairs


def qwen2(x, positions, axis):
    """Qwen2-VL with another axis map."""
    return turn_half(x, angles(positions, axis, globally(64, 1e6)))


def qwen3(x, positions, axis):
    """Qwen3-VL with another axis map."""
    return turn_half(x, angles(positions, axis, globally(64, 5e6)))


# --- sections ------------------------------------------------------------------------------------


@wrong("sections", encoding=QWEN2_VL, thread="kekzl/imp#1174")
def mrope_time_turns_every_pair(x, positions):
    """Single-axis rotation by the temporal position."""
    return qwen2(x, positions, np.zeros(64, int))


@wrong("sections", encoding=QWEN3_VL, thread="kekzl/imp#1174", held_out=True)
def mrope_width_turns_every_pair(x, positions):
    """Single-axis rotation by the last axis."""
    return qwen3(x, positions, np.full(64, 2))


@wrong("sections", encoding=QWEN3_VL, thread="alibaba/MNN#4133")
def mrope_chunked_for_interleaved(x, positions):
    """Consecutive sections in a model that interleaves them."""
    return qwen3(x, positions, chunked((24, 20, 20)))


@wrong("sections", encoding=QWEN2_VL, thread="Blaizzy/mlx-vlm#576")
def mrope_interleaved_for_chunked(x, positions):
    """Interleaved sections in a model with consecutive ones."""
    return qwen2(x, positions, interleaved((16, 24, 24)))


@wrong(
    "sections",
    "axis-order",
    encoding=QWEN3_VL,
    thread="vllm-project/vllm-gaudi#1437",
    held_out=True,
)
def mrope_interleaved_from_the_wrong_pair(x, positions):
    """The pattern starts with height: h w t h w t."""
    axis = np.zeros(64, int)
    axis[0:60:3], axis[1:60:3] = 1, 2
    return qwen3(x, positions, axis)


@wrong("sections", encoding=QWEN2_VL, thread="class: section sizes in the wrong order")
def mrope_section_sizes_reversed(x, positions):
    """Sections of 24, 24, 16 pairs instead of 16, 24, 24."""
    return qwen2(x, positions, chunked((24, 24, 16)))


@wrong("sections", encoding=QWEN3_VL, thread="class: section of another model size", held_out=True)
def mrope_sizes_of_another_model(x, positions):
    """Interleaves 16, 24, 24 pairs instead of 24, 20, 20."""
    return qwen3(x, positions, interleaved((16, 24, 24)))


@wrong(
    "sections",
    "mixed-layout",
    "not-a-rotation",
    encoding=QWEN2_VL,
    thread="class: sizes doubled for the list doubled",
)
def mrope_section_times_two(x, positions):
    """Splits cat(f, f) into 32, 48, 48 channels, so the two channels of a pair disagree."""
    axis = np.repeat(np.arange(3), (32, 48, 48))
    a = angles(positions, axis, np.tile(globally(64, 1e6), 2))
    return x * np.cos(a) + swap_half(x) * np.sin(a)


@wrong("sections", encoding=QWEN2_VL, thread="class: positions of the axes added", held_out=True)
def mrope_sum_of_the_positions(x, positions):
    """Every pair turns by the sum of the three positions."""
    total = np.asarray(positions).sum(axis=0, keepdims=True)
    return qwen2(x, total, np.zeros(64, int))


@wrong("rotary-dim", "sections", encoding=QWEN2_VL, thread="class: last pairs left out")
def mrope_last_pairs_not_rotated(x, positions):
    """Sections of 16, 24, 16: the last eight pairs do not turn."""
    w = globally(64, 1e6)
    w[56:] = 0.0
    return turn_half(x, angles(positions, chunked((16, 24, 24)), w))


@wrong("rotary-dim", encoding=GLM_V, thread="AI-Hypercomputer/maxtext#4615")
def mrope_partial_factor_ignored(x, positions):
    """Rotates the whole head, sections doubled, where half of it is declared."""
    return turn_pairs(x, angles(positions, chunked((16, 24, 24)), globally(64)))


@wrong("sections", encoding=ERNIE, thread="class: chunked h, w, t for alternating h and w")
def ernie_chunked(x, positions):
    """22 pairs of height, then 22 of width, then time."""
    axis = np.repeat([1, 2, 0], (22, 22, 20))
    return turn_pairs(x, angles(positions, axis, globally(64, 5e5)))


@wrong(
    "sections",
    encoding=ERNIE,
    thread="class: sections read in the order t, h, w",
    held_out=True,
)
def ernie_time_first(x, positions):
    """Time takes the fastest pairs instead of the slowest."""
    axis = np.array([0] * 20 + [1, 2] * 22)
    return turn_pairs(x, angles(positions, axis, globally(64, 5e5)))


@wrong("sections", encoding=KIMI_VISION, thread="class: consecutive axes for alternating ones")
def kimi_consecutive_axes(x, positions):
    """Qwen's arrangement of the two axes: the first half of the pairs, then the second."""
    return turn_half(x, angles(positions, chunked((18, 18)), restarting((18, 18))))


@wrong("sections", "frequency-spacing", encoding=WAN, thread="class: remainder given to the end")
def wan_remainder_to_the_width(x, positions):
    """Splits 128 channels into 42, 42, 44 instead of 44, 42, 42."""
    sizes = (21, 21, 22)
    return turn_pairs(x, angles(positions, chunked(sizes), restarting(sizes)))


@wrong("sections", "frequency-spacing", encoding=FLUX, thread="class: equal thirds", held_out=True)
def flux_equal_sections(x, positions):
    """About a third of the pairs for each axis instead of 8, 28, 28."""
    sizes = (22, 21, 21)
    return turn_pairs(x, angles(positions, chunked(sizes), restarting(sizes)))


# --- the order of the axes -----------------------------------------------------------------------


@wrong("axis-order", encoding=QWEN2_VL, thread="class: height and width exchanged")
def mrope_height_and_width_exchanged(x, positions):
    """The second section follows the width, the third the height."""
    return qwen2(x, positions, np.repeat([0, 2, 1], (16, 24, 24)))


@wrong("axis-order", encoding=QWEN3_VL, thread="class: height and width exchanged", held_out=True)
def mrope_height_and_width_exchanged_in_the_pattern(x, positions):
    """t w h t w h ... for t h w t h w ..."""
    return qwen3(x, positions, np.array([0, 2, 1])[interleaved((24, 20, 20))])


@wrong("axis-order", encoding=QWEN2_VISION, thread="huggingface/pytorch-image-models#2541")
def vision_height_and_width_exchanged(x, positions):
    """Takes (h, w) for (x, y)."""
    return turn_half(x, angles(positions, chunked((20, 20))[::-1], restarting((20, 20))))


@wrong("axis-order", encoding=FLUX, thread="class: (id, x, y) for (id, y, x)")
def flux_height_and_width_exchanged(x, positions):
    """Rows and columns trade places."""
    axis = np.repeat([0, 2, 1], (8, 28, 28))
    return turn_pairs(x, angles(positions, axis, restarting((8, 28, 28))))


@wrong("axis-order", encoding=HUNYUAN_VL, thread="class: (p, t, h, w) for (p, w, h, t)")
def four_axes_in_another_order(x, positions):
    """The last three of four axes in reverse."""
    axis = np.repeat([0, 3, 2, 1], 16)
    return turn_half(x, angles(positions, axis, globally(64)))


@wrong("axis-order", encoding=ERNIE, thread="class: w, h for h, w", held_out=True)
def ernie_height_and_width_exchanged(x, positions):
    """Width takes the even pairs."""
    axis = np.array([0, 2, 1])[ERNIE_MAP]
    return turn_pairs(x, angles(positions, axis, globally(64, 5e5)))


# --- positions -----------------------------------------------------------------------------------


@wrong("position-origin", encoding=LLAMA4_VISION, thread="trap: the grid starts at one (Llama 4)")
def llama4_grid_from_zero(x, positions):
    """Leaves out the offset of one."""
    return turn_pairs(x, angles(positions, chunked((22, 22)), restarting((22, 22))))


@wrong("position-origin", encoding=QWEN2_VISION, thread="class: one axis counted from one")
def vision_columns_from_one(x, positions):
    """Counts columns from one and rows from zero."""
    p = np.asarray(positions) + np.array([0, 1])[:, None, None]
    return turn_half(x, angles(p, chunked((20, 20)), restarting((20, 20))))


@wrong(
    "position-origin",
    encoding=QWEN2_VL,
    thread="class: one axis counted from one",
    held_out=True,
)
def mrope_frames_from_one(x, positions):
    """The temporal axis starts at one."""
    p = np.asarray(positions) + np.array([1, 0, 0])[:, None, None]
    return qwen2(x, p, chunked((16, 24, 24)))


@wrong(
    "sign",
    "position-scale",
    encoding=QWEN2_VISION,
    thread="class: rows counted upwards",
    held_out=True,
)
def vision_rows_upwards(x, positions):
    """The vertical axis turns backwards."""
    p = np.asarray(positions) * np.array([-1, 1])[:, None, None]
    return turn_half(x, angles(p, chunked((20, 20)), restarting((20, 20))))


@wrong("state", encoding=QWEN2_VL, thread="lucidrains/rotary-embedding-torch#11")
class MropeCachedByTime:
    """The cached angles depend on the temporal positions only."""

    def __init__(self):
        self.cache = {}

    def __call__(self, x, positions):
        p = np.asarray(positions)
        key = p.shape, p[0].tobytes()
        if key not in self.cache:
            self.cache[key] = angles(p, chunked((16, 24, 24)), globally(64, 1e6))
        return turn_half(x, self.cache[key])


@wrong(
    "row-offset",
    "position-axis",
    encoding=QWEN3_VL,
    thread="class: positions of the first row for the whole batch",
    held_out=True,
)
def mrope_first_row_for_all(x, positions):
    """Every row of the batch gets the positions of the first."""
    return qwen3(x, np.asarray(positions)[:, :1], interleaved((24, 20, 20)))
