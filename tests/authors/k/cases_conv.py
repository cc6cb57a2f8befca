"""Author K: convolution positions."""
import math

import numpy as np
import torch
import torch.nn.functional as F

from posenc_ref import ConvPositions

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def params(seed, c, g, k, gain=False):
    rng = np.random.default_rng(seed)
    k = k if isinstance(k, tuple) else (k,)
    w = (rng.normal(size=(c, c // g, *k)) / math.sqrt(c // g * math.prod(k))).astype(np.float32)
    b = rng.normal(size=c).astype(np.float32) * 0.3
    return (w, b, rng.uniform(0.5, 2, size=k).astype(np.float32)) if gain else (w, b)


def conv(x, w, b, g, pad, keep=None, stride=1, flip=False):
    """x (..., S, C), float64, torch"""
    x = torch.as_tensor(np.asarray(x, np.float64))
    lead = x.shape[:-2]
    y = x.reshape(-1, *x.shape[-2:]).transpose(1, 2)
    w = torch.as_tensor(np.asarray(w, np.float64))
    if flip:
        w = w.flip(-1)
    y = F.conv1d(F.pad(y, pad), w, torch.as_tensor(np.asarray(b, np.float64)), stride=stride, groups=g)
    y = y.transpose(1, 2)
    if keep is not None:
        y = y[:, :keep] if keep >= 0 else y[:, -(-keep):]
    return y.reshape(*lead, *y.shape[1:])


def out(y, x):
    return y.numpy().astype(np.asarray(x).dtype)


def gelu(y):
    return F.gelu(y)


# ---- k141: wav2vec2: which token is dropped
def make(bug):
    w, b, g = params(141, 16, 4, 8, True)
    wn = w * (g / np.sqrt((w.astype(float) ** 2).sum((0, 1))))

    def fn(x):
        y = conv(x, wn, b, 4, (4, 4))
        y = y[..., 1:, :] if bug else y[..., :-1, :]
        return out(gelu(y), x)

    make.enc = ConvPositions((w,), (b,), (g,), groups=4)
    return fn


make(False)
case("k141", make, make.enc, "convolve",
     "of the K//2-padded result of the even kernel the first token is dropped instead of the last, so everything is shifted by one token",
     "even-kernel-drop", "drop the last token")


# ---- k142: weight norm over the wrong dimension
def make(bug):
    w, b, g = params(142, 12, 3, 6, True)
    v = w.astype(float)
    if bug:
        n = np.sqrt((v ** 2).sum((1, 2), keepdims=True))
    else:
        n = np.sqrt((v ** 2).sum((0, 1), keepdims=True))
    wn = v / n * g

    def fn(x):
        return out(gelu(conv(x, wn, b, 3, (3, 2))), x)

    make.enc = ConvPositions((w,), (b,), (g,), groups=3)
    return fn


make(False)
case("k142", make, make.enc, "convolve",
     "weight norm divides by the norm of each output channel (dim=0, the default) instead of each tap (dim=2)",
     "weight-norm-dim", "use weight_norm(dim=2)")


# ---- k143: tanh GELU
def make(bug):
    w, b = params(143, 8, 2, 5)

    def fn(x):
        y = conv(x, w, b, 2, (2, 2))
        return out(F.gelu(y, approximate="tanh" if bug else "none"), x)

    make.enc = ConvPositions((w,), (b,), groups=2)
    return fn


make(False)
case("k143", make, make.enc, "convolve", "GELU is the tanh approximation instead of the erf form",
     "gelu-tanh", "use the exact GELU")


# ---- k146: PEG without the residual for one-row grids... padding replicate
def make(bug):
    w, b = params(146, 6, 6, (3, 3))

    def fn(x, height, width):
        y = torch.as_tensor(np.asarray(x, np.float64))
        lead = y.shape[:-2]
        z = y.reshape(-1, height, width, 6).permute(0, 3, 1, 2)
        z = F.pad(z, (1, 1, 1, 1), mode="replicate" if bug else "constant")
        z = F.conv2d(z, torch.as_tensor(w).double(), torch.as_tensor(b).double(), groups=6)
        z = z.flatten(2).transpose(1, 2).reshape(*lead, height * width, 6)
        return out(y + z, x)

    make.enc = ConvPositions((w,), (b,), groups=6, activation="none", residual=True)
    return fn


make(False)
case("k146", make, make.enc, "convolve_grid",
     "the border is padded by replication instead of zeros, which are what tells PEG the position",
     "padding-mode", "pad with zeros")


# ---- k147: PEG: grid reshaped as width x height
def make(bug):
    w, b = params(147, 4, 4, (3, 3))

    def fn(x, height, width):
        y = np.asarray(x, np.float64)
        h, v = (width, height) if bug else (height, width)
        z = y.reshape(-1, h, v, 4)
        p = np.pad(z, ((0, 0), (1, 1), (1, 1), (0, 0)))
        s = np.zeros_like(z) + b
        for a in range(3):
            for c in range(3):
                s = s + p[:, a:a + h, c:c + v] * w[:, 0, a, c]
        return (y + s.reshape(y.shape)).astype(np.asarray(x).dtype)

    make.enc = ConvPositions((w,), (b,), groups=4, activation="none", residual=True)
    return fn


make(False)
case("k147", make, make.enc, "convolve_grid",
     "the tokens are reshaped to (width, height), so images that are not square are cut at the wrong places",
     "grid-transposed", "reshape to (height, width)")


# ---- k149: batch rows leak at the borders
def make(bug):
    w, b = params(149, 8, 4, 5)

    def fn(x):
        a = np.asarray(x)
        if bug:
            flat = a.reshape(1, -1, a.shape[-1])
            return out(gelu(conv(flat, w, b, 4, (2, 2))).reshape(a.shape), x)
        return out(gelu(conv(a, w, b, 4, (2, 2))), x)

    make.enc = ConvPositions((w,), (b,), groups=4)
    return fn


make(False)
case("k149", make, make.enc, "convolve",
     "the rows of the batch are joined into one sequence, so the borders see tokens of the neighbouring rows",
     "batch-leak", "convolve every row by itself")


# ================================================================ right
# ---- k150: FFT
def make(bug):
    w, b, g = params(150, 12, 4, 16, True)
    wn = w.astype(float) * (g / np.sqrt((w.astype(float) ** 2).sum((0, 1))))

    def fn(x):
        a = np.asarray(x, np.float64)
        s = a.shape[-2]
        n = s + 32
        X = np.fft.rfft(np.concatenate([np.zeros((*a.shape[:-2], 8, 12)), a], -2), n, axis=-2)
        W = np.conj(np.fft.rfft(wn, n, axis=-1))
        X = X.reshape(*X.shape[:-1], 4, 3)
        Y = np.einsum("...fgi,goif->...fgo", X, W.reshape(4, 3, 3, -1))
        y = np.fft.irfft(Y.reshape(*Y.shape[:-2], 12), n, axis=-2)[..., :s, :] + b
        e = torch.erf(torch.as_tensor(y) / math.sqrt(2)).numpy()
        return (y * 0.5 * (1 + e)).astype(np.asarray(x).dtype)

    make.enc = ConvPositions((w,), (b,), (g,), groups=4)
    return fn


make(False)
case("k150", make, make.enc, "convolve", "right: by FFT in float64", "right")


# ---- k151: 2-D by unfold
def make(bug):
    w, b = params(151, 8, 8, (3, 3))

    def fn(x, height, width):
        y = torch.as_tensor(x).float()
        z = y.reshape(-1, height, width, 8).permute(0, 3, 1, 2)
        u = F.unfold(z, 3, padding=1).reshape(-1, 8, 9, height * width)
        s = torch.einsum("bckn,ck->bnc", u, torch.as_tensor(w).reshape(8, 9)) + torch.as_tensor(b)
        return (y + s.reshape(y.shape)).to(x.dtype)

    make.enc = ConvPositions((torch.tensor(w),), (torch.tensor(b),), groups=8, activation="none", residual=True)
    return fn


make(False)
case("k151", make, make.enc, "convolve_grid", "right: unfold and einsum in torch", "right", backend="torch")
