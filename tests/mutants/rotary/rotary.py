"""Wrong rotary encodings: pairing, direction, slice."""

import numpy as np

from tests.mutants._case import rope, wrong
from tests.mutants._parts import (
    inv_freq,
    over_heads,
    phase,
    swap_half,
    swap_pairs,
    turn_half,
    turn_pairs,
)

# --- pairing -------------------------------------------------------------------------------------


@wrong("layout", encoding=rope(64, "interleaved"), thread="1bit-MONSTER/1bit-MONSTER#2418")
def half_split_where_pairs_are_adjacent(x, positions):
    """Rotates (j, j + d/2) although the reference rotates (2j, 2j + 1)."""
    return turn_half(x, phase(positions, inv_freq(x.shape[-1])))


@wrong("layout", encoding=rope(128, "half", base=500000.0), thread="Integral2u/SharpMind#4")
def adjacent_pairs_for_every_architecture(x, positions):
    """Rotates (2j, 2j + 1) for a half-split model."""
    return turn_pairs(x, phase(positions, inv_freq(x.shape[-1], 500000.0)))


@wrong("layout", encoding=rope(80, "half", rotary_dim=32), thread="Integral2u/SharpMind#4")
def adjacent_pairs_inside_the_slice(x, positions):
    """Rotates adjacent pairs inside a partial slice that is half-split."""
    y = turn_pairs(x[..., :32], phase(positions, inv_freq(32)))
    return np.concatenate([y, x[..., 32:]], axis=-1)


@wrong(
    "layout",
    encoding=rope(96, "interleaved", rotary_dim=24),
    thread="NVIDIA/TensorRT-LLM#16378",
    tensor_layout="bshd",
)
def half_split_slice_in_bshd(x, positions):
    """Half-split rotation of an interleaved slice, heads after the sequence."""
    a = np.asarray(positions, np.float32)[..., None] * inv_freq(24)
    cos, sin = np.cos(a)[..., None, :], np.sin(a)[..., None, :]
    x1, x2 = x[..., :12], x[..., 12:24]
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin, x[..., 24:]], axis=-1)


@wrong("layout", encoding=rope(64, "half"), thread="class: inverted style flag (Paddle)")
class NeoxFlagMeansAdjacent:
    """A flag named after NeoX that selects adjacent pairs, left at its default."""

    def __init__(self, use_neox_rotary_style=True):
        self.turn = turn_pairs if use_neox_rotary_style else turn_half

    def __call__(self, x, positions):
        return self.turn(x, phase(positions, inv_freq(x.shape[-1])))


@wrong(
    "layout",
    encoding=rope(64, "half", base=1000000.0),
    thread="class: pairing read from the wrong end",
    held_out=True,
)
def mirrored_pairs(x, positions):
    """Pairs channel j with channel d - 1 - j."""
    y = turn_half(
        np.concatenate([x[..., :32], x[..., :31:-1]], axis=-1),
        phase(positions, inv_freq(64, 1000000.0)),
    )
    return np.concatenate([y[..., :32], y[..., :31:-1]], axis=-1)


@wrong(
    "layout",
    encoding=rope(64, "half"),
    thread="class: blockwise half-split (ChatGLM-6B) taken for half-split",
    held_out=True,
)
def pairs_inside_each_half(x, positions):
    """Keeps the 32 frequencies but pairs (j, j + d/4) inside each half of the head."""
    a = phase(positions, inv_freq(64))
    low = turn_half(x[..., :32], a[..., :16])
    return np.concatenate([low, turn_half(x[..., 32:], a[..., 16:])], axis=-1)


@wrong(
    "layout",
    "proportional",
    "rotary-dim",
    encoding=rope(64, "half", rotary_dim=32),
    thread="zml/zml#660",
    held_out=True,
)
def slice_paired_across_the_whole_head(x, positions):
    """Partial rotary whose pairs are (j, j + head_dim/2) instead of (j, j + rotary_dim/2)."""
    a = phase(positions, inv_freq(32))
    cos, sin = np.cos(a), np.sin(a)
    y = x.copy()
    y[..., :16] = x[..., :16] * cos - x[..., 32:48] * sin
    y[..., 32:48] = x[..., 32:48] * cos + x[..., :16] * sin
    return y


@wrong("proportional", encoding=rope(64, "half", rotary_dim=16), thread="zml/zml#660")
def proportional_instead_of_partial(x, positions):
    """Zeroes the upper frequencies of the full head instead of rotating a leading slice."""
    w = inv_freq(64)
    w[8:] = 0.0
    return turn_half(x, phase(positions, w))


