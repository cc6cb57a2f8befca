"""Logits of PRoPE: wrong and right functions of `scores`."""

import math

import numpy as np

from tests.mutants._case import correct, wrong

from .score_terms import D, dot, table

CAMERAS, HEIGHT, WIDTH = 3, 3, 4
TOKENS = CAMERAS * HEIGHT * WIDTH
P = np.eye(4) + 0.3 * table(CAMERAS, 4, 4, seed=5.1)
P[:, 3] = 0, 0, 0, 1
PROPE = {
    "encoding": "PRoPE",
    "head_dim": D,
    "projections": P,
    "grid": [HEIGHT, WIDTH],
}
INDEX = np.arange(TOKENS)
CAMERA, ROW, COLUMN = INDEX // (HEIGHT * WIDTH), INDEX // WIDTH % HEIGHT, INDEX % WIDTH


def projected(x, matrices, at):
    """Four channels at a time, by the matrices (C, 4, 4) of the tokens."""
    four = x.reshape(*x.shape[:-1], -1, 4)
    return np.einsum("ncd,zhnbd->zhnbc", matrices[CAMERA[at]], four).reshape(x.shape)


def turned(x, place, base, sign=-1):
    """Half-split pairs by the angles of the place in the image."""
    n = x.shape[-1] // 2
    z = x[..., :n] + 1j * x[..., n:]
    z = z * np.exp(sign * 1j * place[:, None] * base ** (-np.arange(n) / n))
    return np.concatenate([z.real, z.imag], axis=-1)


def cameras(q, k, *, p=P, of_q=None, of_k=None, places=(COLUMN, ROW), base=100.0, sign=-1):
    """Camera part, then columns, then rows; queries at the end."""
    n_q, n_k = q.shape[2], k.shape[2]
    if n_k > TOKENS:
        raise ValueError(f"{TOKENS} tokens")
    of_q = p.swapaxes(-1, -2) if of_q is None else of_q
    of_k = np.linalg.inv(p) if of_k is None else of_k

    def moved(x, matrices, at, sign):
        one, two, three = np.split(x, [D // 2, 3 * D // 4], axis=-1)
        parts = [turned(part, place[at], base, sign)
                 for part, place in zip((two, three), places, strict=True)]  # fmt: skip
        return np.concatenate([projected(one, matrices, at), *parts], axis=-1)

    q, k = moved(q, of_q, INDEX[n_k - n_q : n_k], -1), moved(k, of_k, INDEX[:n_k], sign)
    return (dot(q, k) / math.sqrt(D)).astype(np.float32)


@wrong("camera-matrix", surface="scores", encoding=PROPE, thread="class: one map for q and k")
def cameras_of_one_map(q, k):
    """q by the inverse of P, as k: right for rotations only."""
    return cameras(q, k, of_q=np.linalg.inv(P))


@wrong("camera-matrix", surface="scores", encoding=PROPE, thread="class: P, not its transpose")
def cameras_without_the_transpose(q, k):
    """P q."""
    return cameras(q, k, of_q=P)


@wrong("camera-matrix", surface="scores", encoding=PROPE, thread="class: keys by the transpose")
def cameras_with_transposed_keys(q, k):
    """P^T k, as if P were a rotation."""
    return cameras(q, k, of_k=P.swapaxes(-1, -2))


@wrong("camera-matrix", surface="scores", encoding=PROPE, thread="cvg/NoPoSplat#65 (class)")
def cameras_from_camera_to_world(q, k):
    """The poses of the data set, not inverted."""
    return cameras(q, k, p=np.linalg.inv(P))


@wrong("token-order", surface="scores", encoding=PROPE, thread="class: patches_x first")
def cameras_in_column_order(q, k):
    """Tokens run down the columns."""
    inside = INDEX % (HEIGHT * WIDTH)
    return cameras(q, k, places=(inside // HEIGHT, inside % HEIGHT))


@wrong("axis-order", surface="scores", encoding=PROPE, thread="class: rows first")
def cameras_of_exchanged_axes(q, k):
    """The first rotation follows the row."""
    return cameras(q, k, places=(ROW, COLUMN))


@wrong("base", surface="scores", encoding=PROPE, thread="class: the base of text models")
def cameras_of_base_10000(q, k):
    """Not 100."""
    return cameras(q, k, base=10000.0)


@wrong("sign", surface="scores", encoding=PROPE, thread="class: keys turned back")
def cameras_with_opposite_keys(q, k):
    """Queries by -angle, keys by +angle."""
    return cameras(q, k, sign=1)


@correct(surface="scores", encoding=PROPE, thread="liruilong940607/prope, per_img_camera.py")
def cameras_of_prope(q, k):
    """As the released code has it."""
    return cameras(q, k)


@correct(surface="scores", encoding=PROPE, thread="class: another frame of the world")
def cameras_in_another_world(q, k):
    """All cameras moved together: P_i P_j^-1 stays."""
    frame = np.eye(4) + 0.2 * table(4, 4, seed=5.7)
    return cameras(q, k, p=P @ frame)
