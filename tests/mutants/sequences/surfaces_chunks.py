"""Sequences that are fed chunk by chunk: wrong and right functions of `decode` and `key_cache`."""

import numpy as np

from tests.mutants._axes import QWEN2_VL, globally
from tests.mutants._case import correct, rope, schedule, wrong
from tests.mutants._parts import bf16, inv_freq, phase, turn_half, turn_pairs

DYNAMIC = rope(64, scaling=schedule("DynamicNTK", factor=2.0, max_position=512))
SHORT, LONG = [1.0 + 0.01 * k for k in range(32)], [1.0 + 0.9 * k for k in range(32)]
LONGROPE = rope(
    64,
    scaling=schedule(
        "LongRoPE", short_factor=SHORT, long_factor=LONG, original_max_position=1024, factor=4.0
    ),
)
LONGROPE_FACTOR = float(np.sqrt(1 + np.log(4.0) / np.log(1024)))


def half(x, positions, w=None):
    """Half-split pairs at positions (S,)."""
    return turn_half(x, phase(positions, inv_freq(64) if w is None else w))


def parts(x, chunks):
    """(start, chunk of x) one after the other."""
    start = 0
    for n in chunks:
        yield start, x[:, :, start : start + n]
        start += n


def joined(outputs):
    """The outputs of all chunks."""
    return np.concatenate(list(outputs), axis=2)


def dynamic(length):
    """Dynamic NTK frequencies at a length."""
    n = max(int(length), 512)
    return inv_freq(64, 10000.0 * (2.0 * n / 512 - 1) ** (64 / 62))


def longrope(x, positions, length):
    """LongRoPE with the list for a length."""
    w = inv_freq(64) / np.array(LONG if length > 1024 else SHORT, np.float32)
    return np.float32(LONGROPE_FACTOR) * half(x, positions, w)


# --- decode --------------------------------------------------------------------------------------


@wrong("decode-offset", surface="decode", encoding=rope(64), thread="keras-team/keras-hub#1544")
def decode_start_index_ignored(x, chunks):
    """Every chunk starts at 0."""
    return joined(half(part, np.arange(part.shape[2])) for _, part in parts(x, chunks))


@wrong("decode-offset", surface="decode", encoding=rope(64), thread="ml-explore/mlx-lm#1699")
def decode_cache_advanced_first(x, chunks):
    """The cache grows before the offset is read from it."""
    return joined(
        half(part, start + part.shape[2] + np.arange(part.shape[2]))
        for start, part in parts(x, chunks)
    )


@wrong("decode-offset", surface="decode", encoding=rope(64), thread="RobertCsordas/moeut#6")
def decode_counts_steps(x, chunks):
    """The offset is the number of steps, not of tokens."""
    return joined(
        half(part, step + np.arange(part.shape[2]))
        for step, (_, part) in enumerate(parts(x, chunks))
    )


@wrong("row-offset", surface="decode", encoding=rope(64), thread="ml-explore/mlx#3494")
def decode_first_row_only(x, chunks):
    """The one-token kernel writes the first row; the others keep what they were."""

    def step(start, part):
        y = half(part, start + np.arange(part.shape[2]))
        if part.shape[2] == 1:
            y[1:] = part[1:]
        return y

    return joined(step(start, part) for start, part in parts(x, chunks))


@wrong(
    "state",
    "decode-offset",
    surface="decode",
    encoding=rope(64, "interleaved"),
    thread="vllm-project/vllm#37884",
)
class DecodeNeverResets:
    """The next sequence goes on where the last one ended."""

    def __init__(self):
        self.start = 0

    def __call__(self, x, chunks):
        outputs = []
        for _, part in parts(x, chunks):
            p = self.start + np.arange(part.shape[2])
            outputs.append(turn_pairs(part, phase(p, inv_freq(64))))
            self.start += part.shape[2]
        return joined(outputs)


@wrong(
    "state",
    "decode-offset",
    surface="decode",
    encoding=rope(64),
    thread="lucidrains/rotary-embedding-torch#11",
)
def decode_table_kept_by_length(x, chunks):
    """A chunk of a length that was seen before gets the angles of that one."""
    kept = {}

    def step(start, part):
        n = part.shape[2]
        return half(part, kept.setdefault(n, start + np.arange(n)))

    return joined(step(start, part) for start, part in parts(x, chunks))


@wrong(
    "position-precision", surface="decode", encoding=rope(64), thread="keras-team/keras-hub#1544"
)
def decode_start_in_bfloat16(x, chunks):
    """The start index is cast to bfloat16."""
    return joined(
        half(part, bf16(start) + np.arange(part.shape[2])) for start, part in parts(x, chunks)
    )


@wrong(
    "scaling-parameter",
    surface="decode",
    encoding=DYNAMIC,
    thread="class: scaling sees the length of the chunk",
)
def decode_scaling_by_chunk(x, chunks):
    """Past the trained length the base grows with the chunk, not with the sequence."""
    return joined(
        half(part, start + np.arange(part.shape[2]), dynamic(part.shape[2]))
        for start, part in parts(x, chunks)
    )


