"""Convolutional positions: wrong and right functions of `convolve` and `convolve_grid`."""

import numpy as np

from tests.mutants._case import correct, wrong
from tests.mutants.score.score_terms import table

DIM, TAPS, GROUPS = 12, 8, 3
V, GAIN, BIAS = table(DIM, 4, TAPS, seed=0.35), table(TAPS, seed=0.45) * 2, table(DIM, seed=0.55)
WAV2VEC = {"convolution": "ConvPositions", "weights": [V], "biases": [BIAS], "gains": [GAIN],
          "groups": GROUPS}  # fmt: skip


def erf(x):
    """Abramowitz and Stegun would be too coarse: the integral by Gauss-Legendre, 48 nodes."""
    nodes, weights = np.polynomial.legendre.leggauss(48)
    half = x[..., None] / 2
    return (
        (2 / np.sqrt(np.pi))
        * (np.exp(-((half * (nodes + 1)) ** 2)) * weights).sum(-1)
        * half[..., 0]
    )


def gelu(x):
    """x Phi(x)."""
    return x * (1 + erf(x / np.sqrt(2))) / 2


def weight_norm(axes=(0, 1)):
    """The weight of wav2vec 2.0's convolution, normalised over these axes."""
    return V * GAIN / np.sqrt((V * V).sum(axis=axes, keepdims=True))


def positions(x, kernel=None, *, ends=(4, 4), drop=-1, act=gelu, mode="constant", bias=BIAS):
    """A grouped convolution over windows of the padded tokens, then GELU."""
    kernel = weight_norm() if kernel is None else kernel
    padded = np.pad(x.astype(np.float64), ((0, 0), ends, (0, 0)), mode=mode)
    windows = np.lib.stride_tricks.sliding_window_view(padded, TAPS, axis=1)  # (B, S + 1, C, K)
    windows = windows.reshape(*windows.shape[:2], GROUPS, 4, TAPS)
    y = np.einsum("bsgik,goik->bsgo", windows, kernel.reshape(GROUPS, 4, 4, TAPS))
    y = act(y.reshape(*y.shape[:2], DIM) + bias)
    return {-1: y[:, :-1], 0: y[:, 1:], None: y}[drop].astype(x.dtype)


@wrong("conv-padding", surface="convolve", encoding=WAV2VEC, thread="class: the first is dropped")
def conv_first_token_dropped(x):
    """SamePad cuts at the wrong end."""
    return positions(x, drop=0)


@wrong("shape", surface="convolve", encoding=WAV2VEC, thread="class: SamePad left out")
def conv_last_token_kept(x):
    """S + 1 tokens."""
    return positions(x, drop=None)


@wrong("conv-padding", surface="convolve", encoding=WAV2VEC, thread="class: a causal convolution")
def conv_causal(x):
    """All zeros before the first token."""
    return positions(x, ends=(7, 1))


@wrong("conv-padding", surface="convolve", encoding=WAV2VEC, thread="class: padding_mode replicate")
def conv_edges_repeated(x):
    """The ends are repeated, so that no token is told its place."""
    return positions(x, mode="edge")


@wrong("weight-norm", surface="convolve", encoding=WAV2VEC, thread="class: weight_norm's dim=0")
def conv_weight_norm_of_dim_0(x):
    """The default of weight_norm, with gains for each tap."""
    return positions(x, weight_norm((1, 2)))


@wrong("weight-norm", surface="convolve", encoding=WAV2VEC, thread="class: weight_v loaded alone")
def conv_without_weight_norm(x):
    """weight_v as the weight."""
    return positions(x, V)


@wrong("activation", surface="convolve", encoding=WAV2VEC, thread="class: gelu_pytorch_tanh")
def conv_with_tanh(x):
    """GELU with tanh."""
    return positions(
        x,
        act=lambda y: y / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3))),
    )


@wrong("conv-residual", surface="convolve", encoding=WAV2VEC, thread="class: x added twice")
def conv_with_x(x):
    """x is added inside, and again by the caller."""
    return x + positions(x)


