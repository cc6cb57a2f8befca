"""Rarer surfaces: slopes of a rank, scores by offset, convolutions, networks of offsets, gates."""
import math

import numpy as np
import torch
import torch.nn.functional as F


def _wave(*shape, phase=0.0):
    n = math.prod(shape)
    return np.round(np.sin(1.3 * np.arange(n) + phase).reshape(shape), 2)


DYN_W = [_wave(5, 1, phase=0.3), _wave(5, 5, phase=0.9), _wave(2, 5, phase=1.7)]
DYN_B = [_wave(5, phase=0.1), _wave(5, phase=2.0), _wave(2, phase=0.5)]
CONV_W = _wave(8, 4, 6, phase=0.2)
CONV_B = _wave(8, phase=1.2)
GATE_T = _wave(32, 2, phase=0.6)
GATE_W = _wave(2, 8, phase=0.4)
GATE_B = [0.3, -0.2]
GATE_S = [1.5, 0.7]


def _tree(n):
    c = 2 ** (n.bit_length() - 1)
    return [2 ** (-8 * h / c) for h in range(1, c + 1)] + [
        2 ** (-4 * h / c) for h in range(1, 2 * c, 2)][: n - c]


# ---- u01 (wrong): tensor parallel: the slopes are made for the rank's number of heads
def rank_slopes_local(num_heads, tp_size, tp_rank):
    local = num_heads // tp_size
    return np.array(_tree(local))


# ---- u02 (wrong): the rows of rel are taken in rising order of the offset
def relative_scores_reversed(q, rel):
    s = q.shape[0]
    by = q.astype(np.float64) @ rel.astype(np.float64).T
    i, j = np.arange(s)[:, None], np.arange(s)[None]
    return np.take_along_axis(by, i - j + s - 1, axis=1).astype(q.dtype)


# ---- u03 (wrong): an even kernel: the first frame is dropped, not the last
def conv_drop_first(x):
    w, b = torch.tensor(CONV_W, dtype=x.dtype), torch.tensor(CONV_B, dtype=x.dtype)
    y = F.conv1d(x.transpose(1, 2), w, b, padding=w.shape[-1] // 2, groups=2)
    return F.gelu(y[:, :, 1:]).transpose(1, 2)


# ---- u04 (wrong): the logarithm of the distance loses the sign
def dynamic_log_unsigned(q_len, k_len):
    r = np.abs(np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len)[None]).astype(float)
    h = np.log(r + 1)[..., None]
    for n, (w, b) in enumerate(zip(DYN_W, DYN_B)):
        h = h @ w.T + b
        if n < len(DYN_W) - 1:
            h = h / (1 + np.exp(-h))
    return h.transpose(2, 0, 1)


# ---- u05 (wrong): WavLM: the constant multiplies (r - 1) instead of r
def gated_constant_outside(q, k):
    n_q, n_k, d = q.shape[-2], k.shape[-2], q.shape[-1]
    q, k = q.double(), k.double()
    i, j = torch.arange(n_k - n_q, n_k)[:, None], torch.arange(n_k)[None]
    r = j - i
    n = r.abs()
    far = 8 + (torch.log(n.clamp(min=1).float() / 8) / math.log(16) * 8).long()
    bucket = torch.where(n < 8, n, far.clamp(max=15)) + 16 * (r > 0)
    bias = torch.tensor(GATE_T)[bucket].permute(2, 0, 1)
    gates = torch.sigmoid(q @ torch.tensor(GATE_W).T + torch.tensor(GATE_B, dtype=torch.float64))
    a, b = gates[..., :1], gates[..., 1:]
    const = torch.tensor(GATE_S, dtype=torch.float64)[:, None, None]
    gate = a * (b - 1.0) * const + 2.0
    return (q @ k.mT / math.sqrt(d) + gate * bias).float()


# ---- u06 (right): the convolution as a matrix over an unfolded, padded signal
def right_conv_unfold(x):
    b, s, c = x.shape
    k, groups = CONV_W.shape[-1], 2
    pad = np.zeros((b, s + k, c))
    pad[:, k // 2:k // 2 + s] = x
    view = np.lib.stride_tricks.sliding_window_view(pad, k, axis=1)[:, :s]  # (B, S, C, K)
    out = np.empty((b, s, c))
    width = c // groups
    for g in range(groups):
        at = slice(g * width, (g + 1) * width)
        out[..., at] = np.einsum("bsck,ock->bso", view[:, :, at], CONV_W[at])
    y = out + CONV_B
    erf = np.vectorize(math.erf, otypes=[float])
    return (y * 0.5 * (1 + erf(y / math.sqrt(2)))).astype(x.dtype)
