"""The small network some biases are: one hidden layer with ReLU."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._namespace import Array, astype, device_of, namespace, send, to_host
from .score import beside, check_numbers


def check_mlp(encoding: Any, inputs: int) -> None:
    """Check ``hidden`` (W, inputs), ``hidden_bias`` (W,), ``output`` (H, W), ``output_bias``."""
    width = check_numbers("hidden", encoding.hidden, "W", inputs).shape[0]
    check_numbers("hidden_bias", encoding.hidden_bias, width)
    heads = check_numbers("output", encoding.output, "H", width).shape[0]
    if encoding.output_bias is not None:
        check_numbers("output_bias", encoding.output_bias, heads)


def mlp(encoding: Any, x: Array) -> Array:
    """``output relu(hidden x + hidden_bias) + output_bias``: (..., inputs) to (..., H).

    Host inputs go to where the network is.
    """
    x = send(x, namespace(encoding.hidden), device_of(encoding.hidden))
    xp = namespace(x)
    names = ("hidden", "hidden_bias", "output", "output_bias")
    w1, b1, w2, b2 = (
        None if getattr(encoding, n) is None else beside(n, getattr(encoding, n), x) for n in names
    )
    y = xp.matmul(x, xp.matrix_transpose(w1)) + b1
    y = xp.matmul(xp.maximum(y, xp.zeros_like(y)), xp.matrix_transpose(w2))
    return astype(y if b2 is None else y + b2, x.dtype)


def mlp_size(encoding: Any, x: np.ndarray) -> np.ndarray:
    """The sum of the absolute values of all products, for inputs of size ``x``."""
    w1, b1, w2 = (
        np.abs(np.asarray(to_host(getattr(encoding, n)), np.float64))
        for n in ("hidden", "hidden_bias", "output")
    )
    size = (x @ w1.T + b1) @ w2.T
    if encoding.output_bias is None:
        return np.asarray(size)
    return np.asarray(size + np.abs(np.asarray(to_host(encoding.output_bias), np.float64)))
