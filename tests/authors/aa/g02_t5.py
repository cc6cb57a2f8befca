import bisect
import math

import numpy as np
import torch

TABLE = np.random.default_rng(5).integers(-64, 65, (32, 4)) / 64


def position_bucket(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    relative_position = torch.as_tensor(relative_position)
    ret = torch.zeros_like(relative_position)
    if bidirectional:
        num_buckets //= 2
        ret = ret + (relative_position > 0).long() * num_buckets
    n = relative_position.abs()
    max_exact = num_buckets // 2
    large = max_exact + torch.round(
        torch.log(n.clamp(min=1).double() / max_exact) / math.log(max_distance / max_exact) * (num_buckets - max_exact)
    ).long()
    large = torch.clamp(large, max=num_buckets - 1)
    return ret + torch.where(n < max_exact, n, large)


def bucket_np(relative_position):
    r = np.asarray(relative_position)
    num_buckets, max_distance = 32, 128
    half = num_buckets // 2
    exact = half // 2
    n = np.abs(r)
    with np.errstate(divide="ignore"):
        big = exact + (np.log(n / exact) / np.log(max_distance / exact) * (half - exact)).clip(min=0).astype(int)
    out = np.where(n < exact, n, np.minimum(big, num_buckets - 1))
    return out + half * (r > 0)


def relative_bucket(relative_position):
    r = np.asarray(relative_position)
    side = (r >= 0).astype(np.int64) * 16
    n = np.abs(r)
    far = 8 + np.floor(np.log2(np.maximum(n, 1) / 8) * 2 + 1e-9).astype(np.int64)
    return side + np.where(n < 8, n, np.minimum(far, 15))


def wide_bucket(relative_position):
    r = torch.as_tensor(relative_position)
    nb = 160
    max_exact = nb // 2
    n = r.abs()
    x = (n.clamp(min=1).to(torch.float16) / max_exact).log()
    x = x / math.log(800 / max_exact) * (nb - max_exact)
    large = torch.min((max_exact + x.float()).long(), torch.tensor(nb - 1))
    return (r > 0).long() * nb + torch.where(n < max_exact, n, large)


def small_bucket(relative_position, num_buckets=32, max_distance=128):
    r = np.asarray(relative_position)
    max_exact = num_buckets // 2
    num_buckets //= 2
    n = np.abs(r)
    ratio = np.log(np.maximum(n, 1) / max_exact) / math.log(max_distance / max_exact)
    large = np.minimum(max_exact + (ratio * (num_buckets - max_exact)).astype(int), num_buckets - 1)
    return np.where(n < max_exact, n, large) + (r > 0) * num_buckets


def _exact(r, bidirectional=True):
    starts = list(range(1, 9)) + [12, 16, 23, 32, 46, 64, 91] if bidirectional else list(range(1, 17)) + [
        19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]
    n = np.abs(r) if bidirectional else np.maximum(-r, 0)
    b = np.searchsorted(np.array(starts), n, side="right")
    return b + 16 * (r > 0) if bidirectional else b


def cached_bias(q_len, k_len):
    r = np.arange(k_len)[None, :] - np.arange(k_len)[:, None]
    values = torch.from_numpy(TABLE[_exact(r, bidirectional=False)]).permute(2, 0, 1)
    if q_len != k_len:
        values = values[:, -1:, :]
    return values


def scaled_scores(q, k):
    d = q.shape[-1]
    r = torch.arange(k.shape[2])[None, :] - torch.arange(k.shape[2] - q.shape[2], k.shape[2])[:, None]
    bias = torch.from_numpy(TABLE[_exact(r.numpy())]).permute(2, 0, 1)
    dots = torch.einsum("bhid,bhjd->bhij", q.double(), k.double()) * d**-0.5
    return (dots + bias * d**0.5).to(q.dtype)


def loaded_bias(q_len, k_len):
    r = np.arange(k_len)[None, :] - np.arange(k_len - q_len, k_len)[:, None]
    flat = TABLE.reshape(4, 32)
    return flat[:, _exact(r)]


def encoder_bias(q_len, k_len):
    pos = torch.arange(k_len)
    rel = pos[k_len - q_len :, None] - pos[None, :]
    n = rel.abs()
    far = 8 + torch.ceil(torch.log(n.clamp(min=1).double() / 8) / math.log(16) * 8 - 1e-9).long()
    bucket = torch.where(n < 8, n, far.clamp(max=15)) + 16 * (rel > 0)
    return torch.nn.functional.embedding(bucket, torch.from_numpy(TABLE)).permute(2, 0, 1)


def thresholds_bucket(relative_position):
    r = np.asarray(relative_position)
    out = np.empty(r.shape, np.int64)
    for at, value in np.ndenumerate(r):
        n = abs(int(value))
        b = n
        if n >= 8:
            b = 8
            while b < 15 and n**8 >= 128 ** (b - 7) * 8 ** (8 - (b - 7)):
                b += 1
        out[at] = b + (16 if value > 0 else 0)
    return out


def inclusive_bucket(relative_position, bidirectional=False, num_buckets=32, max_distance=128):
    n = -torch.as_tensor(relative_position)
    n = torch.max(n, torch.zeros_like(n))
    max_exact = num_buckets // 2
    val = max_exact + (
        torch.log(n.float() / max_exact) / math.log(max_distance / max_exact) * (num_buckets - max_exact)
    ).to(torch.long)
    val = torch.min(val, torch.full_like(val, num_buckets - 1))
    return torch.where(n <= max_exact, n, val)


def toeplitz_bias(q_len, k_len):
    r = np.arange(-(k_len - 1), k_len)
    line = np.ascontiguousarray(TABLE[_exact(r)].T)
    s = line.strides[1]
    view = np.lib.stride_tricks.as_strided(line[:, q_len - 1 :], (4, q_len, k_len), (line.strides[0], -s, s))
    return view


_EDGES = [12, 16, 23, 32, 46, 64, 91]


def decoder_bias(q_len, k_len):
    out = np.zeros((4, q_len, k_len), np.float32)
    for i in range(q_len):
        for j in range(k_len):
            n = k_len - q_len + i - j
            b = 0 if n < 0 else n if n < 8 else 8 + bisect.bisect_right(_EDGES, n)
            out[:, i, j] = TABLE[b]
    return out
