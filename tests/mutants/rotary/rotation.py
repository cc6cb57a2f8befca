"""Wrong rotary encodings: no rotation at all, or one with an amplitude."""

import numpy as np

from tests.mutants._case import rope, wrong
from tests.mutants._parts import inv_freq, over_heads, phase, turn_half, turn_pairs

# --- not a rotation ------------------------------------------------------------------------------


@wrong("not-a-rotation", encoding=rope(64, "half"), thread="class: minus lost in rotate_half")
def minus_missing(x, positions):
    """rotate_half without its minus."""
    x1, x2 = np.split(x, 2, axis=-1)
    a = phase(positions, inv_freq(64))
    a = np.concatenate([a, a], axis=-1)
    return x * np.cos(a) + np.concatenate([x2, x1], axis=-1) * np.sin(a)


@wrong(
    "not-a-rotation",
    encoding=rope(64, "interleaved"),
    thread="class: cosine used where the sine belongs",
)
def cosine_used_twice(x, positions):
    """The cross terms are multiplied by the cosine."""
    a = phase(positions, inv_freq(64))
    cos = np.cos(a)
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack([even * cos - odd * cos, odd * cos + even * cos], axis=-1).reshape(x.shape)


@wrong(
    "not-a-rotation",
    encoding=rope(128, "half", base=500000.0),
    thread="class: cosine rebuilt from the sine without its sign",
)
def cosine_always_positive(x, positions):
    """cos = sqrt(1 - sin^2)."""
    sin = np.sin(phase(positions, inv_freq(128, 500000.0)))
    cos = np.sqrt(1.0 - sin * sin)
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


@wrong(
    "not-a-rotation",
    encoding=rope(64, "half", rotary_dim=32),
    thread="class: second channel computed from the updated first",
)
def second_channel_uses_the_new_first(x, positions):
    """The in-order update of a copy reads a channel already rotated."""
    a = phase(positions, inv_freq(32))
    cos, sin = np.cos(a), np.sin(a)
    y = x.copy()
    y[..., :16] = y[..., :16] * cos - y[..., 16:32] * sin
    y[..., 16:32] = y[..., 16:32] * cos + y[..., :16] * sin
    return y


@wrong(
    "not-a-rotation",
    encoding=rope(64, "interleaved"),
    thread="class: reflection instead of rotation",
    held_out=True,
)
def reflects_the_pair(x, positions):
    """(x1 cos + x2 sin, x1 sin - x2 cos): norms are kept, orientation is not."""
    a = phase(positions, inv_freq(64))
    cos, sin = np.cos(a), np.sin(a)
    x1, x2 = x[..., 0::2], x[..., 1::2]
    return np.stack([x1 * cos + x2 * sin, x1 * sin - x2 * cos], axis=-1).reshape(x.shape)


@wrong(
    "not-a-rotation",
    surface="cos_sin",
    encoding=rope(64, "half"),
    thread="class: cosine rebuilt from the sine without its sign",
)
def absolute_cosine(positions):
    """The cosine table has lost its sign."""
    a = np.asarray(positions, np.float32)[:, None] * inv_freq(64)
    return np.abs(np.cos(a)), np.sin(a)


@wrong(
    "not-linear",
    "not-a-rotation",
    "amplitude",
    encoding=rope(64, "half"),
    thread="class: normalisation fused into the rotary kernel",
    held_out=True,
)
def normalises_long_vectors(x, positions):
    """Vectors longer than 20 are shortened to 20 before the rotation."""
    norm = np.sqrt(np.sum(x * x, axis=-1, keepdims=True))
    return turn_half(
        x * np.minimum(1.0, 20.0 / np.maximum(norm, 1e-6)), phase(positions, inv_freq(64))
    )


# --- amplitude -----------------------------------------------------------------------------------


@wrong(
    "amplitude",
    "attention-factor",
    "softmax-scale",
    encoding=rope(64, "half"),
    thread="class: softmax scale folded into the query twice",
)
def query_scale_folded_in(x, positions):
    """The output carries 1/sqrt(d)."""
    return turn_half(x, phase(positions, inv_freq(64))) / np.float32(8.0)


@wrong(
    "attention-factor",
    "amplitude",
    encoding=rope(128, "interleaved", base=1000000.0, scaling=4.0),
    thread="vllm-project/vllm#48351",
)
def attention_factor_without_yarn(x, positions):
    """cos and sin carry 0.1 ln(4) + 1 although only linear scaling is declared."""
    m = np.float32(0.1 * np.log(4.0) + 1.0)
    return turn_pairs(x, phase(positions, inv_freq(128, 1000000.0) / 4.0)) * m


@wrong(
    "amplitude",
    "attention-factor",
    surface="cos_sin",
    encoding=rope(64, "half"),
    thread="kekzl/imp#880",
)
def inflated_tables(positions):
    """Both tables are 1.261 times too large."""
    a = np.asarray(positions, np.float32)[:, None] * inv_freq(64)
    return np.float32(1.261) * np.cos(a), np.float32(1.261) * np.sin(a)


@wrong(
    "amplitude",
    "attention-factor",
    encoding=rope(96, "half", rotary_dim=48),
    thread="class: factor applied to pass-through channels as well",
    held_out=True,
)
def whole_head_scaled(x, positions):
    """One per cent on all channels, the unrotated ones included."""
    y = np.concatenate([turn_half(x[..., :48], phase(positions, inv_freq(48))), x[..., 48:]], -1)
    return y * np.float32(1.01)


@wrong(
    "amplitude",
    "not-a-rotation",
    encoding=rope(64, "interleaved"),
    thread="class: decay of another encoding left in (xPos on queries)",
    held_out=True,
)
def decays_with_position(x, positions):
    """Each pair shrinks slowly with the position."""
    zeta = (np.arange(0, 64, 2, dtype=np.float32) + 0.4 * 64) / (1.4 * 64)
    p = np.asarray(positions, np.float32)[..., None]
    scale = over_heads(np.repeat(zeta ** (p / 512.0), 2, axis=-1))
    return turn_pairs(x, phase(positions, inv_freq(64))) * scale


@wrong(
    "not-linear",
    "amplitude",
    encoding=rope(64, "interleaved"),
    thread="class: saturating cast of the input",
)
def input_saturates(x, positions):
    """Clips x to [-2, 2] on the way in."""
    return turn_pairs(np.clip(x, -2.0, 2.0), phase(positions, inv_freq(64)))


@wrong(
    "not-a-rotation",
    encoding=None,
    head_dim=64,
    thread="class: tail of a loop over blocks reads its first item again",
)
def tail_heads_read_the_first_again(x, positions):
    """Heads go in blocks of three; what is left over at the end gets the first head left over."""
    whole = x.shape[1] - x.shape[1] % 3
    x = np.concatenate([x[:, :whole], np.repeat(x[:, whole : whole + 1], x.shape[1] % 3, 1)], 1)
    return turn_half(x, phase(positions, inv_freq(64)))
