"""Logits of PoPE: wrong and right functions of `scores`."""

import math

import numpy as np

from tests.mutants._case import correct, wrong

from .score_terms import D, H, dot, table

PHASES = -np.abs(table(H, D, seed=2.1)) * 3
POPE = {"encoding": "PoPE", "head_dim": D, "phases": PHASES}
PLAIN = {"encoding": "PoPE", "head_dim": D}


def softplus(x):
    """log(1 + exp(x))."""
    return np.logaddexp(x, np.float32(0))


def waves(q, k, exponent=1 / D):
    """Angles of queries and keys, queries at the end, in float64."""
    n_q, n_k = q.shape[2], k.shape[2]
    theta = 10000.0 ** (-np.arange(D) * exponent)
    at = np.arange(n_k)[:, None] * theta
    return at[n_k - n_q :], at


def doubled(x, angle, sizes=softplus):
    """[mu cos, mu sin], twice as wide."""
    mu = sizes(x)
    return np.concatenate([mu * np.cos(angle), mu * np.sin(angle)], axis=-1).astype(np.float32)


def logits(q, k, *, to_q=0.0, to_k=0.0, sizes=softplus, width=D, **kwargs):
    """As a kernel has it: two wide vectors and their product."""
    of_q, of_k = waves(q, k, **kwargs)
    wide_q, wide_k = doubled(q, of_q + to_q, sizes), doubled(k, of_k + to_k, sizes)
    return dot(wide_q, wide_k) / np.float32(math.sqrt(width))


@wrong("denominator", surface="scores", encoding=PLAIN, thread="class: RoPE's d/2 frequencies")
def pope_with_the_frequencies_of_rope(q, k):
    """base ** (-2c/d) for d channels."""
    return logits(q, k, exponent=2 / D)


@wrong("bias-sign", surface="scores", encoding=POPE, thread="class: phases on the queries")
def pope_phases_on_the_queries(q, k):
    """delta added to the angles of q."""
    return logits(q, k, to_q=PHASES[:, None])


@wrong("bias-missing", surface="scores", encoding=POPE, thread="class: phases not loaded")
def pope_without_its_phases(q, k):
    """The checkpoint's delta is not there."""
    return logits(q, k)


@wrong("amplitude", surface="scores", encoding=PLAIN, thread="class: softplus left out")
def pope_without_softplus(q, k):
    """q and k keep their signs."""
    return logits(q, k, sizes=lambda x: x)


@wrong("amplitude", surface="scores", encoding=POPE, thread="class: relu for softplus")
def pope_with_relu(q, k):
    """max(x, 0)."""
    return logits(q, k, to_k=PHASES[:, None], sizes=lambda x: np.maximum(x, 0))


@wrong("softmax-scale", surface="scores", encoding=POPE, thread="class: the width a kernel sees")
def pope_scaled_by_the_doubled_width(q, k):
    """1/sqrt(2 d), which attention takes from the vectors that it gets."""
    return logits(q, k, to_k=PHASES[:, None], width=2 * D)


@wrong("head-order", surface="scores", encoding=POPE, thread="class: heads reversed")
def pope_phases_of_the_other_head(q, k):
    """Phases in the order of another split."""
    return logits(q, k, to_k=PHASES[::-1, None])


@wrong("bias-alignment", surface="scores", encoding=PLAIN, thread="class: decoding from 0")
def pope_queries_counted_from_0(q, k):
    """Queries do not stand at the end."""
    n = q.shape[2]
    of_k = waves(k, k)[1]
    return dot(doubled(q, of_k[:n]), doubled(k, of_k)) / np.float32(math.sqrt(D))


@correct(surface="scores", encoding=POPE, thread="class: x-transformers' way")
def pope_of_wide_vectors(q, k):
    """Phases on the keys' angles."""
    return logits(q, k, to_k=PHASES[:, None])


@correct(surface="scores", encoding=PLAIN, thread="class: complex numbers")
def pope_of_complex_numbers(q, k):
    """Re(conj(z_q) z_k)."""
    of_q, of_k = (np.exp(1j * a) for a in waves(q, k))
    z = np.conj(softplus(q) * of_q) @ (softplus(k) * of_k).swapaxes(-1, -2)
    return (z.real / math.sqrt(D)).astype(np.float32)
