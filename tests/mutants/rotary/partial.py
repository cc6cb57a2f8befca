"""Wrong rotary slices: width, place, denominators, MLA, and proportional rotation."""

import numpy as np

from tests.mutants._case import rope, schedule, wrong
from tests.mutants._parts import inv_freq, phase, turn_half, turn_pairs

NEOX = rope(96, rotary_dim=24)
PHI_2 = rope(80, rotary_dim=32)
MIMO = rope(192, base=1e6, rotary_dim=64)
MLA = rope(192, "interleaved", rotary_dim=64, rotary_start=128)
MLA_HF = {**MLA, "output_layout": "half"}
GEMMA = rope(256, base=1e6, scaling=schedule("Proportional", fraction=0.25))
GEMMA_8 = rope(256, base=1e6, scaling=schedule("Proportional", fraction=0.25, factor=8.0))


def leading(x, y):
    """Put y in place of the first channels of x."""
    return np.concatenate([y, x[..., y.shape[-1] :]], axis=-1)


def trailing(x, y):
    """Put y in place of the last channels of x."""
    return np.concatenate([x[..., : -y.shape[-1]], y], axis=-1)


# --- leading slices ------------------------------------------------------------------------------


@wrong("rotary-dim", encoding=NEOX, thread="ml-explore/mlx-lm#1698")
def neox_over_the_whole_head(x, positions):
    """Rotates 96 channels of a model that rotates 24."""
    return turn_half(x, phase(positions, inv_freq(96)))


@wrong(
    "rotary-dim",
    "shape",
    surface="frequencies",
    encoding=PHI_2,
    thread="ml-explore/mlx-lm#1698",
    held_out=True,
)
def phi_frequencies_of_the_whole_head():
    """Returns 40 frequencies where 16 are used."""
    return inv_freq(80)


@wrong("denominator", encoding=PHI_2, thread="class: head_dim in the exponent of a slice")
def phi_with_head_dim_denominators(x, positions):
    """Frequencies base^(-2j/80) in a slice of 32."""
    return leading(x, turn_half(x[..., :32], phase(positions, inv_freq(80)[:16])))


@wrong("rotary-dim", encoding=NEOX, thread="class: trailing slice for a leading one")
def neox_rotates_the_last_channels(x, positions):
    """Rotates the last 24 channels."""
    return trailing(x, turn_half(x[..., -24:], phase(positions, inv_freq(24))))


@wrong(
    "layout",
    "proportional",
    "rotary-dim",
    encoding=NEOX,
    thread="zml/zml#660",
)
def neox_paired_across_the_head(x, positions):
    """Pairs channel j with j + 48 instead of j + 12."""
    a = phase(positions, inv_freq(24))
    cos, sin = np.cos(a), np.sin(a)
    y = x.copy()
    y[..., :12] = x[..., :12] * cos - x[..., 48:60] * sin
    y[..., 48:60] = x[..., 48:60] * cos + x[..., :12] * sin
    return y


@wrong("rotary-dim", encoding=MIMO, thread="class: 192 * 0.334 rounded up", held_out=True)
def width_rounded_up(x, positions):
    """int(ceil(192 * 0.334 / 2)) * 2 = 66 channels instead of 64."""
    return leading(x, turn_half(x[..., :66], phase(positions, inv_freq(66, 1e6))))


@wrong("proportional", encoding=MIMO, thread="zml/zml#660", held_out=True)
def proportional_third(x, positions):
    """Rotates the fastest third of all pairs of the head, paired across it."""
    w = np.where(np.arange(96) < 32, inv_freq(192, 1e6), np.float32(0.0))
    return turn_half(x, phase(positions, w))


@wrong(
    "output-layout",
    strict=True,
    encoding=PHI_2,
    thread="class: concat([rest, rotated])",
)
def slice_returned_behind_the_rest(x, positions):
    """Joins the two parts the wrong way round."""
    y = turn_half(x[..., :32], phase(positions, inv_freq(32)))
    return np.concatenate([x[..., 32:], y], axis=-1)


@wrong(
    "rotary-dim",
    "amplitude",
    "not-a-rotation",
    encoding=NEOX,
    thread="class: output buffer of zeros, rest not copied",
    held_out=True,
)
def rest_of_the_head_is_zero(x, positions):
    """Channels outside the slice come back as zeros."""
    return leading(np.zeros_like(x), turn_half(x[..., :24], phase(positions, inv_freq(24))))


# --- MLA: the slice is at the end ----------------------------------------------------------------


