"""Logits of LieRE: wrong and right functions of `scores`."""

import math

import numpy as np

from tests.mutants._case import correct, wrong

from .score_terms import D, H, dot, table

BLOCKS, N, TOKENS = 3, 5, 36
RAW = table(2, H, BLOCKS, N, N, seed=4.1)
#: A grid of 6 by 6 patches, from 0 to 1.
AT = np.stack(np.meshgrid(*[np.linspace(0, 1, 6)] * 2, indexing="ij"), -1).reshape(TOKENS, 2)
LIERE = {"encoding": "LieRE", "head_dim": D, "generators": RAW, "coordinates": AT}


def skew(raw):
    """The part above the diagonal minus its transpose."""
    upper = np.triu(raw, 1)
    return upper - upper.swapaxes(-1, -2)


def expm(x):
    """Taylor's series of x / 256, squared eight times, in float64."""
    x = x.astype(np.float64) / 256
    term = total = np.eye(N)
    for n in range(1, 12):
        term = term @ x / n
        total = total + term
    for _ in range(8):
        total = total @ total
    return total


def exponents(g, at=AT):
    """The exponents of all tokens (S, H, B, n, n)."""
    return np.einsum("sa,ahbcd->shbcd", at, g)


def blocks(x, matrices, strided=False):
    """x with its blocks multiplied by the matrices (N, H, B, n, n)."""
    part, rest = x[..., : BLOCKS * N], x[..., BLOCKS * N :]
    order = np.arange(BLOCKS * N)
    if strided:
        order = order.reshape(N, BLOCKS).T.ravel()
    part = part[..., order].reshape(*x.shape[:-1], BLOCKS, N)
    y = np.einsum("shbcd,zhsbd->zhsbc", matrices, part)  # a lone key head meets all heads
    y = y.reshape(*y.shape[:-2], -1)[..., np.argsort(order)]
    rest = np.broadcast_to(rest, (*y.shape[:-1], rest.shape[-1]))
    return np.concatenate([y, rest], axis=-1).astype(np.float32)


def lie(q, k, matrices=None, *, back=False, **kwargs):
    """Rotate by the matrices, the queries at the end."""
    n_q, n_k = q.shape[2], k.shape[2]
    if n_k > TOKENS:
        raise ValueError(f"{TOKENS} tokens")
    matrices = expm(exponents(skew(RAW))) if matrices is None else matrices
    of_k = matrices.swapaxes(-1, -2) if back else matrices
    q, k = blocks(q, matrices[n_k - n_q : n_k], **kwargs), blocks(k, of_k[:n_k], **kwargs)
    return dot(q, k) / np.float32(math.sqrt(D))


@wrong("matrix-exponential", surface="scores", encoding=LIERE, thread="class: one axis at a time")
def lie_product_of_exponentials(q, k):
    """exp(p_0 G_0) exp(p_1 G_1), which is another matrix."""
    g = skew(RAW)
    parts = [expm(AT[:, a, None, None, None, None] * g[a]) for a in range(2)]
    return lie(q, k, parts[0] @ parts[1])


@wrong("matrix-exponential", surface="scores", encoding=LIERE, thread="class: the raw parameters")
def lie_whole_matrix_minus_its_transpose(q, k):
    """The parameters below the diagonal count too."""
    return lie(q, k, expm(exponents(RAW - RAW.swapaxes(-1, -2))))


@wrong("matrix-exponential", surface="scores", encoding=LIERE, thread="class: torch.exp")
def lie_exponential_of_entries(q, k):
    """exp of every entry."""
    return lie(q, k, np.exp(exponents(skew(RAW))))


@wrong("matrix-exponential", surface="scores", encoding=LIERE, thread="class: a short series")
def lie_short_series(q, k):
    """I + X + X X / 2."""
    x = exponents(skew(RAW))
    return lie(q, k, np.eye(N) + x + x @ x / 2)


@wrong("axis-order", surface="scores", encoding=LIERE, thread="class: x before y")
def lie_of_exchanged_axes(q, k):
    """Columns before rows."""
    return lie(q, k, expm(exponents(skew(RAW), AT[:, ::-1])))


@wrong("position-scale", surface="scores", encoding=LIERE, thread="class: coordinates -1 .. 1")
def lie_of_doubled_coordinates(q, k):
    """Twice the declared range."""
    return lie(q, k, expm(exponents(skew(RAW), 2 * AT)))


@wrong("sign", surface="scores", encoding=LIERE, thread="class: keys by the inverse")
def lie_keys_by_the_inverse(q, k):
    """R^T k."""
    return lie(q, k, back=True)


@wrong("layout", surface="scores", encoding=LIERE, thread="class: reshape (n, B)")
def lie_of_strided_blocks(q, k):
    """Block b takes every third channel."""
    return lie(q, k, strided=True)


@correct(surface="scores", encoding=LIERE, thread="StanfordMIMI/LieRE, apply_transforms")
def lie_of_matrix_exponentials(q, k):
    """A series of a scaled exponent, squared."""
    return lie(q, k)


@correct(surface="scores", encoding=LIERE, thread="class: rotation vectors between two tokens")
def lie_of_relative_matrices(q, k):
    """q^T (R(p_i)^T R(p_j)) k."""
    n_q, n_k = q.shape[2], k.shape[2]
    if n_k > TOKENS:
        raise ValueError(f"{TOKENS} tokens")
    r = expm(exponents(skew(RAW)))
    between = np.einsum("ihbdc,jhbde->ijhbce", r[n_k - n_q : n_k], r[:n_k], optimize=True)
    q5, k5 = (x[..., : BLOCKS * N].reshape(*x.shape[:-1], BLOCKS, N) for x in (q, k))
    logits = np.einsum("zhibc,ijhbce,zhjbe->zhij", q5, between, k5, optimize=True)
    rest = dot(q[..., BLOCKS * N :], k[..., BLOCKS * N :])
    return ((logits + rest) / math.sqrt(D)).astype(np.float32)
