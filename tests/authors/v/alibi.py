"""ALiBi: slopes, biases, logits."""
import math

import numpy as np
import torch


# ---- a01 (wrong): 2 ** (-8 h / n) for every number of heads
def slopes_naive(num_heads):
    ratio = 2 ** (-8 / num_heads)
    return np.array([ratio ** (h + 1) for h in range(num_heads)])


# ---- a02 (wrong): the extra slopes are 0, 2, 4 ... of 2c heads counted from the second
def slopes_extra_even(num_heads):
    def power_of_2(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start ** i for i in range(n)]

    if math.log2(num_heads).is_integer():
        return torch.tensor(power_of_2(num_heads))
    closest = 2 ** math.floor(math.log2(num_heads))
    extra = power_of_2(2 * closest)[1::2]
    return torch.tensor(power_of_2(closest) + extra[: num_heads - closest])


# ---- a03 (wrong): the next power of two, cut to the number of heads
def slopes_next_power(num_heads):
    n = 1 << (num_heads - 1).bit_length()
    m = np.arange(1, n + 1, dtype=np.float64)
    return np.exp2(-8.0 * m / n)[:num_heads]


# ---- a04 (wrong): sorted, because "the slopes must be a geometric sequence"
def slopes_sorted(num_heads):
    c = 2 ** int(math.log2(num_heads))
    first = [2 ** (-8 * h / c) for h in range(1, c + 1)]
    then = [2 ** (-4 * h / c) for h in range(1, 2 * c + 1, 2)]
    return np.array(sorted([*first, *then[: num_heads - c]], reverse=True))


# ---- a05 (wrong): the exponent starts at 0 (aprender#2143), in a bias
def bias_zero_based(q_len, k_len):
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    n = 8
    slopes = np.array([2.0 ** (-8.0 * h / n) for h in range(n)])
    dist = np.abs(q_positions[:, None] - k_positions[None, :])
    return -slopes[:, None, None] * dist


# ---- a06 (wrong): q_idx - kv_idx (attention-gym before #86), in a causal bias
def bias_wrong_sign(q_len, k_len):
    q_positions, k_positions = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    h = torch.arange(1, 9, dtype=torch.float64)
    scale = torch.exp2(-h)
    rel = (q_positions[:, None] - k_positions[None, :]).double()
    return torch.einsum("h,qk->hqk", scale, rel)


# ---- a07 (wrong): signed distance in an encoder: later keys are rewarded
def bias_signed_encoder(q_len, k_len):
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    slopes = 2.0 ** -np.arange(1, 9)
    rel = np.subtract.outer(-np.asarray(q_positions, np.float64), -np.asarray(k_positions, float))
    return slopes[:, None, None] * rel


# ---- a08 (wrong): queries are counted from 0 although they are the last of the keys
def bias_top_left(q_len, k_len):
    m = torch.tensor([2.0 ** -(i + 1) for i in range(8)], dtype=torch.float64)
    i = torch.arange(q_len).view(-1, 1)
    j = torch.arange(k_len).view(1, -1)
    return m.view(-1, 1, 1) * -(i - j).abs()


# ---- a09 (wrong): the bias is made in bfloat16
def bias_bf16(q_len, k_len):
    q_positions, k_positions = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    slopes = torch.pow(2.0, -torch.arange(1, 17) / 2)
    dist = (k_positions[None, :] - q_positions[:, None]).abs().neg()
    return (slopes[:, None, None].bfloat16() * dist.bfloat16()[None]).float()


# ---- a10 (wrong): NeMo: the slopes are divided in place in every call
class InPlaceSlopes:
    def __init__(self, heads=8, interpolation=2.0):
        self.slopes = 2.0 ** -np.arange(1.0, heads + 1)[:, None, None]
        self.slopes *= interpolation
        self.factor = interpolation

    def __call__(self, q_len, k_len):
        q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
        self.slopes /= self.factor
        return -self.slopes * np.abs(q_positions[:, None] - k_positions[None, :])


bias_slopes_drift = InPlaceSlopes()


# ---- a11 (wrong): a buffer of 256 distances; farther keys get the last one
class DistanceBuffer:
    def __init__(self, heads=4, longest=256):
        m = np.exp2(-8.0 / heads * np.arange(1, heads + 1))
        self.rows = -m[:, None] * np.arange(longest)

    def __call__(self, q_len, k_len):
        q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
        d = np.abs(np.asarray(q_positions)[:, None] - np.asarray(k_positions)[None]).astype(int)
        return self.rows[:, np.minimum(d, self.rows.shape[1] - 1)]


