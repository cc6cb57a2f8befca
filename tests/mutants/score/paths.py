"""Logits that depend on the tokens between key and query: wrong and right functions of `scores`."""

import math

import numpy as np

from tests.mutants._case import correct, wrong

from .score_terms import D, H, dot, table

# --- Selective RoPE ------------------------------------------------------------------------------

TOKENS, PAIRS = 40, 6
PHI = table(H, TOKENS, PAIRS, seed=3.1)
SELECTIVE = {
    "encoding": "SelectiveRoPE",
    "head_dim": D,
    "increments": PHI,
    "layout": "half",
}


def rotate(x, angle, pairs=PAIRS, start=0):
    """Half-split pairs of x turned by angles (H, N, P); the other channels stay."""
    c, s = np.cos(angle), np.sin(angle)
    one, two, rest = np.split(x[..., start:], [pairs, 2 * pairs], axis=-1)
    parts = [x[..., :start], one * c - two * s, two * c + one * s, rest]
    return np.concatenate(parts, axis=-1).astype(np.float32)


def interleaved(x, angle):
    """Adjacent channels turned by the angles."""
    z = x[..., : 2 * PAIRS].reshape(*x.shape[:-1], PAIRS, 2)
    z = (z[..., 0] + 1j * z[..., 1]) * np.exp(1j * angle)
    turned = np.stack([z.real, z.imag], axis=-1).reshape(*x.shape[:-1], 2 * PAIRS)
    return np.concatenate([turned, x[..., 2 * PAIRS :]], axis=-1).astype(np.float32)


def selective(q, k, *, sums=None, turn=rotate, sign=1):
    """Rotate by the sums of the increments, the queries at the end."""
    n_q, n_k = q.shape[2], k.shape[2]
    if n_k > TOKENS:
        raise ValueError(f"{TOKENS} tokens")
    sums = np.cumsum(PHI, axis=1) if sums is None else sums
    of_q, of_k = sums[:, n_k - n_q : n_k], sums[:, :n_k]
    return dot(turn(q, of_q), turn(k, sign * of_k)) / np.float32(math.sqrt(D))


@wrong("token-range", surface="scores", encoding=SELECTIVE, thread="class: an exclusive sum")
def selective_without_the_own_increment(q, k):
    """The sum ends before the token."""
    return selective(q, k, sums=np.cumsum(PHI, axis=1) - PHI)


@wrong("token-range", surface="scores", encoding=SELECTIVE, thread="class: no cumulative sum")
def selective_without_the_sum(q, k):
    """Each token is rotated by its own increment."""
    return selective(q, k, sums=PHI)


@wrong("token-range", surface="scores", encoding=SELECTIVE, thread="class: chunks forget the state")
def selective_sum_that_starts_again(q, k):
    """Every chunk of 16 tokens starts at 0."""
    parts = [np.cumsum(PHI[:, a : a + 16], axis=1) for a in range(0, TOKENS, 16)]
    return selective(q, k, sums=np.concatenate(parts, axis=1))


@wrong("layout", surface="scores", encoding=SELECTIVE, thread="class: Mamba-3's SISO pairs")
def selective_of_interleaved_pairs(q, k):
    """Pairs (2k, 2k + 1)."""
    return selective(q, k, turn=interleaved)


@wrong("sign", surface="scores", encoding=SELECTIVE, thread="class: conjugated keys")
def selective_with_conjugated_keys(q, k):
    """Keys turn by -angle, as if the product conjugated them."""
    return selective(q, k, sign=-1)


@wrong("rotary-dim", surface="scores", encoding=SELECTIVE, thread="class: the last channels")
def selective_of_the_last_channels(q, k):
    """The first channels pass through."""
    return selective(q, k, turn=lambda x, a: rotate(x, a, start=D - 2 * PAIRS))


@wrong("range-reduction", surface="scores", encoding=SELECTIVE, thread="class: angles modulo pi")
def selective_wrapped_at_pi(q, k):
    """Half a turn is dropped."""
    return selective(q, k, sums=np.mod(np.cumsum(PHI, axis=1), np.float32(np.pi)))