@wrong("rotary-dim", encoding=MLA, thread="class: leading slice for a trailing one (MLA)")
def mla_rotates_the_first_channels(x, positions):
    """Rotates the first 64 channels of [nope | rope]."""
    return leading(x, turn_pairs(x[..., :64], phase(positions, inv_freq(64))))


@wrong("rotary-dim", encoding=MLA, thread="class: slice starts at rope_head_dim", held_out=True)
def mla_slice_starts_at_its_own_width(x, positions):
    """Rotates channels 64..127 instead of 128..191."""
    y = x.copy()
    y[..., 64:128] = turn_pairs(x[..., 64:128], phase(positions, inv_freq(64)))
    return y


@wrong("rotary-dim", encoding=MLA, thread="class: nope and rope joined before the rotation")
def mla_over_the_whole_head(x, positions):
    """Rotates all 192 channels."""
    return turn_pairs(x, phase(positions, inv_freq(192)))


@wrong("layout", encoding=MLA, thread="1bit-MONSTER/1bit-MONSTER#2418")
def mla_in_halves(x, positions):
    """The indexer's half-split rotation on the main attention's channels."""
    return trailing(x, turn_half(x[..., 128:], phase(positions, inv_freq(64))))


@wrong("output-layout", strict=True, encoding=MLA, thread="vllm-project/vllm#26995")
def mla_written_in_halves(x, positions):
    """Reads adjacent pairs and writes halves."""
    part = np.concatenate([x[..., 128::2], x[..., 129::2]], axis=-1)
    return trailing(x, turn_half(part, phase(positions, inv_freq(64))))


@wrong(
    "output-layout", strict=True, encoding=MLA_HF, thread="vllm-project/vllm#26995", held_out=True
)
def mla_written_in_pairs(x, positions):
    """Writes adjacent pairs where halves are declared."""
    return trailing(x, turn_pairs(x[..., 128:], phase(positions, inv_freq(64))))


@wrong("layout", encoding=MLA_HF, thread="class: the permutation before the rotation left out")
def mla_read_and_written_in_halves(x, positions):
    """Forgets to de-interleave what it reads."""
    return trailing(x, turn_half(x[..., 128:], phase(positions, inv_freq(64))))


@wrong("layout", "output-layout", encoding=MLA_HF, thread="class: permutation undone, not done")
def mla_interleaves_instead_of_deinterleaving(x, positions):
    """Applies the inverse permutation, halves to pairs, before a half-split rotation."""
    part = np.stack(np.split(x[..., 128:], 2, axis=-1), axis=-1).reshape(*x.shape[:-1], 64)
    return trailing(x, turn_half(part, phase(positions, inv_freq(64))))


# --- proportional --------------------------------------------------------------------------------


@wrong(
    "proportional",
    "rotary-dim",
    "denominator",
    encoding=GEMMA,
    thread="zml/zml#660",
)
def partial_instead_of_proportional(x, positions):
    """Rotates a leading slice of 64 channels with denominators of its own."""
    return leading(x, turn_half(x[..., :64], phase(positions, inv_freq(64, 1e6))))


@wrong(
    "denominator",
    "proportional",
    "base",
    encoding=GEMMA,
    thread="zml/zml#660",
)
def proportional_with_denominators_of_the_slice(x, positions):
    """Spreads the whole range of frequencies over the pairs that rotate."""
    w = np.concatenate([inv_freq(64, 1e6), np.zeros(96, np.float32)])
    return turn_half(x, phase(positions, w))


@wrong(
    "proportional",
    "scaling-missing",
    "rotary-dim",
    encoding=GEMMA,
    thread="class: partial_rotary_factor not read",
)
def proportional_fraction_ignored(x, positions):
    """Rotates every pair."""
    return turn_half(x, phase(positions, inv_freq(256, 1e6)))


@wrong(
    "proportional",
    "scaling-parameter",
    "rotary-dim",
    surface="frequencies",
    encoding=GEMMA,
    thread="class: channels counted for pairs",
    held_out=True,
)
def proportional_of_twice_the_pairs():
    """Keeps int(p * D) pairs instead of int(p * D) / 2."""
    return np.where(np.arange(128) < 64, inv_freq(256, 1e6), np.float32(0.0))


@wrong(
    "scaling-parameter",
    "scaling-missing",
    "position-scale",
    encoding=GEMMA_8,
    thread="class: factor of a proportional schedule not read",
    held_out=True,
)
def proportional_factor_dropped(x, positions):
    """Leaves the pairs that rotate at full speed."""
    return turn_half(x, phase(positions, np.where(np.arange(128) < 32, inv_freq(256, 1e6), 0.0)))
