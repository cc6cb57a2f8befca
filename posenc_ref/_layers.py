"""The deeper network some biases are: linear layers, normalised perhaps, with ReLU or SiLU."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _validate as validate
from ._namespace import Array, device_of, namespace, send, to_host
from .score import beside, check_numbers

#: What LayerNorm adds to the variance.
EPS = 1e-5


def check_layers(encoding: Any, inputs: int) -> dict[str, Any]:
    """The checked fields ``weights``, ``biases``, ``gains``, ``shifts`` and ``activation``."""
    found: dict[str, Any] = {}
    for name in ("weights", "biases", "gains", "shifts"):
        value = getattr(encoding, name)
        if not isinstance(value, tuple | list):
            raise TypeError(f"{name} must be a tuple of arrays, got {type(value).__name__}")
        found[name] = tuple(value)
    weights, hidden = found["weights"], len(found["weights"]) - 1
    if hidden < 1:
        raise ValueError(f"weights must be of two layers at least, got {len(weights)}")
    counts = {"biases": (hidden + 1,), "gains": (0, hidden), "shifts": (len(found["gains"]),)}
    for name, allowed in counts.items():
        if len(found[name]) not in allowed:
            wanted = " or ".join(map(str, allowed))
            raise ValueError(f"{name} must be {wanted} arrays here, got {len(found[name])}")
    width: str | int = inputs
    for n, weight in enumerate(weights):
        width = int(check_numbers(f"weights[{n}]", weight, f"W{n + 1}", width).shape[0])
        check_numbers(f"biases[{n}]", found["biases"][n], width)
        if n < len(found["gains"]):
            check_numbers(f"gains[{n}]", found["gains"][n], width)
            check_numbers(f"shifts[{n}]", found["shifts"][n], width)
    kinds, known = ("relu", "silu"), {"swish": "silu"}
    found["activation"] = validate.choice("activation", encoding.activation, kinds, known)
    return found


def layers(encoding: Any, x: Array) -> Array:
    """The network at x (..., inputs): (..., H).  Host inputs go to where the network is."""
    first = encoding.weights[0]
    x = send(x, namespace(first), device_of(first))
    xp = namespace(x)
    for n, (weight, bias) in enumerate(zip(encoding.weights, encoding.biases, strict=True)):
        w, b = beside("weights", weight, x), beside("biases", bias, x)
        x = xp.matmul(x, xp.matrix_transpose(w)) + b
        if n == len(encoding.weights) - 1:
            break
        if encoding.gains:
            gain = beside("gains", encoding.gains[n], x)
            shift = beside("shifts", encoding.shifts[n], x)
            centred = x - xp.mean(x, axis=-1, keepdims=True)
            deviation = xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + EPS)
            x = centred / deviation * gain + shift
        x = xp.maximum(x, xp.zeros_like(x)) if encoding.activation == "relu" else x * sigmoid(x)
    return x


def layers_size(encoding: Any, x: np.ndarray, size: np.ndarray) -> np.ndarray:
    """A of the network at x, whose A is ``size``: (..., inputs) to (..., H).

    ``|W| A + |b|`` of a layer; ``|gain| (A + mean of A) / deviation + |shift|`` of a norm; ReLU
    leaves A as it is, SiLU s makes it ``|s(x)| + |s'(x)| A``.
    """
    for n, (weight, bias) in enumerate(zip(encoding.weights, encoding.biases, strict=True)):
        w, b = _host(weight), _host(bias)
        x, size = x @ w.T + b, size @ np.abs(w).T + np.abs(b)
        if n == len(encoding.weights) - 1:
            break
        if encoding.gains:
            gain, shift = _host(encoding.gains[n]), _host(encoding.shifts[n])
            centred = x - x.mean(-1, keepdims=True)
            deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + EPS)
            x = centred / deviation * gain + shift
            size = (size + size.mean(-1, keepdims=True)) / deviation * np.abs(gain) + np.abs(shift)
        if encoding.activation == "silu":
            s = sigmoid(x)
            x, size = x * s, np.abs(x * s) + np.abs(s * (1 + x * (1 - s))) * size
        else:
            x = np.maximum(x, 0)
    return size


def sigmoid(x: Array) -> Array:
    """``1 / (1 + exp(-x))``, to rounding on both sides of 0 and without overflow."""
    xp = namespace(x)
    e = xp.exp(-xp.abs(x))
    return xp.where(x >= 0, 1.0 / (1.0 + e), e / (1.0 + e))


def _host(numbers: Array) -> np.ndarray:
    return np.asarray(to_host(numbers), np.float64)
