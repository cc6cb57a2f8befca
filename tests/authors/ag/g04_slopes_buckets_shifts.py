"""ALiBi's slopes, T5's buckets, Swin's index, Transformer-XL's shift."""

import math

import numpy as np


# ------------------------------------------------------------------ slopes


def slopes_by_roots(num_heads):
    """Square roots of square roots: 2 ** (-8 / n) for a power of two n."""
    n = 1
    while 2 * n <= num_heads:
        n *= 2
    ratio = 2.0 ** -8
    for _ in range(n.bit_length() - 1):
        ratio = math.sqrt(ratio)
    half = math.sqrt(ratio)
    out, value = [], 1.0
    for _ in range(n):
        value *= ratio
        out.append(value)
    value = half
    while len(out) < num_heads:
        out.append(value)
        value *= ratio
    return np.array(out)


def mpt_slopes_cut(num_heads, alibi_bias_max=8):
    """MPT's gen_slopes."""
    n = 2 ** math.ceil(math.log2(num_heads))
    m = np.arange(1, n + 1, dtype=np.float64) * (alibi_bias_max / n)
    slopes = 1.0 / np.power(2.0, m)
    return slopes[:num_heads]


def bloom_slopes(num_heads):
    """MPT-30B's checkpoint (alibi_bias_max=16) in BLOOM's build_alibi_tensor."""
    closest = 2 ** math.floor(math.log2(num_heads))
    base = 2 ** (-(2 ** -(math.log2(closest) - 3)))
    slopes = [base**p for p in range(1, 1 + closest)]
    if closest != num_heads:
        extra = 2 ** (-(2 ** -(math.log2(2 * closest) - 3)))
        left = min(closest, num_heads - closest)
        slopes += [extra**p for p in range(1, 1 + 2 * left, 2)]
    return np.array(slopes)


def rank_slopes_of_local_heads(num_heads, tp_size, tp_rank):
    heads = num_heads // tp_size  # self.num_heads of a tensor-parallel module
    n = 2 ** math.floor(math.log2(heads))
    out = [2.0 ** (-8.0 * (h + 1) / n) for h in range(n)]
    out += [2.0 ** (-4.0 * (2 * h + 1) / n) for h in range(heads - n)]
    return np.array(out)


def _all_slopes(num_heads):
    n = 2 ** math.floor(math.log2(num_heads))
    out = [2.0 ** (-8.0 * (h + 1) / n) for h in range(n)]
    return np.array(out + [2.0 ** (-4.0 * (2 * h + 1) / n) for h in range(num_heads - n)])


def rank_slopes_dealt(num_heads, tp_size, tp_rank):
    return _all_slopes(num_heads)[tp_rank::tp_size]


