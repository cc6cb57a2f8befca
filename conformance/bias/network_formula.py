"""The networks of dynamic biases, in steps that may be computed differently."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import DynamicBias
from posenc_ref.conformance.diagnosis.steps import Steps

from .formula_parts import offset

#: The epsilon of LayerNorm.
_EPS = 1e-5


#: The error function of every element.
_erf = np.vectorize(math.erf, otypes=[np.float64])
#: Other activations: words, with the declared one, and the function.
_OTHERS: tuple[tuple[str, Callable[[np.ndarray], Any]], ...] = (
    ("is GELU, not {}", lambda v: 0.5 * v * (1 + _erf(v / np.sqrt(2)))),
    ("is GELU by tanh, not {}",
     lambda v: v * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3)))),
    *((f"is leaky ReLU with slope {a:g}, not {{}}", lambda v, a=a: np.where(v > 0, v, a * v))
      for a in (0.01, 0.1, 0.2)),
    ("is ELU, not {}", lambda v: np.where(v > 0, v, np.expm1(v))),
    ("is ReLU squared, not {}", lambda v: np.maximum(v, 0) ** 2),
    ("is ReLU6, not {}", lambda v: np.clip(v, 0, 6)),
    ("is softplus, not {}", lambda v: np.logaddexp(0, v)),
    ("is a sigmoid, not {}", lambda v: 1 / (1 + np.exp(-v))),
    ("is tanh, not {}", np.tanh),
    ("is left out", lambda v: v),
)  # fmt: skip


def network(
    s: Steps, x: np.ndarray, weights: Any, biases: Any, gains: Any, shifts: Any, activation: str
) -> np.ndarray:
    """Return the outputs (H, Q, K) of a network with inputs (Q, K, n)."""

    def active(v: np.ndarray) -> np.ndarray:
        relu, silu = np.maximum(v, 0), v / (1 + np.exp(-v))
        own, other = (relu, silu) if activation == "relu" else (silu, relu)
        return np.asarray(
            s.pick(
                "the activation",
                own,
                ("score-term", "is SiLU, not ReLU" if activation == "relu" else "is ReLU, not SiLU",
                 other),
                *(("score-term", text.format(activation), partial(of, v)) for text, of in _OTHERS),
                right=f"Use the declared activation, {activation}, between the layers.")
        )  # fmt: skip

    for n, weight in enumerate(weights):
        x = x @ np.asarray(weight, np.float64).T
        if biases[n] is not None:
            x = x + s.array(f"the bias of layer {n}", biases[n], ("output",))
        if n == len(weights) - 1:
            break
        before = x if not len(gains) else _layer_norm(s, x, gains[n], shifts[n], x.shape[-1])
        if len(gains):
            norm = partial(_layer_norm, s, gain=gains[n], shift=shifts[n], size=x.shape[-1])
            x = s.pick(
                "the order of LayerNorm and activation",
                active(norm(x)),
                ("score-term", "is reversed: the activation comes first", norm(active(x))),
                right="Apply LayerNorm first, then the activation.",
            )
        else:
            x = active(x)
        if len(weights) > 2:
            x = s.pick(
                f"the activation after layer {n + 1} of {len(weights)}",
                x,
                ("score-term", "is left out", before),
                right=f"Apply the activation, {activation}, after layer {n + 1} too.",
            )
    x = s.pick(
        "the output of the last layer",
        x,
        ("score-term", f"goes through the activation, {activation}, too",
         np.maximum(x, 0) if activation == "relu" else x / (1 + np.exp(-x))),
        right="Apply no activation after the last layer.",
    )  # fmt: skip
    return np.moveaxis(s.real("the network's output", x), -1, 0)


def _layer_norm(s: Steps, x: np.ndarray, gain: Any, shift: Any, size: int) -> np.ndarray:
    centred = x - x.mean(axis=-1, keepdims=True)
    square = np.mean(centred * centred, axis=-1, keepdims=True)
    root = s.pick(
        "the LayerNorm",
        centred / np.sqrt(square + _EPS),
        ("score-term", f"divides by the variance over {size} - 1 numbers, not over {size}",
         centred / np.sqrt(square * size / max(size - 1, 1) + _EPS)),
        ("score-term", "does not subtract the mean",
         x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + _EPS)),
        ("score-term", "is left out", x),
        ("score-term", "has epsilon 1e-6, not 1e-5", centred / np.sqrt(square + 1e-6)),
        ("score-term", "has epsilon 1e-3, not 1e-5", centred / np.sqrt(square + 1e-3)),
        right=f"Subtract the mean and divide by sqrt(variance over {size} numbers + "
        "1e-5).")  # fmt: skip
    return np.asarray(root * np.asarray(gain, np.float64) + np.asarray(shift, np.float64))


def dynamic(e: DynamicBias, q: np.ndarray, k: np.ndarray, s: Steps) -> np.ndarray:
    """Return the bias of the dynamic bias."""
    r = offset(s, q, k).astype(np.float64)
    if e.log_distance:
        logged = np.sign(r) * s.log("the logarithm", np.abs(r), 1.0, "e")
        r = s.pick(
            "the logarithmic offset",
            logged,
            ("relative-symmetric", "has lost its sign", np.abs(logged)),
            right="Multiply the logarithm of 1 + |r| by the sign of r.",
        )
    else:
        logged = np.sign(r) * np.log1p(np.abs(r))
        words = "is replaced by its logarithm, sign(r) log(1 + |r|)"
        r = s.pick(
            "the offset in the network",
            r,
            ("position-scale", words, logged),
            right="Pass the plain offset query - key to the network.",
        )
    return network(s, r[..., None], e.weights, e.biases, e.gains, e.shifts, e.activation)
