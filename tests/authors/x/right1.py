"""Right, but unusual: tables and biases."""
import functools
import math
import os
from fractions import Fraction

import numpy as np
import torch

W = np.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), "weights.npz"))


# 016: Sinusoidal(64): complex exponentials seen as pairs of reals
def complex_view(positions):
    w = 10000.0 ** (-np.arange(32) / 32)
    z = 1j * np.exp(-1j * np.multiply.outer(np.asarray(positions, np.float64), w))
    return np.ascontiguousarray(z).view(np.float64).astype(np.float32)  # sin + i cos


# 023: Sinusoidal(48, layout="concat", denominator="half-1", offset=2): two small tables and the addition theorem
@functools.cache
def _coarse_fine(dim=48, step=64):
    w = np.exp(-np.log(10000.0) * np.arange(dim // 2) / (dim // 2 - 1))
    return w, np.exp(1j * np.arange(step)[:, None] * w)


def coarse_fine(positions):
    w, fine = _coarse_fine()
    p = np.asarray(positions) + 2
    q, r = np.divmod(p, 64)
    whole = r.dtype.kind in "iu"
    z = np.exp(1j * (q * 64)[:, None] * w) * (fine[r] if whole else np.exp(1j * r[:, None] * w))
    return np.concatenate([z.imag, z.real], -1).astype(np.float32)


# 051: Sinusoidal(40): all sines, the cosine as a sine with a phase; result is a transposed view
def phase_table(positions):
    col = np.arange(40)
    w = 10000.0 ** (-2.0 * (col // 2) / 40)
    t = np.sin(w[:, None] * np.asarray(positions, float)[None] + (col % 2)[:, None] * (math.pi / 2))
    return t.T


# 073: Sinusoidal(24, layout="concat"): module with a buffer that is rebuilt, adds to a non-contiguous x
class AddModule(torch.nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.dim = dim
        self.register_buffer("pe", torch.empty(0, dim), persistent=False)

    def extend(self, n):
        w = torch.pow(10000.0, -torch.arange(self.dim // 2, dtype=torch.float64) / (self.dim // 2))
        a = torch.outer(torch.arange(n, dtype=torch.float64), w)
        self.pe = torch.cat([a.sin(), a.cos()], 1)

    def forward(self, x):
        if x.size(1) > self.pe.size(0):
            self.extend(2 * x.size(1))
        y = x.transpose(0, 1) + self.pe[: x.size(1)].unsqueeze(1).to(x.dtype)
        return y.transpose(0, 1)


_add = AddModule()


def add_tokens(x):
    return _add(torch.as_tensor(x))


# 074: Sinusoidal2D(32, axis_order="wh"), surface grid: separate tables, repeat and tile
def tiled_grid(height, width):
    def axis(n):
        w = 1 / 10000 ** (np.arange(8) / 8)
        a = np.arange(n)[:, None] * w
        return np.hstack([np.sin(a), np.cos(a)])

    return np.asfortranarray(np.hstack([np.tile(axis(width), (height, 1)), np.repeat(axis(height), width, axis=0)]))


# 075: DETRSine(32, base=20.0), surface grid: no mask, one formula per axis
def detr_closed_form(height, width):
    def axis(n):
        c = 2 * np.pi * np.arange(1, n + 1) / (n + 1e-6)
        a = c[:, None] * 20.0 ** -(np.arange(8) / 8)
        return np.dstack([np.sin(a), np.cos(a)]).reshape(n, 16)

    out = np.empty((height, width, 32), np.float32)
    out[..., :16] = axis(height)[:, None]
    out[..., 16:] = axis(width)[None]
    return out.reshape(-1, 32)


# 076: nerf, surface table: sines and cosines of the octaves by the double-angle formulas
def nerf_double_angle(positions):
    x = np.asarray(positions, np.float64)
    s, c = np.sin(np.pi * x), np.cos(np.pi * x)
    rows = [x]
    for _ in range(6):
        rows += [s, c]
        s, c = 2 * s * c, (c - s) * (c + s)
    return np.concatenate(rows).T


# 077: axial, surface table: np.unravel_index
def reformer_unravel(positions):
    p = np.asarray(positions)
    i, j = np.unravel_index(p, (6, 9))
    full = np.concatenate([np.repeat(W["ax0"], 9, 0), np.tile(W["ax1"], (6, 1))], 1)
    assert np.array_equal(full[p, :8], W["ax0"][i]) and np.array_equal(full[p, 8:], W["ax1"][j])
    return full[p]


# 078: ALiBi(12), surface slopes: ggml's m0 and m1
def ggml_slopes(num_heads, max_bias=8.0):
    n = 1 << (num_heads.bit_length() - 1)
    m0, m1 = 2.0 ** (-max_bias / n), 2.0 ** (-(max_bias / 2.0) / n)
    return [m0 ** (h + 1) if h < n else m1 ** (2 * (h - n) + 1) for h in range(num_heads)]


# 079: ALiBi(8), surface bias: MPT's row of key positions, which softmax does not distinguish
def mpt_row(q_len, k_len):
    m = 1.0 / torch.pow(2, torch.arange(1, 9, dtype=torch.float32))
    return (torch.arange(1 - k_len, 1).view(1, 1, k_len) * m.view(8, 1, 1)).expand(8, q_len, k_len)


# 080: t5, surface bucket: exact thresholds in rational numbers
def _thresholds(me=8, md=128, n=8):
    out = []
    for t in range(1, n):
        v = me
        while Fraction(v, me) ** n < Fraction(md, me) ** t:
            v += 1
        out.append(v)
    return np.array([*range(1, me + 1), *out])


_T = _thresholds()


def bucket_thresholds(relative_position):
    r = np.asarray(relative_position)
    return np.searchsorted(_T, np.abs(r), side="right") + 16 * (r > 0)


# 081: t5c, surface bias: strided view of one row of offsets
def toeplitz_t5(q_len, k_len):
    r = np.arange(-(k_len - 1), q_len)  # key minus query
    n = np.maximum(-r, 0)
    big = np.searchsorted([19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113], n, side="right") + 16
    row = np.ascontiguousarray(W["t5c"][np.where(n < 16, n, big)].T)
    base = row[:, q_len - 1 :]
    sh, sn = row.strides
    return np.lib.stride_tricks.as_strided(base, (4, q_len, k_len), (sh, -sn, sn), writeable=False)