@wrong("conv-kernel", surface="convolve", encoding=WAV2VEC, thread="class: numpy.convolve")
def conv_flipped(x):
    """A true convolution."""
    return positions(x, weight_norm()[..., ::-1])


@wrong("conv-bias", surface="convolve", encoding=WAV2VEC, thread="class: bias not loaded")
def conv_without_bias(x):
    """bias=False."""
    return positions(x, bias=0)


@wrong("conv-groups", surface="convolve", encoding=WAV2VEC, thread="class: channels interleaved")
def conv_of_strided_groups(x):
    """Channel c is in group c % groups."""
    order = np.arange(DIM).reshape(4, GROUPS).T.ravel()
    return positions(x[..., order])


@correct(surface="convolve", encoding=WAV2VEC, thread="class: windows and einsum")
def conv_of_windows(x):
    """As wav2vec 2.0 has it."""
    return positions(x)


# --- layers --------------------------------------------------------------------------------------

STACK = [(table(6, 6, 3, seed=0.1 * n), table(6, seed=0.7 + 0.1 * n)) for n in range(3)]
DATA2VEC = {"convolution": "ConvPositions", "weights": [w for w, _ in STACK],
            "biases": [b for _, b in STACK], "layer_norm": True}  # fmt: skip


def standard(y):
    """LayerNorm without parameters."""
    return (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-5)


def stacked(x, layers=STACK, norm=standard):
    """Convolution, LayerNorm and GELU, in each layer."""
    y = x.astype(np.float64)
    for weight, bias in layers:
        padded = np.pad(y, ((0, 0), (1, 1), (0, 0)))
        taps = (padded[:, k : k + y.shape[1]] @ weight[..., k].T for k in range(3))
        y = gelu(norm(sum(taps) + bias))
    return y.astype(x.dtype)


@wrong("conv-norm", surface="convolve", encoding=DATA2VEC, thread="class: affine-free, so left out")
def conv_layers_without_norm(x):
    """A LayerNorm without parameters has no entry in the checkpoint, and is forgotten."""
    return stacked(x, norm=lambda y: y)


@wrong("conv-layers", surface="convolve", encoding=DATA2VEC, thread="class: range(depth - 1)")
def conv_layers_but_the_last(x):
    """One layer too few."""
    return stacked(x, STACK[:-1])


@correct(surface="convolve", encoding=DATA2VEC, thread="class: layer by layer")
def conv_layers_of_data2vec(x):
    """As data2vec has it."""
    return stacked(x)


# --- grids ---------------------------------------------------------------------------------------

DEPTHWISE, SHIFT = table(6, 1, 3, 3, seed=0.65), table(6, seed=0.75)
PEG = {"convolution": "ConvPositions", "weights": [DEPTHWISE], "biases": [SHIFT], "groups": 6,
       "activation": "none", "residual": True}  # fmt: skip


def peg(x, height, width, kernel=DEPTHWISE, residual=True, shape=None):
    """Nine shifted copies of the grid, each times its tap."""
    h, w = shape or (height, width)
    grid = np.pad(x.reshape(len(x), h, w, -1), ((0, 0), (1, 1), (1, 1), (0, 0)))
    y = sum(grid[:, a : a + h, b : b + w] * kernel[:, 0, a, b] for a in range(3) for b in range(3))
    return (y + SHIFT).reshape(x.shape).astype(x.dtype) + x * x.dtype.type(residual)


@wrong("conv-residual", surface="convolve_grid", encoding=PEG, thread="class: residual missing")
def peg_without_x(x, height, width):
    """The convolution alone."""
    return peg(x, height, width, residual=False)


@wrong("conv-kernel", surface="convolve_grid", encoding=PEG, thread="class: kernel transposed")
def peg_with_height_and_width_exchanged(x, height, width):
    """Tap (a, b) at (b, a)."""
    return peg(x, height, width, DEPTHWISE.swapaxes(2, 3))


@correct(surface="convolve_grid", encoding=PEG, thread="Meituan-AutoML/Twins gvt.py, PosCNN")
def peg_of_shifted_grids(x, height, width):
    """As Twins has it."""
    return peg(x, height, width)
