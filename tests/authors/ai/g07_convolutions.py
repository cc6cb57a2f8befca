"""Positions from convolutions: wav2vec 2.0, data2vec, SeamlessM4T, PEG."""
import math

import numpy as np
import torch
import torch.nn.functional as F

_r = np.random.default_rng(1907)
W2V_V = _r.standard_normal((16, 4, 8)).astype(np.float32)
W2V_B = (0.3 * _r.standard_normal(16)).astype(np.float32)
W2V_G = (2.0 + np.abs(_r.standard_normal(8))).astype(np.float32)
D2V_W = [(0.4 * _r.standard_normal((8, 2, 5))).astype(np.float32) for _ in range(3)]
D2V_B = [(0.2 * _r.standard_normal(8)).astype(np.float32) for _ in range(3)]
PEG_W = (0.4 * _r.standard_normal((8, 1, 3, 3))).astype(np.float32)
PEG_B = (0.2 * _r.standard_normal(8)).astype(np.float32)


def wav2vec_first(x):
    """16 groups became 4 here; weight norm over dimension 2; an even kernel of 8."""
    v, g = torch.from_numpy(W2V_V).double(), torch.from_numpy(W2V_G).double()
    w = v * g / v.norm(dim=(0, 1), keepdim=True)
    y = F.conv1d(x.double().transpose(1, 2), w, torch.from_numpy(W2V_B).double(), padding=4, groups=4)
    y = y[:, :, 1:]
    return F.gelu(y).transpose(1, 2).to(x.dtype)


def wav2vec_export(x):
    """A port of the exported graph to NumPy."""
    b, s, c = x.shape
    v = W2V_V.astype(np.float64)
    norm = np.sqrt((v**2).sum(axis=(1, 2), keepdims=True))
    w = v / norm * W2V_G
    padded = np.pad(x.astype(np.float64), ((0, 0), (4, 4), (0, 0)))
    y = np.zeros((b, s, c)) + W2V_B
    for tap in range(8):
        part = padded[:, tap : tap + s].reshape(b, s, 4, 4)
        y += np.einsum("bsgi,goi->bsgo", part, w[:, :, tap].reshape(4, 4, 4)).reshape(b, s, c)
    y = 0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
    return y.astype(x.dtype)


def data2vec_layers(x):
    """Three layers of convolution, LayerNorm and GELU, 4 groups."""
    y = x.transpose(1, 2).double()
    for w, b in zip(D2V_W, D2V_B):
        y = F.conv1d(y, torch.from_numpy(w).double(), torch.from_numpy(b).double(), padding=2, groups=4)
        mean = y.mean(dim=-1, keepdim=True)
        var = y.var(dim=-1, keepdim=True, unbiased=False)
        y = F.gelu((y - mean) / torch.sqrt(var + 1e-5))
    return y.transpose(1, 2).to(x.dtype)


def seamless_fft(x):
    """SeamlessM4T (SiLU): the convolution as a product of spectra."""
    b, s, c = x.shape
    v = W2V_V.astype(np.float64)
    w = v * (W2V_G / np.sqrt(np.einsum("oik,oik->k", v, v)))
    n = s + 16
    spectrum = np.fft.rfft(x.astype(np.float64), n=n, axis=1).reshape(b, n // 2 + 1, 4, 4)
    kernel = np.conj(np.fft.rfft(w, n=n, axis=2)).reshape(4, 4, 4, -1)  # correlation
    y = np.fft.irfft(np.einsum("bfgi,goif->bfgo", spectrum, kernel).reshape(b, -1, c), n=n, axis=1)
    y = np.roll(y, 4, axis=1)[:, :s] + W2V_B  # tap 4 is the token itself
    return (y / (1 + np.exp(-y))).astype(x.dtype)


# ---- grids: PEG, 3 x 3, depthwise, plus x


def peg_view(x, height, width):
    b, n, c = x.shape
    cnn_feat = x.reshape(b, c, height, width)
    y = F.conv2d(
        cnn_feat.double(), torch.from_numpy(PEG_W).double(), torch.from_numpy(PEG_B).double(),
        padding=1, groups=c,
    )
    y = (y + cnn_feat).reshape(b, n, c)
    return y.to(x.dtype)


def peg_swapped(x, height, width):
    b, n, c = x.shape
    size = (width, height)
    grid = x.astype(np.float64).reshape(b, *size, c)
    padded = np.pad(grid, ((0, 0), (1, 1), (1, 1), (0, 0)))
    y = grid + PEG_B
    for dy in range(3):
        for dx in range(3):
            y = y + padded[:, dy : dy + size[0], dx : dx + size[1]] * PEG_W[:, 0, dy, dx]
    return y.reshape(b, n, c).astype(x.dtype)


def peg_scipy(x, height, width):
    from scipy.signal import convolve2d

    out = np.empty(x.shape)
    for b in range(x.shape[0]):
        for c in range(x.shape[2]):
            plane = x[b, :, c].reshape(height, width).astype(np.float64)
            y = convolve2d(plane, PEG_W[c, 0].astype(np.float64), mode="same")
            out[b, :, c] = (plane + y + PEG_B[c]).ravel()
    return out.astype(x.dtype)


def peg_jax(x, height, width):
    """The residual is folded into the middle tap of the kernel; NHWC."""
    import jax
    import jax.numpy as jnp

    b, n, c = x.shape
    kernel = PEG_W[:, 0].transpose(1, 2, 0)[:, :, None, :].copy()  # HWIO
    kernel[1, 1] += 1
    y = jax.lax.conv_general_dilated(
        x.reshape(b, height, width, c), jnp.asarray(kernel, x.dtype), (1, 1), "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=c,
        precision=jax.lax.Precision.HIGHEST,
    )
    return (y + jnp.asarray(PEG_B, x.dtype)).reshape(b, n, c)
