"""Functions that compute the output of attention."""

import numpy as np

from tests.mutants._case import alibi, correct, rope, wrong

NAME = "attention"
#: DeepSeek-V4 in small: one tensor is key and value, its last channels rotate in pairs.
V4 = {
    "attention": "Attention",
    "encoding": rope(24, "interleaved", rotary_dim=8, rotary_start=16),
    "values": "shared",
    "sinks": True,
}
PLAIN = rope(16)


def turned(x, positions, sign=1, *, start=16, half=False):
    """The 8 channels from `start` on, rotated by sign * positions; x is (B, H, S, 24)."""
    at = sign * positions[:, None] * 10000.0 ** (-np.arange(4) / 4)
    cos, sin = np.cos(at).astype(x.dtype), np.sin(at).astype(x.dtype)
    tail = x[..., start : start + 8]
    one, two = (tail[..., :4], tail[..., 4:]) if half else (tail[..., ::2], tail[..., 1::2])
    pair = one * cos - two * sin, two * cos + one * sin
    made = np.concatenate(pair, -1) if half else np.stack(pair, -1).reshape(tail.shape)
    return np.concatenate([x[..., :start], made, x[..., start + 8 :]], axis=-1)


def softmax(logits, sinks=None):
    """The weights of the keys up to the query, with a sink for each head if there are sinks."""
    n_q, n_k = logits.shape[-2:]
    logits = np.where(np.tri(n_q, n_k, n_k - n_q, dtype=bool), logits, -np.inf)
    if sinks is not None:
        sink = np.broadcast_to(sinks[:, None, None], (*logits.shape[:-1], 1))
        logits = np.concatenate([logits, sink], axis=-1)
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True))[..., :n_k]


def v4(q, kv, q_at, k_at, sinks, *, value=1, back=-1, scale=24**-0.5, start=16, half=False):
    """Attention of DeepSeek-V4, with the rotations of values and output as parameters."""
    k = turned(kv, k_at)
    a = softmax(np.float32(scale) * turned(q, q_at) @ k.swapaxes(-1, -2), sinks)
    o = a @ (k if value == 1 else turned(kv, k_at, value))
    return turned(o, q_at, back, start=start, half=half)


@correct(surface=NAME, encoding=V4, thread="huggingface/transformers#45643")
def attention_with_shared_values(q, k, v, q_at, k_at, sinks):
    """One rotated tensor is key and value; the output is rotated back."""
    return v4(q, k, q_at, k_at, sinks)


@wrong("output-rotation", surface=NAME, encoding=V4, thread="AMD-AGI/Primus#928")
def attention_not_rotated_back(q, k, v, q_at, k_at, sinks):
    """The output keeps the rotation of the values."""
    return v4(q, k, q_at, k_at, sinks, back=0)


@wrong("output-rotation", surface=NAME, encoding=V4, thread="class: sin instead of -sin")
def attention_rotated_on(q, k, v, q_at, k_at, sinks):
    """The output is rotated by +p."""
    return v4(q, k, q_at, k_at, sinks, back=1)


@wrong("value-rotation", surface=NAME, encoding=V4, thread="class: values cached before RoPE")
def attention_with_plain_values(q, k, v, q_at, k_at, sinks):
    """The values are the keys before their rotation; the output is rotated back."""
    return v4(q, k, q_at, k_at, sinks, value=0)


@wrong("output-rotation", surface=NAME, encoding=V4, thread="class: x[..., :rd] for x[..., -rd:]")
def attention_rotated_back_in_front(q, k, v, q_at, k_at, sinks):
    """The first channels of the output are rotated back, not the last ones."""
    return v4(q, k, q_at, k_at, sinks, start=0)


@wrong("layout", surface=NAME, encoding=V4, thread="hw-native-sys/pypto-lib#186")
def attention_rotated_back_in_halves(q, k, v, q_at, k_at, sinks):
    """The output is rotated back in half-split pairs."""
    return v4(q, k, q_at, k_at, sinks, half=True)


@wrong("sinks", surface=NAME, encoding=V4, thread="class: a kernel without sinks")
def attention_without_sinks(q, k, v, q_at, k_at, sinks):
    """The sinks are left out."""
    return v4(q, k, q_at, k_at, None)


@wrong("softmax-scale", surface=NAME, encoding=V4, thread="class: the scale of 8 channels")
def attention_scaled_by_the_rotated_channels(q, k, v, q_at, k_at, sinks):
    """The scale is that of the rotated channels alone."""
    return v4(q, k, q_at, k_at, sinks, scale=8**-0.5)


def grouped(q, k, v, q_at, k_at, *, spread=np.repeat):
    """Attention with RoPE and fewer key heads than query heads."""
    groups = q.shape[1] // k.shape[1]
    angle = 10000.0 ** (-np.arange(8) / 8)

    def turn(x, at):
        cos, sin = np.cos(at[:, None] * angle), np.sin(at[:, None] * angle)
        one, two = x[..., :8], x[..., 8:]
        return np.concatenate([one * cos - two * sin, two * cos + one * sin], -1).astype(x.dtype)

    k, v = spread(turn(k, k_at), groups, axis=1), spread(v, groups, axis=1)
    return softmax(np.float32(0.25) * turn(q, q_at) @ k.swapaxes(-1, -2)) @ v


@correct(surface=NAME, encoding=PLAIN, thread="arXiv:2305.13245")
def attention_in_groups(*call):
    """Each key head is repeated for the query heads of its group."""
    return grouped(*call)


@wrong("key-heads", surface=NAME, encoding=PLAIN, thread="class: tile for repeat_interleave")
def attention_in_tiles(*call):
    """The key heads are tiled: query head h reads key head h % H_kv."""

    def tiled(x, groups, axis):
        return np.tile(x, (1, groups, 1, 1))

    return grouped(*call, spread=tiled)


@wrong("bias-missing", surface=NAME, encoding=alibi(4), thread="class: ALiBi dropped by a kernel")
def attention_without_its_bias(q, k, v, q_at, k_at):
    """Attention without the declared bias."""
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, group, axis=1) for x in (k, v))
    return softmax(np.float32(q.shape[-1] ** -0.5) * q @ k.swapaxes(-1, -2)) @ v