@wrong("mixed-layout", encoding=rope(64, "interleaved"), thread="huggingface/transformers#47328")
def half_tables_with_adjacent_swap(x, positions):
    """cos and sin are cat(f, f) while the rotation swaps adjacent channels."""
    a = phase(positions, inv_freq(x.shape[-1]))
    a = np.concatenate([a, a], axis=-1)
    return x * np.cos(a) + swap_pairs(x) * np.sin(a)


@wrong("mixed-layout", encoding=rope(128, "half"), thread="xiangking/ark-nlp#47")
def repeated_tables_with_half_swap(x, positions):
    """cos and sin repeat each element twice while the rotation splits in the middle."""
    a = np.repeat(phase(positions, inv_freq(x.shape[-1])), 2, axis=-1)
    return x * np.cos(a) + swap_half(x) * np.sin(a)


@wrong(
    "mixed-layout",
    encoding=rope(64, "interleaved", rotary_dim=32, base=1000000.0),
    thread="xiangking/ark-nlp#47",
    held_out=True,
)
def tiled_slice_tables_with_adjacent_swap(x, positions):
    """np.tile where np.repeat was meant, inside a partial slice."""
    a = np.asarray(positions, np.float32)[..., None] * inv_freq(32, 1000000.0)
    cos = over_heads(np.tile(np.cos(a), 2))
    sin = over_heads(np.tile(np.sin(a), 2))
    part = x[..., :32]
    return np.concatenate([part * cos + swap_pairs(part) * sin, x[..., 32:]], axis=-1)


@wrong(
    "output-layout", strict=True, encoding=rope(64, "interleaved"), thread="vllm-project/vllm#26995"
)
def reads_pairs_writes_halves(x, positions):
    """De-interleaves, rotates half-split and never interleaves back."""
    x = np.concatenate([x[..., 0::2], x[..., 1::2]], axis=-1)
    return turn_half(x, phase(positions, inv_freq(x.shape[-1])))


@wrong(
    "output-layout",
    strict=True,
    encoding=rope(96, "half"),
    thread="class: view_as_real on half-split data",
)
def reads_halves_writes_pairs(x, positions):
    """Forms x1 + i x2 from the two halves and stores the product adjacent."""
    half = x.shape[-1] // 2
    z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * phase(positions, inv_freq(96)))
    return np.stack([z.real, z.imag], axis=-1).reshape(x.shape).astype(x.dtype)


@wrong(
    "output-layout",
    strict=True,
    encoding=rope(128, "interleaved", rotary_dim=64, base=50000.0),
    thread="vllm-project/vllm#26995",
    held_out=True,
)
def slice_written_in_halves(x, positions):
    """Partial rotary that reads adjacent pairs and writes the slice half-split."""
    a = phase(positions, inv_freq(64, 50000.0))
    cos, sin = np.cos(a), np.sin(a)
    even, odd = x[..., 0:64:2], x[..., 1:64:2]
    return np.concatenate([even * cos - odd * sin, odd * cos + even * sin, x[..., 64:]], axis=-1)


# --- direction -----------------------------------------------------------------------------------


@wrong("sign", encoding=rope(64, "half"), thread="class: transposed rotation matrix")
def rotates_clockwise(x, positions):
    """Applies the transpose of the rotation."""
    a = phase(positions, inv_freq(x.shape[-1]))
    cos, sin = np.cos(a), np.sin(a)
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([x1 * cos + x2 * sin, x2 * cos - x1 * sin], axis=-1)


@wrong("sign", encoding=rope(32, "interleaved"), thread="class: conjugated phase")
def conjugated_complex_factor(x, positions):
    """Multiplies by exp(-i angle)."""
    z = x[..., 0::2] + 1j * x[..., 1::2]
    z = z * np.conj(np.exp(1j * phase(positions, inv_freq(32)))).astype(np.complex64)
    return np.stack([z.real, z.imag], axis=-1).reshape(x.shape)


@wrong(
    "sign",
    encoding=rope(64, "interleaved", sign=-1),
    thread="class: declared negative angle dropped in a port",
    held_out=True,
)
def declared_negative_rotates_positive(x, positions):
    """Drops the minus of a time encoding declared with angle -p w."""
    return turn_pairs(x, phase(positions, inv_freq(64)))


@wrong("sign", surface="cos_sin", encoding=rope(64, "half"), thread="class: conjugated phase")
def sine_table_negated(positions):
    """Tables of exp(-i angle)."""
    z = np.exp(-1j * (np.asarray(positions, np.float32)[:, None] * inv_freq(64)))
    return z.real.astype(np.float32), z.imag.astype(np.float32)