@correct(surface="decode", encoding=rope(64), thread="keras-team/keras-hub#1544")
def decode_from_one_table(x, chunks):
    """All rows of one table, cut where the cache ends."""
    table = np.arange(x.shape[2], dtype=np.float32)[:, None] * inv_freq(64)
    return joined(
        turn_half(part, table[start : start + part.shape[2]]) for start, part in parts(x, chunks)
    )


@correct(surface="decode", encoding=rope(64, "interleaved"), thread="class: recurrence in float64")
def decode_by_recurrence(x, chunks):
    """The angle of a chunk's start is carried along as a unit complex number."""
    w = 10000.0 ** (-np.arange(32) / 32)
    outputs, start = [], 0
    for n in chunks:
        z = x[:, :, start : start + n]
        turn = np.exp(1j * start * w) * np.exp(1j * np.arange(n)[:, None] * w)
        y = (z[..., 0::2] + 1j * z[..., 1::2]) * turn
        outputs.append(np.stack([y.real, y.imag], axis=-1).reshape(z.shape).astype(np.float32))
        start += n
    return np.concatenate(outputs, axis=2)


@correct(surface="decode", encoding=DYNAMIC, thread="huggingface/transformers#25306")
def decode_dynamic(x, chunks):
    """The base grows with the sequence, and each chunk is rotated as at its own end."""
    return joined(
        half(part, start + np.arange(part.shape[2]), dynamic(start + part.shape[2]))
        for start, part in parts(x, chunks)
    )


@correct(surface="decode", encoding=QWEN2_VL, thread="class: text in a multimodal model")
def decode_text_after_mrope(x, chunks):
    """Text positions, the same on every axis."""
    w = globally(64, 1e6)
    return joined(
        half(part, start + np.arange(part.shape[2]), w) for start, part in parts(x, chunks)
    )


# --- key_cache -----------------------------------------------------------------------------------


@wrong(
    "stale-cache", surface="key_cache", encoding=LONGROPE, thread="huggingface/transformers#33129"
)
def cache_keeps_short_keys(k, chunks):
    """Keys of the prompt stay turned with the short factors."""
    return joined(
        longrope(part, start + np.arange(part.shape[2]), start + part.shape[2])
        for start, part in parts(k, chunks)
    )


@wrong("stale-cache", surface="key_cache", encoding=rope(64), thread="NeuraLegion/shainet#110")
def cache_rotated_again_every_step(k, chunks):
    """Rotated when it is inserted, and the whole cache again with every step."""
    cache = k[:, :, :0]
    for start, part in parts(k, chunks):
        new = half(part, start + np.arange(part.shape[2]))
        cache = np.concatenate([cache, new], axis=2)
        cache = half(cache, np.arange(cache.shape[2]))
    return cache


@wrong("stale-cache", surface="key_cache", encoding=rope(64), thread="class: whole cache each step")
def cache_of_rotated_keys_rotated(k, chunks):
    """The rotation is applied to the concatenated cache, which is kept rotated."""
    cache = k[:, :, :0]
    for _, part in parts(k, chunks):
        cache = np.concatenate([cache, part], axis=2)
        cache = half(cache, np.arange(cache.shape[2]))
    return cache


@wrong("decode-offset", surface="key_cache", encoding=rope(64), thread="RobertCsordas/moeut#6")
def cache_new_keys_at_zero(k, chunks):
    """New keys are rotated before the cache is asked how long it is."""
    return joined(half(part, np.arange(part.shape[2])) for _, part in parts(k, chunks))


@wrong("stale-cache", surface="key_cache", encoding=DYNAMIC, thread="class: dynamic base, old keys")
def cache_keeps_old_bases(k, chunks):
    """Every key keeps the base of the length at which it came in."""
    return joined(
        half(part, start + np.arange(part.shape[2]), dynamic(start + part.shape[2]))
        for start, part in parts(k, chunks)
    )


@wrong(
    "stale-cache", surface="key_cache", encoding=rope(64), thread="class: raw prompt in the cache"
)
def cache_rotates_new_keys_only(k, chunks):
    """What was in the cache before the last step is returned as it went in."""
    return joined(
        half(part, start + np.arange(part.shape[2]))
        if start + part.shape[2] == k.shape[2]
        else part
        for start, part in parts(k, chunks)
    )


@correct(surface="key_cache", encoding=LONGROPE, thread="microsoft/onnxruntime-genai#1161")
def cache_of_raw_keys(k, chunks):
    """Raw keys are cached, and all of them rotated when they are used."""
    return longrope(k, np.arange(k.shape[2]), k.shape[2])


@correct(surface="key_cache", encoding=rope(64, "interleaved"), thread="class: rotated once")
def cache_of_rotated_keys(k, chunks):
    """Each key is rotated when it comes in."""
    return joined(
        turn_pairs(part, phase(start + np.arange(part.shape[2]), inv_freq(64)))
        for start, part in parts(k, chunks)
    )
