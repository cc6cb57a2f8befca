"""Positions from a convolution: wav2vec 2.0, HuBERT, WavLM, data2vec, CPVT, Twins.

The convolution is not told any position: zeros beyond the ends of the sequence, or of the image,
show each token how near the border it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from . import _validate as validate
from ._arrays import check_numbers, check_place
from ._namespace import Array, astype, device_of, namespace, send, to_host, widen
from ._network import EPS, sigmoid
from .accuracy import Truth
from .encoding import Value


@dataclass(frozen=True, eq=False, repr=False)
class ConvPositions(Value):
    """Convolutional positional embedding of a sequence, or of a grid of patches.

    Formula
        ``y_t = GELU(sum_k W_k x_(t + k - K // 2) + b)`` with x = 0 outside the sequence and
        ``W_k = gain_k v_k / |v_k|`` with ``gains``; one such layer after the other.  With
        ``layer_norm``, a LayerNorm without parameters stands before GELU.  With ``residual`` the
        result is ``x + y``.  A grid has the same sum over rows and columns.
    Source
        Baevski et al. 2020, *wav2vec 2.0*, arXiv:2006.11477, section 2, with K = 128, 16 groups and
        weight norm; Baevski et al. 2022, *data2vec*, arXiv:2202.03555, with five layers of K = 19
        and LayerNorm; Chu et al. 2021, *Conditional Positional Encodings* (PEG), arXiv:2102.10882,
        and Twins, arXiv:2104.13840: a depthwise 3 x 3 convolution without activation, plus x.
    Traps
        An even kernel with K // 2 zeros at both ends makes one token too many: the *last* is
        dropped.  Weight norm keeps dimension 2: a gain belongs to a tap of the kernel, and
        ``|v_k|`` is the norm over all channels.  GELU has erf, not tanh.
        Padding that is not zero inside a batch carries positions too: set hidden states of padding
        tokens to 0 first.  [CLS] is not part of the grid.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A is ``sum |W| |x| + |b|`` after a convolution, plus the root of ``sum (W A)**2`` with the A
        of the layer before, whose errors are independent.  A LayerNorm turns A into ``(A +
        root(mean(A**2))) / deviation``, GELU g into ``|x|/2 (1 + |erf(x / sqrt(2))|) + |g'(x)| A``,
        SiLU s into ``|s(x)| + |s'(x)| A``; ``residual`` adds ``|x|``.  B = 0.

    Parameters
    ----------
    weights : tuple of arrays (C, C / groups, K) or (C, C / groups, Kh, Kw), real floating
        One for each layer, as PyTorch stores them.  Kh and Kw are odd.
    biases : tuple of arrays (C,)
    gains : tuple of arrays (K,), one for each layer, or none
        With weight norm, the checkpoint's ``weight_g`` (or ``original0``); ``weights`` are then
        its ``weight_v`` (``original1``).
    groups : int
        Groups of consecutive channels.
    stride : int
        SEW keeps every ``stride``-th token of the result; 1 with ``residual``.
    activation : {"gelu", "silu", "none"}
        SiLU in SeamlessM4T, none in PEG and Twins.
    layer_norm, residual : bool
        ``residual`` is False where the caller adds the result to x, as in wav2vec 2.0.
    """

    kind = "convolution"

    weights: Sequence[Array]
    biases: Sequence[Array]
    gains: Sequence[Array] = ()
    _: KW_ONLY
    groups: int = 1
    stride: int = 1
    activation: str = "gelu"
    layer_norm: bool = False
    residual: bool = False

    def __post_init__(self) -> None:
        for name in ("weights", "biases", "gains"):
            value = getattr(self, name)
            if not isinstance(value, tuple | list):
                raise TypeError(f"{name} must be a tuple of arrays, got {type(value).__name__}")
            self._set(**{name: tuple(value)})
        layers = len(self.weights)
        if not layers or len(self.biases) != layers or len(self.gains) not in (0, layers):
            raise ValueError(
                "weights and biases must hold one array for each layer, gains as many or none, got "
                f"{layers}, {len(self.biases)} and {len(self.gains)}"
            )
        self._set(
            groups=validate.size("groups", self.groups),
            stride=validate.size("stride", self.stride),
            activation=validate.choice("activation", self.activation, ("gelu", "silu", "none")),
            layer_norm=validate.boolean("layer_norm", self.layer_norm),
            residual=validate.boolean("residual", self.residual),
        )
        self._check_layers()
        if self.stride > 1 and (self.num_axes == 2 or self.residual or layers > 1):
            raise ValueError(
                f"stride must be 1 with residual, with several layers and for grids, got "
                f"{self.stride}"
            )

    def _check_layers(self) -> None:
        axes = 2 if getattr(self.weights[0], "ndim", 3) == 4 else 1
        sizes = ("Kh", "Kw") if axes == 2 else ("K",)
        first = check_numbers("weights[0]", self.weights[0], "C", "C/groups", *sizes)
        channels = int(first.shape[0])
        if channels % self.groups:
            raise ValueError(f"groups must divide the {channels} channels, got {self.groups}")
        for n, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            inputs = channels // self.groups
            kernel = check_numbers(f"weights[{n}]", weight, channels, inputs, *sizes).shape[2:]
            if axes == 2 and not all(k % 2 for k in kernel):
                raise ValueError(f"weights[{n}] must have an odd kernel, got {tuple(kernel)}")
            check_numbers(f"biases[{n}]", bias, channels)
            check_place(f"biases[{n}]", bias, f"weights[{n}]", weight)
            if self.gains and axes == 2:
                raise ValueError("gains are for sequences; a grid has no weight norm")
            if self.gains:
                check_numbers(f"gains[{n}]", self.gains[n], int(kernel[0]))

    @property
    def num_axes(self) -> int:
        """1 for a sequence, 2 for a grid."""
        return int(self.weights[0].ndim) - 2

    @property
    def dim(self) -> int:
        """The number of channels C."""
        return int(self.weights[0].shape[0])

    def kernels(self) -> list[Array]:
        """Return the weight of every layer in float64, with weight norm if there are ``gains``."""
        found = [widen(weight) for weight in self.weights]
        if not self.gains:
            return found
        return [_normed(w, widen(gain)) for w, gain in zip(found, self.gains, strict=True)]

    def convolve(self, x: Array, height: int | None = None, width: int | None = None) -> Array:
        """Return the output of the layers for x (..., S, C), in the dtype of x.

        A grid needs ``height`` and ``width``, with S = height * width, row by row.  With ``stride``
        n the result has ``(S - 1) // n + 1`` tokens, or ``S // n`` if the kernel is even.
        """
        grid = self._grid(x, height, width)
        rows: Any = widen(x)
        y = namespace(rows).reshape(rows, (math.prod(x.shape[:-2]), *grid, self.dim))
        for n, kernel in enumerate(self.kernels()):
            y = self._layer(y, kernel, self.biases[n])
        xp = namespace(y)
        y = xp.reshape(y, (*x.shape[:-2], y.shape[1] * y.shape[2], self.dim))
        return astype(y + rows if self.residual else y, x.dtype)

    def _grid(self, x: Array, height: int | None, width: int | None) -> tuple[int, int]:
        validate.check_x(x, self.dim, "C")
        count = int(x.shape[-2])
        if self.num_axes == 1:
            if height is not None or width is not None:
                raise ValueError("height and width are for grids; these weights are of a sequence")
            return count, 1
        if height is None or width is None:
            raise ValueError("a grid needs height and width, its numbers of patches")
        h, w = (validate.integer(n, v, minimum=1)
                for n, v in (("height", height), ("width", width)))  # fmt: skip
        if h * w != count:
            raise ValueError(
                f"x must have height * width = {h * w} tokens (without [CLS]), got {count}"
            )
        return h, w

    def _layer(self, y: Array, kernel: Array, bias: Array) -> Array:
        y = self._sum(y, kernel) + _like(bias, y)
        if self.layer_norm:
            xp = namespace(y)
            centred = y - xp.mean(y, axis=-1, keepdims=True)
            y = centred / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + EPS)
        if self.activation == "silu":
            return y * sigmoid(y)
        return gelu(y) if self.activation == "gelu" else y

    def _sum(self, y: Array, kernel: Array) -> Array:
        """Return the convolution of y (B, h, w, C), without bias."""
        kernel = _like(kernel, y)
        xp, c = namespace(y), self.dim // self.groups
        kh, kw = int(kernel.shape[2]), int(kernel.shape[3]) if kernel.ndim == 4 else 1
        h, w = int(y.shape[1]), int(y.shape[2])
        n = h // self.stride if kh % 2 == 0 else (h - 1) // self.stride + 1
        taps = xp.reshape(kernel, (self.groups, c, c, kh, kw))
        for axis, k in ((1, kh), (2, kw)):
            edge = list(y.shape)
            edge[axis] = k // 2
            none = xp.zeros(tuple(edge), dtype=y.dtype, device=device_of(y))
            y = xp.concat([none, y, none], axis=axis)
        total: Any = 0.0
        for a in range(kh):
            for b in range(kw):
                end = a + max((n - 1) * self.stride + 1, 0)
                rows = y[:, a : end : self.stride, b : b + w, :]
                count = int(y.shape[0]) * n * w
                rows = xp.permute_dims(xp.reshape(rows, (count, self.groups, c)), (1, 0, 2))
                total = total + xp.matmul(rows, xp.matrix_transpose(taps[:, :, :, a, b]))
        return xp.reshape(xp.permute_dims(total, (1, 0, 2)), (y.shape[0], n, w, self.dim))

    def truth(self, x: Any, height: int | None = None, width: int | None = None) -> Truth:
        """Return ``convolve`` of host x in float64, with A and B of its rounding error."""
        x = np.asarray(x, np.float64)
        host = self.replace(**{
            name: tuple(np.asarray(to_host(widen(a)), np.float64) for a in getattr(self, name))
            for name in ("weights", "biases", "gains")
        })  # fmt: skip
        value = host.convolve(x, height, width)
        grid = self._grid(x, height, width)
        y = x.reshape(math.prod(x.shape[:-2]), *grid, self.dim)
        size = np.zeros_like(y)  # x is exact
        for kernel, bias in zip(host.kernels(), host.biases, strict=True):
            before = np.sqrt(host._sum(size**2, kernel**2))
            size = host._sum(np.abs(y), np.abs(kernel)) + np.abs(bias) + before
            plain = host._sum(y, kernel) + bias
            if self.layer_norm:
                centred = plain - plain.mean(axis=-1, keepdims=True)
                deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPS)
                size = (size + np.sqrt((size**2).mean(axis=-1, keepdims=True))) / deviation
                plain = centred / deviation
            if self.activation == "gelu":
                e = erf(plain / math.sqrt(2))
                density = np.exp(-plain * plain / 2) / math.sqrt(2 * math.pi)
                slope = (1 + e) / 2 + plain * density
                size = np.abs(plain) / 2 * (1 + np.abs(e)) + np.abs(slope) * size
                plain = plain * (1 + e) / 2
            elif self.activation == "silu":
                s = sigmoid(plain)
                size = np.abs(plain * s) + np.abs(s + plain * s * (1 - s)) * size
                plain = plain * s
            y = plain
        size = size.reshape(value.shape) + (np.abs(x) if self.residual else 0.0)
        return Truth(value, size, np.zeros_like(value))


def _normed(v: Array, gain: Array) -> Array:
    """Return v (C, c, K) with the norm ``gain`` of each tap k over all channels."""
    xp = namespace(v)
    return v * (gain / xp.sqrt(xp.sum(v * v, axis=(0, 1))))


def _like(numbers: Array, y: Array) -> Array:
    """Return learned numbers in the library, device and dtype of y."""
    if isinstance(numbers, np.ndarray):
        return astype(send(numbers, namespace(y), device_of(y)), y.dtype)
    check_place("weights", numbers, "x", y)
    return astype(numbers, y.dtype)


def gelu(x: Array) -> Array:
    """Return ``x/2 (1 + erf(x / sqrt(2)))``."""
    return x * ((1.0 + erf(x / math.sqrt(2))) * 0.5)


def erf(x: Array) -> Array:
    """Return the error function, which the array API standard lacks.

    ``erf(x) = 2/sqrt(pi) exp(-x**2) sum_n 2**n x**(2n+1) / (1 3 5 ... (2n+1))``: all terms have one
    sign, so that nothing cancels.  Beyond 6, erf is 1 in float64.
    """
    xp = namespace(x)
    sign, far = xp.sign(x), xp.abs(x)
    z = xp.where(far > 6.0, xp.full_like(far, 6.0), far)
    square = z * z
    term = total = z
    for n in range(1, 130):
        term = term * (square * (2.0 / (2 * n + 1)))
        total = total + term
    found = 2.0 / math.sqrt(math.pi) * xp.exp(-square) * total
    return sign * xp.where(far > 6.0, xp.ones_like(far), found)
