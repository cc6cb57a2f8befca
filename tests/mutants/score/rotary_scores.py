"""Logits of dual chunks, Self-Extend and ReRoPE: wrong and right functions of `scores`."""

import math

import numpy as np

from tests.mutants._case import correct, rope, wrong

from .score_terms import dot

D = 8
ROPE = rope(D, base=100.0)
SIZE, LOCAL = 20, 6
C = SIZE - LOCAL
CHUNKS = {"encoding": "DualChunk", "rope": ROPE, "chunk_size": SIZE, "local_size": LOCAL}
WARM = {**CHUNKS, "original_max_position": 24}
GROUP, WINDOW = 4, 10
GROUPED = {"encoding": "SelfExtend", "rope": ROPE, "group": GROUP, "window": WINDOW}
CLIPPED = {"encoding": "ReRoPE", "rope": ROPE, "window": WINDOW}
LEAKY = {**CLIPPED, "factor": 4.0}

DCA = "arXiv:2402.17463, vllm#11844"
LONG_LM = "arXiv:2401.01325, llama.cpp#4815"
KEXUE = "kexue.fm/archives/9708"


def turned(x, at, base=100.0):
    """Half-split pairs, turned to positions (S,), with float64 angles."""
    angle = np.asarray(at)[:, None] * base ** (-2 * np.arange(D // 2) / D)
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    one, two = np.split(x, 2, axis=-1)
    return np.concatenate([one * cos - two * sin, two * cos + one * sin], axis=-1)


def places(q, k):
    """Positions of queries, at the end, and of keys."""
    n_q, n_k = q.shape[2], k.shape[2]
    return np.arange(n_k - n_q, n_k), np.arange(n_k)


def chosen(q, k, conditions, sides, base=100.0):
    """The first logits whose condition holds, of queries and keys at these positions; the last."""
    logits = [
        dot(turned(q, i, base), turned(k, j, base)) / np.float32(math.sqrt(D)) for i, j in sides
    ]
    for condition, one in zip(conditions[::-1], logits[-2::-1], strict=True):
        logits[-1] = np.where(condition, one, logits[-1])
    return logits[-1]


# --- dual chunks ---------------------------------------------------------------------------------


def succ(at):
    """Positions of queries for keys of the chunk before."""
    return np.minimum(at % C + C, SIZE)


def inter(at):
    """Positions of queries for keys of the chunks before that."""
    return np.full(at.shape, SIZE)


def chunked(q, k, after=succ, beyond=inter, length=C, key=None):
    """Three products and a choice between them, as every release has it."""
    i, j = places(q, k)
    apart = (i // length)[:, None] - j // length
    keys = j % length if key is None else key(j)
    sides = [(i % length, keys), (after(i), keys), (beyond(i), keys)]
    return chosen(q, k, [apart < 1, apart < 2], sides)


@wrong("far-keys", surface="scores", encoding=CHUNKS, thread=f"{DCA}: transformers ignores it")
def dual_chunk_left_out(q, k):
    """Plain RoPE: the configuration's entry is not read."""
    i, j = places(q, k)
    return chosen(q, k, [], [(i, j)])


@wrong("window-edge", surface="scores", encoding=CHUNKS, thread=f"{DCA}: chunk_size as chunk_len")
def dual_chunk_without_its_local_size(q, k):
    """Chunks of chunk_size tokens."""
    return chunked(q, k, lambda i: np.full(i.shape, SIZE), inter, SIZE)


@wrong("far-keys", surface="scores", encoding=CHUNKS, thread=f"{DCA}: qc_no_clamp_t")
def dual_chunk_without_its_limit(q, k):
    """The positions of the chunk before grow to 2C - 1."""
    return chunked(q, k, lambda i: i % C + C)


@wrong("far-keys", surface="scores", encoding=CHUNKS, thread=f"{DCA}: q_inter_t")
def dual_chunk_far_positions_grow(q, k):
    """Queries for far chunks are at chunk_size and more."""
    return chunked(q, k, beyond=lambda i: i % C + SIZE)


@wrong("far-keys", surface="scores", encoding=CHUNKS, thread=f"{DCA}: two kinds of chunks")
def dual_chunk_without_successive_chunks(q, k):
    """The chunk before is treated as those before it."""
    return chunked(q, k, after=inter)


@wrong("far-keys", surface="scores", encoding=CHUNKS, thread=f"{DCA}: two kinds of chunks")
def dual_chunk_without_far_chunks(q, k):
    """All earlier chunks are treated as the one before."""
    return chunked(q, k, beyond=succ)


@wrong("far-keys", surface="scores", encoding=CHUNKS, thread=f"{DCA}: the paper's c - 1")
def dual_chunk_of_the_paper(q, k):
    """The last position is chunk_size - 1."""
    return chunked(q, k, lambda i: np.minimum(i % C + C, SIZE - 1), lambda i: inter(i) - 1)


@wrong("far-keys", surface="scores", encoding=CHUNKS, thread="class: keys without the modulo")
def dual_chunk_keys_at_their_own_positions(q, k):
    """The cache has keys as RoPE rotates them."""
    return chunked(q, k, key=lambda j: j)


@wrong("bias-alignment", surface="scores", encoding=CHUNKS, thread="class: decoding from 0")
def dual_chunk_counted_from_the_first_query(q, k):
    """Chunks of queries begin with the call."""
    whole = np.concatenate([q, k[:, :, q.shape[2] :]], axis=2)
    return chunked(whole, k)[:, :, : q.shape[2]]


def warm(power):
    """Logits times t to this power."""

    def logits(q, k):
        t = max(1.0, 0.1 * math.log(k.shape[2] / 24) + 1.0)
        return chunked(q, k) * np.float32(t**power)

    return logits


@wrong("softmax-scale", surface="scores", encoding=WARM, thread=f"{DCA}: scaling_factor")
def dual_chunk_without_its_temperature(q, k):
    """No factor for long sequences."""
    return warm(0)(q, k)


@wrong("softmax-scale", surface="scores", encoding=WARM, thread=f"{DCA}: scaling_factor")
def dual_chunk_with_its_temperature_once(q, k):
    """Keys are multiplied, the softmax scale is not."""
    return warm(1)(q, k)


@correct(surface="scores", encoding=CHUNKS, thread=f"{DCA}: as released")
def dual_chunk_of_three_products(q, k):
    """Intra, successive and inter."""
    return chunked(q, k)


@correct(surface="scores", encoding=WARM, thread=f"{DCA}: on keys and on the scale")
def dual_chunk_with_its_temperature(q, k):
    """The factor t twice."""
    return warm(2)(q, k)


# --- Self-Extend ---------------------------------------------------------------------------------


def grouped(q, k, shift=WINDOW - WINDOW // GROUP, edge=WINDOW, divide=np.floor_divide):
    """Near and far logits, and a choice between them."""
    i, j = places(q, k)
    sides = [(i, j), (divide(i, GROUP) + shift, divide(j, GROUP))]
    return chosen(q, k, [i[:, None] - j < edge], sides)


@wrong("far-keys", surface="scores", encoding=GROUPED, thread=f"{LONG_LM}: the shift")
def self_extend_without_its_shift(q, k):
    """Far queries are at i // G."""
    return grouped(q, k, shift=0)


@wrong("far-keys", surface="scores", encoding=GROUPED, thread=f"{LONG_LM}: the shift")
def self_extend_shifted_by_the_window(q, k):
    """w // G is not subtracted."""
    return grouped(q, k, shift=WINDOW)


@wrong("far-keys", surface="scores", encoding=GROUPED, thread="LongLM, Llama.py: g2 / g1")
def self_extend_shifted_by_a_fraction(q, k):
    """The shift is w - w / G, which is not whole where G does not divide w."""
    return grouped(q, k, shift=WINDOW - WINDOW / GROUP)


@wrong("window-edge", surface="scores", encoding=GROUPED, thread=f"{LONG_LM}: the mask")
def self_extend_with_a_wide_window(q, k):
    """i - j <= w is near."""
    return grouped(q, k, edge=WINDOW + 1)


@wrong("window-edge", surface="scores", encoding=GROUPED, thread=f"{LONG_LM}: the mask")
def self_extend_with_a_narrow_window(q, k):
    """i - j < w - 1 is near."""
    return grouped(q, k, edge=WINDOW - 1)


@wrong("far-keys", surface="scores", encoding=GROUPED, thread=f"{LONG_LM}: positions divided")
def self_extend_without_the_floor(q, k):
    """Positions are divided, as by a linear scaling."""
    return grouped(q, k, divide=np.divide)


@wrong("far-keys", surface="scores", encoding=GROUPED, thread="class: one offset for each pair")
def self_extend_of_the_offset(q, k):
    """(i - j) // G in place of i // G - j // G."""
    i, j = places(q, k)
    distance = i[:, None] - j
    distance = np.where(distance < WINDOW, distance, distance // GROUP + WINDOW - WINDOW // GROUP)
    logits = np.zeros((*q.shape[:3], k.shape[2]), q.dtype)
    for r in np.unique(distance):
        there = chosen(q, k, [], [(np.full(i.shape, r), np.zeros(j.shape))])
        logits = np.where(distance == r, there, logits)
    return logits


@wrong("far-keys", surface="scores", encoding=GROUPED, thread="class: the mask forgotten")
def self_extend_all_grouped(q, k):
    """Near keys share positions too."""
    return grouped(q, k, edge=-(2**40))


@correct(surface="scores", encoding=GROUPED, thread=f"{LONG_LM}: Algorithm 1")
def self_extend_of_two_products(q, k):
    """Neighbours and groups."""
    return grouped(q, k)


# --- ReRoPE --------------------------------------------------------------------------------------


def clipped(q, k, far=lambda i, j: (np.full(i.shape, WINDOW), 0 * j), window=WINDOW, base=100.0):
    """Near logits, and those of far keys at other positions."""
    i, j = places(q, k)
    return chosen(q, k, [i[:, None] - j < window], [(i, j), far(i, j)], base)


def slower(i, j):
    """The released positions of Leaky ReRoPE."""
    return (i + WINDOW * 3) / 4, j / 4


@wrong("window-edge", surface="scores", encoding=CLIPPED, thread=f"{KEXUE}: the window")
def rerope_with_a_wide_window(q, k):
    """Clipped one position later."""
    return clipped(q, k, lambda i, j: (np.full(i.shape, WINDOW + 1), 0 * j), WINDOW + 1)


@wrong("far-keys", surface="scores", encoding={**CLIPPED, "window": 3000},
       thread="class: the window is never reached in short calls")  # fmt: skip
def rerope_left_out(q, k):
    """Plain RoPE, which agrees for the first 3000 tokens."""
    i, j = places(q, k)
    return chosen(q, k, [], [(i, j)])


@wrong("base", surface="scores", encoding=CLIPPED, thread="class: the base")
def rerope_with_another_base(q, k):
    """Base 10000, declared 100."""
    return clipped(q, k, base=1e4)


@wrong("far-keys", surface="scores", encoding=CLIPPED, thread=f"{KEXUE}: the second query")
def rerope_without_the_second_query(q, k):
    """Far queries are not rotated at all."""
    return clipped(q, k, lambda i, j: (0 * i, 0 * j))


@wrong("far-keys", surface="scores", encoding=LEAKY, thread=f"{KEXUE}: not leaky")
def leaky_rerope_that_does_not_leak(q, k):
    """The offset stays at the window."""
    return clipped(q, k)


@wrong("far-keys", surface="scores", encoding=LEAKY, thread=f"{KEXUE}: the offset of rotary_emb2")
def leaky_rerope_without_its_offset(q, k):
    """All far positions are divided: the distance jumps at the window."""
    return clipped(q, k, lambda i, j: (i / 4, j / 4))


@correct(surface="scores", encoding=CLIPPED, thread=f"{KEXUE}: as released")
def rerope_of_two_products(q, k):
    """Far queries at the window, far keys not rotated."""
    return clipped(q, k)


@correct(surface="scores", encoding=LEAKY, thread=f"{KEXUE}: as released")
def leaky_rerope_of_two_products(q, k):
    """Far positions divided, queries shifted first."""
    return clipped(q, k, slower)
