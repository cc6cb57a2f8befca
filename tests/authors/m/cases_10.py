import math
import functools
import itertools

import numpy as np

import posenc_ref as P

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


_rng = np.random.default_rng(81)


def _erf(x):
    return np.vectorize(math.erf)(x)


def _gelu(x):
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def _conv1(x, w, b, groups, left, keep=None):
    """x (B, S, C); taps at t + k - left, zeros outside."""
    B, S, C = x.shape
    c, K = C // groups, w.shape[-1]
    pad = np.zeros((B, S + 2 * K, C))
    pad[:, K:K + S] = x
    out = np.zeros((B, S, C))
    for k in range(K):
        sl = pad[:, K + k - left:K + k - left + S]
        for g in range(groups):
            out[..., g * c:(g + 1) * c] += sl[..., g * c:(g + 1) * c] @ w[g * c:(g + 1) * c, :, k].T
    return out + b


_V, _BI, _GA = _rng.standard_normal((16, 4, 8)), _rng.standard_normal(16), _rng.uniform(0.5, 2, 8)
_WN = _V / np.sqrt((_V ** 2).sum((0, 1))) * _GA
_CP = P.ConvPositions((_V,), (_BI,), (_GA,), groups=4)


# ---- m148 conv: drops the first
def make(bug):
    def convolve(x):
        return _gelu(_conv1(x.astype(float), _WN, _BI, 4, 3 if bug else 4)).astype(x.dtype)
    return convolve
case("m148", make, _CP, "convolve",
     "Of the one token too many that an even kernel makes, the first is dropped instead of the last, so all outputs are shifted by one token.",
     "conv-drops-first", "drop the last token (SamePad)")


# ---- m149 conv weight norm over dim 0
def make(bug):
    n = np.sqrt((_V ** 2).sum((1, 2), keepdims=True)) if bug else np.sqrt((_V ** 2).sum((0, 1), keepdims=True))
    w = _V / n * _GA
    def convolve(x):
        return _gelu(_conv1(x.astype(float), w, _BI, 4, 4)).astype(x.dtype)
    return convolve
case("m149", make, _CP, "convolve",
     "The weight norm is taken over dimensions 1 and 2 (one norm for each output channel, the default dim=0) instead of one norm for each tap (dim=2).",
     "weight-norm-dim", "use dim=2")


# ---- m150 conv: gelu tanh
def make(bug):
    act = (lambda z: 0.5 * z * (1 + np.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z ** 3)))) if bug else _gelu
    return lambda x: act(_conv1(x.astype(float), _WN, _BI, 4, 4)).astype(x.dtype)
case("m150", make, _CP, "convolve",
     "GELU is approximated with tanh instead of erf.", "gelu-tanh", "use the exact GELU")


# ---- m151 conv: kernel flipped
def make(bug):
    w = _WN[..., ::-1] if bug else _WN
    return lambda x: _gelu(_conv1(x.astype(float), w, _BI, 4, 4)).astype(x.dtype)
case("m151", make, _CP, "convolve",
     "The kernel is flipped in time (a true convolution, numpy.convolve), while the checkpoint's layer is a cross-correlation.",
     "kernel-flipped", "do not flip the kernel")


# ---- m152 conv: groups strided
def make(bug):
    def convolve(x):
        z = x.astype(float)
        if bug:
            z = z.reshape(*z.shape[:2], 4, 4).swapaxes(2, 3).reshape(z.shape)
        return _gelu(_conv1(z, _WN, _BI, 4, 4)).astype(x.dtype)
    return convolve
case("m152", make, _CP, "convolve",
     "The input channels of a group are taken with a stride (channel % groups) instead of as consecutive channels.", "groups-strided", "groups are consecutive channels")


# ---- m153 data2vec: layer norm after gelu
_W5 = [_rng.standard_normal((8, 4, 5)) / 3 for _ in range(3)]
_B5 = [_rng.standard_normal(8) for _ in range(3)]
def _ln(z):
    return (z - z.mean(-1, keepdims=True)) / np.sqrt(z.var(-1, keepdims=True) + 1e-5)
def make(bug):
    def convolve(x):
        z = x.astype(float)
        for w, b in zip(_W5, _B5):
            z = _conv1(z, w, b, 2, 2)
            z = _ln(_gelu(z)) if bug else _gelu(_ln(z))
        return z.astype(x.dtype)
    return convolve
case("m153", make, P.ConvPositions(tuple(_W5), tuple(_B5), groups=2, layer_norm=True), "convolve",
     "The LayerNorm follows GELU instead of standing before it, in every layer.", "norm-after-gelu", "normalise, then GELU")