@wrong("angle-precision", surface="scores", encoding=SELECTIVE, thread="class: half-precision sums")
def selective_sums_in_float16(q, k):
    """The sum is kept in float16."""
    sums = np.cumsum(PHI.astype(np.float64), axis=1)
    return selective(q, k, sums=sums.astype(np.float16).astype(np.float32))


@wrong("head-order", surface="scores", encoding=SELECTIVE, thread="class: heads reversed")
def selective_of_the_other_head(q, k):
    """Increments of the other head."""
    return selective(q, k, sums=np.cumsum(PHI[::-1], axis=1))


@wrong("bias-alignment", surface="scores", encoding=SELECTIVE, thread="class: decoding from 0")
def selective_queries_from_0(q, k):
    """The queries of a decoding step have the first angles."""
    if k.shape[2] > TOKENS:
        raise ValueError(f"{TOKENS} tokens")
    sums = np.cumsum(PHI, axis=1)
    of_q, of_k = sums[:, : q.shape[2]], sums[:, : k.shape[2]]
    return dot(rotate(q, of_q), rotate(k, of_k)) / np.float32(math.sqrt(D))


@correct(surface="scores", encoding=SELECTIVE, thread="class: Mamba-3 wraps the angle")
def selective_wrapped_at_2_pi(q, k):
    """The angle is taken modulo 2 pi after every token."""
    angle, kept = np.zeros((H, PAIRS), np.float32), []
    for t in range(TOKENS):
        angle = np.mod(angle + PHI[:, t], np.float32(2 * np.pi))
        kept.append(angle)
    return selective(q, k, sums=np.stack(kept, axis=1))


@correct(surface="scores", encoding=SELECTIVE, thread="class: differences of sums, complex numbers")
def selective_of_differences(q, k):
    """The angle between key and query."""
    n_q, n_k = q.shape[2], k.shape[2]
    if n_k > TOKENS:
        raise ValueError(f"{TOKENS} tokens")
    sums = np.cumsum(PHI, axis=1, dtype=np.float64)
    z = [x[..., :PAIRS] + 1j * x[..., PAIRS : 2 * PAIRS] for x in (q, k)]
    turn = np.exp(1j * (sums[:, n_k - n_q : n_k, None] - sums[:, None, :n_k]))
    logits = np.einsum("bhip,bhjp,hijp->bhij", z[0], z[1].conj(), turn).real
    return ((logits + dot(q[..., 2 * PAIRS :], k[..., 2 * PAIRS :])) / math.sqrt(D)).astype("f4")


# --- PaTH ----------------------------------------------------------------------------------------

V = table(H, TOKENS, D, seed=3.3) * np.float32(0.3)
BETA = 1 + table(H, TOKENS, seed=3.5) * np.float32(0.9)
GATES = -np.abs(table(H, TOKENS, seed=3.7))
PATH = {"encoding": "PaTH", "directions": V, "beta": BETA}
FOX = {**PATH, "forget": {"encoding": "ForgettingBias", "log_gates": GATES}}


def unit(v):
    """Vectors of length 1."""
    return v / np.sqrt((v * v).sum(axis=-1, keepdims=True))


def carried(q, k, *, w=None, beta=BETA, own=0, key=0, opposite=False):
    """Multiply out the matrices of the tokens from j + 1 - key to i - own."""
    n_q, n_k = q.shape[2], k.shape[2]
    if n_k > TOKENS:
        raise ValueError(f"{TOKENS} tokens")
    w = unit(V) if w is None else w
    eye = np.eye(D, dtype=np.float32)
    h = eye - beta[..., None, None] * w[..., :, None] * w[..., None, :]  # (H, S, D, D)
    logits = dot(q, k)
    for row in range(n_q):
        i = n_k - n_q + row
        for j in range(i + 1):
            tokens = range(j + 1 - key, i + 1 - own)
            matrix = np.broadcast_to(eye, (H, D, D))
            for t in reversed(tokens) if opposite else tokens:
                matrix = matrix @ h[:, t]
            left = np.einsum("bhc,hcd->bhd", k[:, :, j], matrix)
            logits[:, :, row, j] = (left * q[:, :, row]).sum(axis=-1)
    return logits / np.float32(math.sqrt(D))


