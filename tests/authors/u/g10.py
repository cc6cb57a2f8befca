"""Two modules of an inference engine."""

import math

import numpy as np

W = 10000.0 ** -(np.arange(0, 64, 2) / 64)


def _halves(x, p, w=W):
    ang = np.asarray(p, float)[..., None] * w
    ang = ang[:, None] if ang.ndim == 3 else ang
    c, s = np.cos(ang), np.sin(ang)
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)


def _pairs(x, p, w=W):
    ang = np.asarray(p, float)[..., None] * w
    z = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * ang)
    return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)


# ---------------------------------------------------------------------------------------------
def decode_neighbours(x, chunks):
    """Incremental rotation: the prompt by chunks, then token by token."""
    out, at = [], 0
    for i, n in enumerate(chunks):
        out.append(_pairs(x[..., at : at + n, :], np.arange(i, i + n)))
        at += n
    return np.concatenate(out, axis=-2)


# ---------------------------------------------------------------------------------------------
def xpos_port(q, k, q_positions, k_positions, scale_base=256, gamma=0.4):
    """torchscale: scale_base from an early configuration; upscale for keys, downscale for queries."""
    d = q.shape[-1]
    zeta = (np.arange(0, d, 2) + gamma * d) / (1.4 * d)

    def one(x, p, power):
        p = np.asarray(p, float)
        size = zeta ** (power * p[..., None] / scale_base)
        size = np.concatenate([size, size], axis=-1)
        size = size[:, None] if size.ndim == 3 else size
        return (_halves(x.astype(np.float64), p) * size).astype(x.dtype)

    return one(q, q_positions, -1.0), one(k, k_positions, 1.0)


# ---------------------------------------------------------------------------------------------
def gqa_scores(q, k):
    """Logits of a decoding step."""
    Q, K = q.shape[-2], k.shape[-2]
    first = K - Q + 1
    w = 10000.0 ** -(np.arange(32) / 31)
    qr, kr = _halves(q, np.arange(first, first + Q), w), _halves(k, np.arange(K), w)
    return (qr @ np.swapaxes(kr, -1, -2) / math.sqrt(q.shape[-1])).astype(q.dtype)