bias_capped = DistanceBuffer()


# ---- a12 (wrong): alibi_bias_max of the config (4) is not passed on
def gen_slopes_default_max(num_heads):
    alibi_bias_max = 8
    _n = 2 ** math.ceil(math.log2(num_heads))
    m = torch.arange(1, _n + 1, dtype=torch.float32).mul(alibi_bias_max / _n)
    slopes = 1.0 / torch.pow(2, m)
    if _n != num_heads:
        slopes = torch.concat([slopes[1::2], slopes[::2]])[:num_heads]
    return slopes


# ---- a13 (wrong): Falcon-RW: the bias belongs inside the 1/sqrt(d)
def logits_falcon_outside(q, k):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    d, h = q.shape[-1], q.shape[-3]
    slopes = 2.0 ** (-8.0 * np.arange(1, h + 1) / h)
    logits = np.einsum("...qd,...kd->...qk", q.astype(np.float64), k) / math.sqrt(d)
    dist = np.abs(np.asarray(q_positions)[:, None] - np.asarray(k_positions))
    return (logits - slopes[:, None, None] * dist).astype(q.dtype)


# ---- a14 (wrong): flattened (batch * heads): repeat_interleave for repeat
def logits_flattened_heads(q, k):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    b, h, n_q, d = q.shape
    n_k = k.shape[2]
    slopes = torch.tensor([2.0 ** (-8.0 * (i + 1) / h) for i in range(h)], dtype=torch.float64)
    dist = (q_positions[:, None] - k_positions[None, :]).abs().double()
    alibi = slopes.repeat_interleave(b)[:, None, None] * -dist  # (b * h, Q, K)
    qf, kf = q.double().reshape(b * h, n_q, d), k.double().reshape(b * h, n_k, d)
    out = torch.baddbmm(alibi, qf, kf.transpose(1, 2), beta=1.0, alpha=d ** -0.5)
    return out.view(b, h, n_q, n_k).to(q.dtype)


# ---- a15 (wrong, two): jaketae/alibi: naive slopes, and 1/sqrt(d_model)
def logits_jaketae(q, k):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    h, d = q.shape[-3], q.shape[-1]
    x = (2 ** 8) ** (1 / h)
    m = np.array([1 / x ** (i + 1) for i in range(h)])
    rel = np.asarray(k_positions)[None, :] - np.asarray(q_positions)[:, None]
    score = np.matmul(q.astype(np.float64), np.swapaxes(k, -1, -2)) / math.sqrt(h * d)
    return (score + m[:, None, None] * np.minimum(rel, -rel)).astype(q.dtype)


# ---- right -----------------------------------------------------------------------------------
# a16: the key-position form m * (j - last) with the causal softmax's freedom
def right_key_position(q_len, k_len):
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    n = 8
    m = 2.0 ** -np.arange(1, n + 1)
    row = m[:, None] * (np.asarray(k_positions, np.float64) - np.max(k_positions))
    return np.broadcast_to(row[:, None, :], (n, len(q_positions), len(k_positions)))


# a17: exponents as exact fractions, ldexp
def right_slopes_fractions(num_heads):
    from fractions import Fraction

    def tree(n):
        return [Fraction(8 * h, n) for h in range(1, n + 1)]

    c = 1
    while 2 * c <= num_heads:
        c *= 2
    e = tree(c) + tree(2 * c)[::2][: num_heads - c]
    return [math.exp2(-float(x)) for x in e]


# a18: Toeplitz view: one vector per head, strided
def right_toeplitz_view(q_len, k_len):
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    q, k = np.asarray(q_positions, np.float64), np.asarray(k_positions, np.float64)
    m = 2.0 ** (-np.arange(1, 17) / 2)
    regular = (len(q) > 0 and len(k) > 0 and (np.diff(q) == 1).all() and (np.diff(k) == 1).all())
    if not regular:
        return -m[:, None, None] * np.abs(q[:, None] - k)
    base = np.ascontiguousarray(-m[:, None] * np.abs(np.arange(k[0] - q[-1], k[-1] - q[0] + 1)))
    s0, s1 = base.strides
    start = base[:, len(q) - 1:]
    return np.lib.stride_tricks.as_strided(
        start, (16, len(q), len(k)), (s0, -s1, s1), writeable=False)
