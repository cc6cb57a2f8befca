"""Small networks that compute a bias: linear layers with ReLU or SiLU, and gate functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ._arrays import check_numbers, like
from ._namespace import Array, device_of, namespace, send, to_host

#: LayerNorm adds this to the variance.
EPS = 1e-5


@dataclass(frozen=True)
class Network:
    """Linear layers with activations between them; an activation may have a LayerNorm before it.

    ``weights``, ``biases``, ``gains`` and ``shifts`` hold one array per layer, in the order of the
    layers.  Their keys are the names of the arrays in error messages.
    """

    weights: Mapping[str, Array]
    biases: Mapping[str, Array | None]
    gains: Mapping[str, Array] = field(default_factory=dict)
    shifts: Mapping[str, Array] = field(default_factory=dict)
    activation: str = "relu"

    def check(self, inputs: int) -> None:
        """Check the shapes: weights (W1, inputs), (W2, W1), ..., (H, W)."""
        width, norms = inputs, list(zip(self.gains.items(), self.shifts.items(), strict=True))
        for n, (name, weight) in enumerate(self.weights.items()):
            outputs = "H" if n == self._hidden else f"W{n + 1}"
            width = int(check_numbers(name, weight, outputs, width).shape[0])
            for other, array in (list(self.biases.items())[n], *(norms[n] if norms[n:] else ())):
                if array is not None:
                    check_numbers(other, array, width)

    def __call__(self, x: Array) -> Array:
        """Return the outputs (..., H) of x (..., inputs), on the device of the weights."""
        first = next(iter(self.weights.values()))
        x = send(x, namespace(first), device_of(first))
        xp = namespace(x)
        weights, biases, gains, shifts = (
            [None if array is None else like(name, array, x) for name, array in part.items()]
            for part in (self.weights, self.biases, self.gains, self.shifts)
        )
        for n, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            x = xp.matmul(x, xp.matrix_transpose(weight))
            x = x if bias is None else x + bias
            if n == self._hidden:
                break
            if gains:
                centred = x - xp.mean(x, axis=-1, keepdims=True)
                deviation = xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + EPS)
                x = centred / deviation * gains[n] + shifts[n]
            x = xp.maximum(x, xp.zeros_like(x)) if self.activation == "relu" else x * sigmoid(x)
        return x

    def size(self, x: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Return the coefficient A of the rounding error of the outputs (..., H).

        :mod:`posenc_ref.accuracy` defines A; ``size`` is A of the inputs x.
        A linear layer turns A into ``|W| A + |b|``.  A
        LayerNorm turns A into ``|gain| (A + mean(A)) / deviation + |shift|``; deviation is the
        standard deviation of its inputs.  ReLU keeps A.  SiLU (s) turns A into
        ``|s(x)| + |s'(x)| A``.
        """
        weights, biases, gains, shifts = (
            [np.zeros(()) if array is None else _host(array) for array in part.values()]
            for part in (self.weights, self.biases, self.gains, self.shifts)
        )
        for n, (w, b) in enumerate(zip(weights, biases, strict=True)):
            x, size = x @ w.T + b, size @ np.abs(w).T + np.abs(b)
            if n == self._hidden:
                break
            if gains:
                centred = x - x.mean(-1, keepdims=True)
                deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + EPS)
                x = centred / deviation * gains[n] + shifts[n]
                size = (size + size.mean(-1, keepdims=True)) / deviation
                size = size * np.abs(gains[n]) + np.abs(shifts[n])
            if self.activation == "silu":
                s = sigmoid(x)
                x, size = x * s, np.abs(x * s) + np.abs(s * (1 + x * (1 - s))) * size
            else:
                x = np.maximum(x, 0)
        return size

    @property
    def _hidden(self) -> int:
        return len(self.weights) - 1


def sigmoid(x: Array) -> Array:
    """Return ``1 / (1 + exp(-x))``, accurate on both sides of 0 and without overflow."""
    xp: Any = namespace(x)
    e = xp.exp(-xp.abs(x))
    return xp.where(x >= 0, 1.0 / (1.0 + e), e / (1.0 + e))


def softplus(x: Array) -> Array:
    """Return ``log(1 + exp(x))``, accurate on both sides of 0 and without overflow."""
    xp: Any = namespace(x)
    return xp.maximum(x, xp.zeros_like(x)) + xp.log1p(xp.exp(-xp.abs(x)))


def _host(numbers: Array) -> np.ndarray:
    return np.asarray(to_host(numbers), np.float64)