@wrong(
    "sign",
    encoding=rope(64, "half", rotary_dim=32),
    thread="class: rotate_half written (x2, -x1)",
)
def rotate_half_with_the_minus_on_the_other_half(x, positions):
    """Partial rotary with rotate_half returning (x2, -x1)."""
    a = phase(positions, inv_freq(32))
    a = np.concatenate([a, a], axis=-1)
    part = x[..., :32]
    swapped = np.concatenate([part[..., 16:], -part[..., :16]], axis=-1)
    return np.concatenate([part * np.cos(a) + swapped * np.sin(a), x[..., 32:]], axis=-1)


# --- slice ---------------------------------------------------------------------------------------


@wrong("rotary-dim", encoding=rope(128, "half", rotary_dim=64), thread="ml-explore/mlx-lm#1698")
def partial_factor_ignored(x, positions):
    """Rotates all 128 channels of a model that rotates 64."""
    return turn_half(x, phase(positions, inv_freq(x.shape[-1])))


@wrong("rotary-dim", encoding=rope(64, "interleaved", rotary_dim=32), thread="zml/zml#660")
def partial_factor_applied_twice(x, positions):
    """Rotates 16 channels of a model that rotates 32."""
    y = turn_pairs(x[..., :16], phase(positions, inv_freq(16)))
    return np.concatenate([y, x[..., 16:]], axis=-1)


@wrong(
    "rotary-dim",
    encoding=rope(64, "half", rotary_dim=32),
    thread="class: trailing slice (MLA order) for a leading one",
)
def trailing_slice(x, positions):
    """Rotates the last 32 channels instead of the first 32."""
    y = turn_half(x[..., 32:], phase(positions, inv_freq(32)))
    return np.concatenate([x[..., :32], y], axis=-1)


@wrong(
    "rotary-dim",
    encoding=rope(64, "interleaved"),
    thread="class: library default rotary width d/2",
)
def default_width_is_half_the_head(x, positions):
    """Rotates half of a head that is declared fully rotary."""
    y = turn_pairs(x[..., :32], phase(positions, inv_freq(32)))
    return np.concatenate([y, x[..., 32:]], axis=-1)


@wrong(
    "rotary-dim",
    encoding=rope(80, "half", rotary_dim=24),
    thread="class: rotary width rounded to a tile size",
    held_out=True,
)
def width_rounded_up_to_a_multiple_of_sixteen(x, positions):
    """Rotates 32 channels where 24 are declared."""
    width = -(-24 // 16) * 16
    y = turn_half(x[..., :width], phase(positions, inv_freq(width)))
    return np.concatenate([y, x[..., width:]], axis=-1)


@wrong(
    "rotary-dim",
    "proportional",
    "frequency-spacing",
    encoding=rope(64, "interleaved"),
    thread="class: loop bound off by one",
    held_out=True,
)
def last_pair_not_rotated(x, positions):
    """The loop over pairs stops one early."""
    cos = np.cos(phase(positions, inv_freq(64)))
    sin = np.sin(phase(positions, inv_freq(64)))
    y = x.copy()
    for j in range(x.shape[-1] // 2 - 1):
        c, s = cos[..., j], sin[..., j]
        y[..., 2 * j] = x[..., 2 * j] * c - x[..., 2 * j + 1] * s
        y[..., 2 * j + 1] = x[..., 2 * j] * s + x[..., 2 * j + 1] * c
    return y


@wrong(
    "proportional",
    encoding=rope(128, "half", base=1000000.0, rotary_dim=32),
    thread="zml/zml#660",
    held_out=True,
)
def proportional_quarter(x, positions):
    """Gemma-style proportional rotation of a quarter of the pairs, declared as a leading slice."""
    a = phase(positions, np.where(np.arange(64) < 16, inv_freq(128, 1000000.0), np.float32(0.0)))
    a = np.concatenate([a, a], axis=-1)
    return x * np.cos(a) + swap_half(x) * np.sin(a)


@wrong(
    "layout",
    surface="cos_sin",
    encoding=rope(64, "half"),
    thread="huggingface/transformers#47328",
)
def tables_repeated_for_the_other_pairs(positions):
    """Tables of full width with every column twice, where half-split pairs need them end to end."""
    a = np.repeat(np.asarray(positions, np.float32)[:, None] * inv_freq(64), 2, axis=-1)
    return np.cos(a), np.sin(a)