def rank_slopes_own(num_heads, tp_size, tp_rank):
    """Only the rank's own heads are ever computed, each from its global number."""
    n = 1 << (num_heads.bit_length() - 1)
    mine = np.arange(num_heads // tp_size) + tp_rank * (num_heads // tp_size)
    exponent = np.where(mine < n, 8.0 * (mine + 1) / n, 4.0 * (2 * (mine - n) + 1) / n)
    return np.exp2(-exponent).astype(np.float32)


# ------------------------------------------------------------------ buckets


def bucket_no_halving(relative_position):
    """32 buckets, up to 128, both directions."""
    r = np.asarray(relative_position)
    ret = (r > 0).astype(np.int64) * 16
    n = np.abs(r)
    max_exact = 32 // 2
    log = np.log(np.maximum(n, max_exact) / max_exact) / math.log(128 / max_exact)
    large = np.minimum(max_exact + (log * (16 - max_exact)).astype(np.int64), 15)
    return ret + np.where(n < max_exact, n, large)


def bucket_rounded(relative_position):
    """A C port: (int)lroundf(...) where the original truncates."""
    out = []
    flat = np.asarray(relative_position).ravel()
    for r in flat.tolist():
        b, n = (16, r) if r > 0 else (0, -r)
        if n < 8:
            b += n
        else:
            b += min(8 + int(math.floor(math.log(n / 8) / math.log(128 / 8) * 8 + 0.5)), 15)
        out.append(b)
    return np.array(out, np.int64).reshape(np.shape(relative_position))


def bucket_not_clamped(relative_position):
    """The last bucket is reached by itself at max_distance, so the minimum was left out."""
    r = np.asarray(relative_position).astype(np.int64)
    n = np.abs(r)
    starts = [8 * 16 ** (t / 8) for t in range(1, 8 * 4)]  # where the logarithm makes a step
    count = np.minimum(n, 8)
    for s in starts:
        count = count + (n >= s - 1e-9)
    return count + 16 * (r > 0)


def causal_starts(nb=32, far=256):
    """The first distance of every bucket, by integers alone."""
    me = nb // 2
    starts, n = list(range(1, me + 1)), me
    for t in range(1, nb - me):
        while n ** (nb - me) * me**t < far**t * me ** (nb - me):
            n += 1
        starts.append(n)
    return np.array(starts)


_STARTS = causal_starts()


def bucket_by_search(relative_position):
    distance = np.maximum(-np.asarray(relative_position).astype(np.int64), 0)
    return np.searchsorted(_STARTS, distance, side="right")


def bucket_flipped_default(relative_position, num_buckets=32, max_distance=128):
    """LongT5-style settings are 32 and 256; called as bucket(query - key)."""
    r = -np.asarray(relative_position).astype(np.int64)
    nb = num_buckets // 2
    me = nb // 2
    n = np.abs(r)
    large = me + np.floor(
        np.log(np.maximum(n, 1) / me) / math.log(max_distance / me) * (nb - me) + 1e-9
    ).astype(np.int64)
    return nb * (r > 0) + np.where(n < me, n, np.minimum(large, nb - 1))


# ------------------------------------------------------------------ windows


def index_in_order_of_appearance(window):
    """LeViT's way to number offsets: a dictionary that grows."""
    h, w = window
    seen = {}
    out = np.empty((h * w, h * w), np.int64)
    for i in range(h * w):
        for j in range(h * w):
            offset = (i // w - j // w, i % w - j % w)
            out[i, j] = seen.setdefault(offset, len(seen))
    return out


def index_factor_of_height(window):
    h, w = window
    coords = np.stack(np.meshgrid(np.arange(h), np.arange(w), indexing="ij")).reshape(2, -1)
    rel = coords[:, :, None] - coords[:, None, :]
    return (rel[0] + h - 1) * (2 * h - 1) + rel[1] + w - 1


def index_unsigned(window):
    h, w = window
    y, x = np.divmod(np.arange(h * w), w)
    dy, dx = np.abs(np.subtract.outer(y, y)), np.abs(np.subtract.outer(x, x))
    return dy * (2 * w - 1) + dx


def index_transposed_tokens(window):
    """coords = stack(meshgrid(arange(h), arange(w))).flatten(1), with NumPy's default order."""
    h, w = window
    y, x = (c.ravel() for c in np.meshgrid(np.arange(h), np.arange(w)))
    return (np.subtract.outer(y, y) + h - 1) * (2 * w - 1) + np.subtract.outer(x, x) + w - 1


# ------------------------------------------------------------------ shifts


def shift_by_strides(x):
    """Row i starts Q - 1 - i columns later: a view with another stride."""
    q, k = x.shape
    room = np.zeros((q, k + q), x.dtype)
    room[:, :k] = x
    s0, s1 = room.strides
    view = np.lib.stride_tricks.as_strided(room.ravel()[q - 1 :], (q, k), (s0 - s1, s1))
    return view.copy()


def shift_drop_last(x):
    q, k = x.shape
    padded = np.concatenate([np.zeros((q, 1), x.dtype), x], axis=1).reshape(k + 1, q)
    return padded[:-1].reshape(q, k)


def shift_square_only(x):
    """Gather: key j of query i is in column K - 1 - i + j."""
    q, k = x.shape
    column = np.clip(k - 1 - np.arange(q)[:, None] + np.arange(k), 0, k - 1)
    return np.take_along_axis(x, column, axis=1)


def relative_skewed(q, rel):
    """Music Transformer's skew for both directions: pad, flatten, cut, reshape."""
    s = q.shape[0]
    by_offset = q @ rel.T
    flat = np.pad(by_offset, ((0, 0), (0, 1))).ravel()
    flat = np.concatenate([flat, np.zeros(s - 1, q.dtype)])
    return flat.reshape(s + 1, 2 * s - 1)[:s, s - 1 :]


def relative_ascending(q, rel):
    """rel as nn.Embedding: row (i - j) + S - 1."""
    s = q.shape[0]
    index = np.subtract.outer(np.arange(s), np.arange(s)) + s - 1
    return np.einsum("id,ijd->ij", q, rel[index])


def relative_causal_shift(q, rel):
    """The first S rows (offsets S - 1 .. 0) are enough for Transformer-XL's shift."""
    s = q.shape[0]
    x = q @ rel[:s].T
    x = np.concatenate([np.zeros((s, 1), x.dtype), x], axis=1).reshape(s + 1, s)
    return x[1:].reshape(s, s)