# ---- m154 data2vec: only first weights reused
def make(bug):
    def convolve(x):
        z = x.astype(float)
        for n in range(3):
            z = _gelu(_ln(_conv1(z, _W5[n], _B5[0 if bug else n], 2, 2)))
        return z.astype(x.dtype)
    return convolve
case("m154", make, P.ConvPositions(tuple(_W5), tuple(_B5), groups=2, layer_norm=True), "convolve",
     "All layers add the bias of the first layer.", "first-bias-reused", "use biases[n] in layer n")


# ---- m155 PEG: residual missing
_WP, _BP = _rng.standard_normal((6, 1, 3, 3)), _rng.standard_normal(6)
def _peg(x, h, w, kernel):
    B, n, C = x.shape
    g = np.pad(x.astype(float).reshape(B, h, w, C), ((0, 0), (1, 1), (1, 1), (0, 0)))
    y = np.zeros((B, h, w, C)) + _BP
    for a in range(3):
        for b in range(3):
            y += g[:, a:a + h, b:b + w] * kernel[:, 0, a, b]
    return y.reshape(B, n, C)
_PE = P.ConvPositions((_WP,), (_BP,), groups=6, activation="none", residual=True)
def make(bug):
    return lambda x, height, width: (_peg(x, height, width, _WP) + (0 if bug else x)).astype(x.dtype)
case("m155", make, _PE, "convolve_grid", "The input is not added to the output of the convolution.", "peg-residual", "return x + conv(x)")


# ---- m156 PEG: height and width swapped in view
def make(bug):
    def peg(x, height, width):
        h, w = (width, height) if bug else (height, width)
        return (_peg(x, h, w, _WP) + x).astype(x.dtype)
    return peg
case("m156", make, _PE, "convolve_grid",
     "The tokens are viewed as a (width, height) grid, which mixes up the neighbours on grids that are not square.", "peg-view-swapped", "view as (height, width)")


# ---- m157 PEG: kernel transposed
def make(bug):
    k = _WP.swapaxes(2, 3) if bug else _WP
    return lambda x, height, width: (_peg(x, height, width, k) + x).astype(x.dtype)
case("m157", make, _PE, "convolve_grid",
     "The kernel's two spatial axes are exchanged (a checkpoint converted from another layout of the weight).", "peg-kernel-transposed", "keep (out, in, kh, kw)")


# ---- m158 PEG: padding circular/replicate
def make(bug):
    def peg(x, height, width):
        B, n, C = x.shape
        g = np.pad(x.astype(float).reshape(B, height, width, C), ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge" if bug else "constant")
        y = sum(g[:, a:a + height, b:b + width] * _WP[:, 0, a, b] for a in range(3) for b in range(3)) + _BP
        return (y.reshape(B, n, C) + x).astype(x.dtype)
    return peg
case("m158", make, _PE, "convolve_grid",
     "The border is padded with copies of the edge tokens instead of zeros.", "peg-replicate", "pad with zeros")


# ---- m159 right: conv by FFT-free Toeplitz matrices
def make(bug):
    def convolve(x):
        B, S, C = x.shape
        full = np.zeros((C, C, 8))
        for g in range(4):
            full[4 * g:4 * g + 4, 4 * g:4 * g + 4] = _WN[4 * g:4 * g + 4]
        t = np.arange(S)
        k = t[None, :] - t[:, None] + 4            # tap of input s for output t
        M = np.where(((k >= 0) & (k < 8))[..., None, None], full.transpose(2, 0, 1)[np.clip(k, 0, 7)], 0)
        return _gelu(np.einsum("tsoi,bsi->bto", M, x.astype(float)) + _BI).astype(x.dtype)
    return convolve
case("m159", make, _CP, "convolve", "Right: Toeplitz matrices of taps.", "right")


# ---- m160 right: PEG by shifted adds on the output
def make(bug):
    def peg(x, height, width):
        B, n, C = x.shape
        g = x.astype(float).reshape(B, height, width, C)
        y = g + _BP
        for a, b in itertools.product((-1, 0, 1), repeat=2):
            ys, yt = slice(max(a, 0), height + min(a, 0)), slice(max(-a, 0), height + min(-a, 0))
            xs, xt = slice(max(b, 0), width + min(b, 0)), slice(max(-b, 0), width + min(-b, 0))
            y[:, yt, xt] += g[:, ys, xs] * _WP[:, 0, a + 1, b + 1]
        return y.reshape(B, n, C).astype(x.dtype)
    return peg
case("m160", make, _PE, "convolve_grid", "Right: shifted slices without padding.", "right")
