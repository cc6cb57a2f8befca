"""Encodings whose heads differ: FoPE, and RoPE-Mixed with a weight for each head."""

import math

import numpy as np

from tests.mutants._case import correct, wrong

D, KEPT, HEADS = 16, 5, 2
RNG = np.random.default_rng(17739)
COS, SIN = (np.eye(KEPT) + 0.3 * RNG.standard_normal((2, HEADS, KEPT, KEPT))).astype(np.float32)
FOPE = {"encoding": "FoPE", "head_dim": D, "cos_coef": COS, "sin_coef": SIN, "dropped_sin": 0}
ONES = {**FOPE, "dropped_sin": 1}
#: Mochi's parameter has the axes (A, H, P).
MOCHI = (0.3 * RNG.standard_normal((3, 4, D // 2))).astype(np.float32)
MIXED = {
    "encoding": "MixedRoPE",
    "head_dim": D,
    "weight": MOCHI.swapaxes(0, 1),
    "layout": "interleaved",
}


def sums(positions, kept=KEPT, base=10000.0):
    """Angles (..., S, K)."""
    return np.asarray(positions, np.float64)[..., None] * base ** (-2 * np.arange(kept) / D)


def mapped(x, positions, *, cos=COS, sin=SIN, fill=0.0, base=10000.0):
    """FoPE as XTuner and SGLang write it: sums of waves, padded to half a head."""
    angle = sums(positions, base=base)[..., None, :, :]
    wide = [(0, 0)] * angle.ndim
    wide[-1] = (0, D // 2 - KEPT)
    c = np.pad(np.cos(angle) @ cos.astype(np.float64), wide, constant_values=1.0)
    s = np.pad(np.sin(angle) @ sin.astype(np.float64), wide, constant_values=fill)
    group = x.shape[1] // c.shape[-3]
    c, s = (np.repeat(t, group, axis=-3).astype(x.dtype) for t in (c, s))
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], axis=-1)


@wrong("dropped-pairs", encoding=FOPE, thread="vllm-project/vllm#55204")
def dropped_sines_of_one(x, positions):
    """The sine is padded with 1, like the cosine."""
    return mapped(x, positions, fill=1.0)


@wrong("dropped-pairs", encoding=ONES, thread="vllm-project/vllm#55243")
def dropped_sines_of_zero(x, positions):
    """A checkpoint trained with sines of 1 is served with sines of 0."""
    return mapped(x, positions)


@wrong("coefficients", encoding=FOPE, thread="class: parameters not loaded")
def without_coefficients(x, positions):
    """RoPE on the kept pairs."""
    eye = np.broadcast_to(np.eye(KEPT), COS.shape)
    return mapped(x, positions, cos=eye, sin=eye)


@wrong("coefficients", encoding=FOPE, thread="class: cos_coef for both")
def one_matrix_for_cos_and_sin(x, positions):
    """The sines take the coefficients of the cosines."""
    return mapped(x, positions, sin=COS)


@wrong("coefficients", encoding=FOPE, thread="class: hDd and hdD")
def transposed_coefficients(x, positions):
    """Sums over the wrong axis."""
    return mapped(x, positions, cos=COS.swapaxes(1, 2), sin=SIN.swapaxes(1, 2))


@wrong("head-order", encoding=FOPE, thread="sglang, _load_fope_weights: the chunk of another rank")
def coefficients_of_another_rank(x, positions):
    """Every head has those of head 0."""
    return mapped(x, positions, cos=COS[:1], sin=SIN[:1])


@wrong("base", encoding=FOPE, thread="class: rope_theta not passed on")
def fope_with_another_base(x, positions):
    """500000 in place of 10000."""
    return mapped(x, positions, base=500000.0)


@correct(encoding=FOPE, thread="XTuner, FourierEmbedding")
def fope_of_padded_sums(x, positions):
    """cos and sin of half a head, padded with 1 and 0."""
    return mapped(x, positions)


@correct(encoding=ONES, thread="XTuner, FourierEmbedding")
def fope_of_sums_padded_with_ones(x, positions):
    """Both padded with 1."""
    return mapped(x, positions, fill=1.0)


def product(a, b):
    """a . b for each pair."""
    return a @ b.swapaxes(-1, -2)


def logits(q, k, **how):
    """Queries at the last positions of the keys."""
    at = np.arange(k.shape[2])
    both = mapped(q, at[k.shape[2] - q.shape[2] :], **how), mapped(k, at, **how)
    return product(*both) / np.float32(math.sqrt(D))


@wrong("dropped-pairs", surface="scores", encoding=ONES, thread="vllm-project/vllm#55243")
def fope_logits_with_dropped_sines_of_zero(q, k):
    """The dropped part of each logit is halved."""
    return logits(q, k)


@wrong("bias-alignment", surface="scores", encoding=FOPE, thread="class: decoding from 0")
def fope_queries_counted_from_0(q, k):
    """The map depends on positions, not on their difference: queries must stand at the end."""
    n_q, n_k = q.shape[2], k.shape[2]
    both = mapped(q, np.arange(n_q)), mapped(k, np.arange(n_k))
    return product(*both) / np.float32(math.sqrt(D))


@correct(surface="scores", encoding=FOPE, thread="XTuner, FourierEmbedding")
def fope_logits_of_padded_sums(q, k):
    """The product of the mapped vectors."""
    return logits(q, k)


def turned(x, positions, weight=MOCHI):
    """Mochi's rotation: einsum of positions (A, B, S) and frequencies (A, H, P)."""
    angle = np.einsum("abs,ahp->bhsp", np.asarray(positions, np.float64), weight.astype(np.float64))
    c, s = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack([even * c - odd * s, even * s + odd * c], axis=-1).reshape(x.shape)


@wrong("head-order", encoding=MIXED, thread="class: a parameter split over ranks")
def frequencies_of_the_first_head(x, positions):
    """Every head has those of head 0."""
    return turned(x, positions, np.repeat(MOCHI[:, :1], 4, axis=1))


@wrong("axis-order", encoding=MIXED, thread="class: positions as x, y, t")
def frequencies_in_reverse_order_of_axes(x, positions):
    """Frames get the frequencies of columns."""
    return turned(x, positions, MOCHI[::-1])


@wrong("sections", encoding=MIXED, thread="class: one axis alone")
def frequencies_of_time_alone(x, positions):
    """Rows and columns turn nothing."""
    return turned(x, positions, MOCHI * np.array([1, 0, 0])[:, None, None])


@correct(encoding=MIXED, thread="diffusers, MochiRoPE")
def frequencies_of_every_head(x, positions):
    """One einsum over axes and heads."""
    return turned(x, positions)
