"""T5: buckets and biases.  Table entries: TABLE[b][h] = sin(3 b + h) rounded (see weights.py)."""
import math

import numpy as np
import torch


# ---- t01 (wrong): `if causal` for `if not causal` (x-transformers#10): encoder in decoder's code
def bucket_swapped_direction(relative_position):
    num_buckets, max_distance, bidirectional = 32, 128, True
    ret, n = 0, -relative_position
    if not bidirectional:
        num_buckets //= 2
        ret = ret + (n < 0).long() * num_buckets
        n = n.abs()
    else:
        n = torch.clamp(n, min=0)
    exact = num_buckets // 2
    val = exact + (torch.log(n.float().clamp(min=1) / exact) / math.log(max_distance / exact)
                   * (num_buckets - exact)).long()
    val = torch.clamp(val, max=num_buckets - 1)
    return ret + torch.where(n < exact, n, val)


# ---- t02 (wrong): query minus key (gluon-nlp#1470)
def bucket_query_minus_key(relative_position):
    r = -np.asarray(relative_position)
    nb, me = 16, 8
    n = np.abs(r)
    with np.errstate(divide="ignore"):
        far = me + (np.log(n / me) / np.log(128 / me) * (nb - me))
    far = np.where(n > 0, far, 0).astype(np.int64)
    return nb * (r > 0) + np.where(n < me, n, np.minimum(far, nb - 1))


# ---- t03 (wrong): >= 0: the own position falls into the half of the later keys
def bucket_self_in_future(relative_position):
    r = np.asarray(relative_position)
    n = np.abs(r)
    starts = np.array([1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91])
    return np.searchsorted(starts, n, side="right") + np.where(r >= 0, 16, 0)


# ---- t04 (wrong): max_exact is taken before the buckets are halved
def bucket_exact_before_half(relative_position):
    num_buckets, max_distance = 32, 128
    max_exact = num_buckets // 2
    num_buckets //= 2
    out = (relative_position > 0).to(torch.long) * num_buckets
    n = torch.abs(relative_position)
    is_small = n < max_exact
    if_large = max_exact + (
        torch.log(n.float().clamp(min=1) / max_exact)
        / math.log(max_distance / max_exact) * (num_buckets - max_exact)).long()
    if_large = torch.min(if_large, torch.full_like(if_large, num_buckets - 1))
    return out + torch.where(is_small, n, if_large)


# ---- t05 (wrong): logarithms in half precision under autocast
def bucket_half_logs(relative_position):
    nb, me, md = 160, 80, 800
    r = torch.as_tensor(relative_position)
    n = r.abs()
    log = torch.log((n.clamp(min=1).half() / me)) / math.log(md / me) * (nb - me)
    far = (me + log.half()).long().clamp(max=nb - 1)
    return torch.where(n < me, n, far) + nb * (r > 0)


# ---- t06 (wrong): float64, constants folded: log(n/me) * (K / log(md/me)), ties fall below
def bucket_folded_constant(relative_position):
    r = np.asarray(relative_position, np.int64)
    nb, me, md = 16, 8, 128
    factor = (nb - me) / math.log(md / me)
    n = np.abs(r)
    far = me + np.floor(np.log(np.maximum(n, 1) / me) * factor).astype(np.int64)
    return np.where(r > 0, nb, 0) + np.where(n < me, n, np.minimum(far, nb - 1))


# ---- t07 (wrong): the clamp lets the first bucket of the other direction through
def bucket_clamped_late(relative_position):
    r = np.asarray(relative_position, np.int64)
    nb, me = 16, 8
    n = np.abs(r)
    far = me + (np.log(np.maximum(n, me) / me) / np.log(128 / me) * (nb - me)).astype(np.int64)
    return np.where(r > 0, nb, 0) + np.where(n < me, n, np.minimum(far, nb))


# ---- t08 (wrong): WavLM's 320 buckets with T5's max_distance
def bucket_t5_distance(relative_position):
    num_buckets, max_distance = 320, 256
    r = torch.as_tensor(relative_position)
    nb = num_buckets // 2
    me = nb // 2
    n = r.abs()
    far = torch.log(n.double().clamp(min=1) / me) / math.log(max_distance / me) * (nb - me)
    far = (me + far).long().clamp(max=nb - 1)
    return (r > 0).long() * nb + torch.where(n < me, n, far)


# ---- t09 (wrong): causal: max(r, 0): all earlier keys share bucket 0
def bucket_causal_sign(relative_position):
    nb, me = 32, 16
    n = np.maximum(np.asarray(relative_position), 0)
    far = me + (np.log(np.maximum(n, 1) / me) / np.log(128 / me) * (nb - me)).astype(np.int64)
    return np.where(n < me, n, np.minimum(far, nb - 1))


# ---- t10 (wrong): round instead of floor
def bucket_rounded(relative_position):
    r = np.asarray(relative_position, np.int64)
    out = np.empty(r.shape, np.int64)
    for at in np.ndindex(*r.shape):
        n = max(-int(r[at]), 0)
        if n >= 16:
            n = min(16 + round(math.log(n / 16) / math.log(8) * 16), 31)
        out[at] = n
    return out


# ---- right -----------------------------------------------------------------------------------
# t11: thresholds by powers of integers, bisect
def right_integer_powers(relative_position):
    r = np.asarray(relative_position, np.int64)
    nb, me, md = 16, 8, 128
    starts = list(range(1, me + 1))
    n = me
    for t in range(1, nb - me):
        while n ** (nb - me) * me ** t < md ** t * me ** (nb - me):
            n += 1
        starts.append(n)
    return np.digitize(np.abs(r), starts) + nb * (r > 0)


# t12: Flax's eps inside the logarithm, distances clipped first, float32
def right_flax_eps(relative_position):
    n = torch.clamp(-torch.as_tensor(relative_position), 0, 127)
    eps = torch.finfo(torch.float32).eps
    far = 16 + (torch.log(n.float() / 16 + eps) / math.log(128 / 16) * 16).to(torch.int32)
    return torch.where(n < 16, n, far.clamp(max=31).to(n.dtype))