def forgotten(q, k):
    """The sum of log gates after the key."""
    n_q, n_k = q.shape[2], k.shape[2]
    sums = np.cumsum(GATES, axis=1)
    return sums[:, n_k - n_q : n_k, None] - sums[:, None, :n_k]


@wrong("token-range", surface="scores", encoding=PATH, thread="class: the key's matrix included")
def path_with_the_matrix_of_the_key(q, k):
    """From j to i - 1: as an exclusive scan gives it."""
    return carried(q, k, key=1, own=1)


@wrong("token-range", surface="scores", encoding=PATH, thread="class: the query's matrix left out")
def path_without_the_matrix_of_the_query(q, k):
    """From j + 1 to i - 1."""
    return carried(q, k, own=1)


@wrong("token-range", surface="scores", encoding=PATH, thread="class: the product reversed")
def path_in_the_opposite_order(q, k):
    """H_i first."""
    return carried(q, k, opposite=True)


@wrong("score-term", surface="scores", encoding=PATH, thread="class: w not normalised")
def path_of_raw_directions(q, k):
    """No l2 norm."""
    return carried(q, k, w=V)


@wrong(
    "score-term", surface="scores", encoding=PATH, thread="class: a sigmoid without the factor 2"
)
def path_with_half_of_beta(q, k):
    """beta in (0, 1): no reflection."""
    return carried(q, k, beta=BETA / 2)


@wrong("softmax-scale", surface="scores", encoding=FOX, thread="fla-core, naive_path_attn")
def path_fox_with_scaled_gates(q, k):
    """The gates are added before the scale."""
    return carried(q, k) + forgotten(q, k) / np.float32(math.sqrt(D))


@wrong("token-range", surface="scores", encoding=FOX, thread="class: gates with the key's own")
def path_fox_with_the_gate_of_the_key(q, k):
    """Sums up to the token before."""
    sums = np.cumsum(GATES, axis=1) - GATES
    n_q, n_k = q.shape[2], k.shape[2]
    return carried(q, k) + sums[:, n_k - n_q : n_k, None] - sums[:, None, :n_k]


@correct(surface="scores", encoding=PATH, thread="class: the product itself")
def path_of_products(q, k):
    """Matrices multiplied out for every pair of tokens."""
    return carried(q, k)


@correct(
    surface="scores", encoding=FOX, thread="class: keys kept as fla-core's decoding keeps them"
)
def path_fox_of_transformed_keys(q, k):
    """Each token multiplies all earlier keys by its matrix."""
    n_q, n_k = q.shape[2], k.shape[2]
    if n_k > TOKENS:
        raise ValueError(f"{TOKENS} tokens")
    w, cache, rows = unit(V), np.zeros_like(k), []
    for t in range(n_k):
        part = BETA[:, t, None, None] * (cache * w[:, t, None]).sum(axis=-1, keepdims=True)
        cache = cache - part * w[:, t, None]
        cache[:, :, t] = k[:, :, t]
        if t >= n_k - n_q:
            rows.append(dot(q[:, :, t - (n_k - n_q), None], cache))
    return np.concatenate(rows, axis=2) / np.float32(math.sqrt(D)) + forgotten(q, k)


def only_whole(q, k):
    """What kernels of w and beta require: all tokens, no more and no fewer."""
    if (q.shape[2], k.shape[2]) != (TOKENS, TOKENS):
        raise ValueError(f"q and k must have the {TOKENS} tokens of w")


@wrong("token-range", surface="scores", encoding=PATH, thread="class: whole sequences, exclusive")
def path_of_a_whole_sequence_without_its_own(q, k):
    """Refuses parts; leaves out the query's matrix."""
    only_whole(q, k)
    return carried(q, k, own=1)


@correct(surface="scores", encoding=FOX, thread="fla-core, parallel_path_attn")
def path_fox_of_a_whole_sequence(q, k):
    """Refuses a part of the sequence."""
    only_whole(q, k)
    return path_fox_of_transformed_keys(q, k)
