"""Convolutional positions: the layers of wav2vec 2.0 and data2vec, the grids of PEG and Twins.

The error unit is that of :class:`posenc_ref.ConvPositions`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc_ref import ConvPositions
from posenc_ref._namespace import to_host, widen
from posenc_ref._network import EPS
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.diagnosis.rounding import SIGNIFICANT_BITS, significant
from posenc_ref.conformance.diagnosis.steps import Steps
from posenc_ref.conformance.functions.function import Arguments, Plain
from posenc_ref.conformance.harness.probes import dense
from posenc_ref.conv_positions import erf

from .convolved import convolved, rows_kept
from .kept_context import kept_context

#: (B, S): shorter and longer than kernels, more rows than other calls.
SEQUENCES = ((2, 9), (1, 4), (3, 16), (2, 33), (1, 150), (5, 12), (1, 300))
#: (B, height, width): wide, high and square grids, one row, one column.
GRIDS = (
    (2, 3, 5), (1, 5, 3), (2, 4, 4), (1, 7, 9), (1, 6, 1), (2, 1, 7), (1, 5, 5), (4, 8, 6),
    (1, 9, 9),
)  # fmt: skip
#: Standard deviations of the channels before a LayerNorm, near the root of its eps.
_SMALL = (3e-3, 1e-2)


def _sequences(e: ConvPositions, seed: int, dtype: str) -> Iterator[Arguments]:
    n, taps = e.stride, int(e.weights[0].shape[2])
    for b, s in SEQUENCES:
        if rows_kept(s, n, taps):
            yield Arguments(f"{s} tokens", (dense((b, s, e.dim), seed + s),))
    yield Arguments("one token of the result", (dense((1, n, e.dim), seed + 1),), False)
    yield Arguments("equal tokens", (np.ones((1, 40, e.dim)),))
    if e.layer_norm:
        for size in _SMALL:
            x = _almost_equal_channels(e, size * dense((e.dim,), seed + 2))
            yield Arguments(f"channels that differ by {size:g} before the LayerNorm", (x,), False)


def _almost_equal_channels(e: ConvPositions, wanted: np.ndarray) -> np.ndarray:
    """Return tokens (1, S, C): the first of the sums with bias before the LayerNorm is ``wanted``.

    Only near zero does the eps of the LayerNorm change what is returned.
    """
    kernel, c = _host(e.kernels()[0]), e.dim // e.groups
    seen = kernel[:, :, kernel.shape[2] // 2 :].reshape(e.groups, c, -1)
    missing = (wanted - _host(e.biases[0])).reshape(e.groups, c)
    # Of all tokens with this sum the smallest, whose terms round least.
    found = [np.linalg.lstsq(m, y, rcond=None)[0] for m, y in zip(seen, missing, strict=True)]
    tokens = np.reshape(found, (e.dim, -1)).T
    x = np.zeros((1, max(len(tokens), e.stride), e.dim))
    x[0, : len(tokens)] = tokens
    return x


def _grids(e: ConvPositions, seed: int, dtype: str) -> Iterator[Arguments]:
    for b, h, w in GRIDS:
        yield Arguments(f"a grid of {h} x {w}", (dense((b, h * w, e.dim), seed + h), h, w))
    yield Arguments("one patch", (dense((1, 1, e.dim), seed + 1), 1, 1), False)


def _mistakes(e: ConvPositions) -> Iterator[Mistake]:
    """Yield wrong uses of the layers; the changed steps of the formula are in in_steps."""
    if e.num_axes == 1 and len(e.weights) == 1 and e.stride == 1:
        yield from kept_context(e)


def in_steps(s: Steps, e: ConvPositions, x: np.ndarray, *size: int) -> np.ndarray:
    """Return the output of the layers, in steps."""
    grid = size or (x.shape[1], 1)
    wide = np.asarray(x, np.float64)
    y = wide.reshape(-1, *grid, e.dim)
    view = ""
    if e.num_axes == 2:
        h, w = grid
        view = s.pick(
            "the view", "",
            ("token-order", "of the tokens is (channels, height, width), without a transposition",
             "in"),
            ("token-order", "of the tokens, and of the result, is (channels, height, width), "
             "without a transposition", "both"),
            right="Transpose (B, N, C) to (B, C, N) before it is viewed as (B, C, height, width), "
            "and back.",
        )  # fmt: skip
        y = np.moveaxis(wide.reshape(-1, e.dim, h, w), 1, -1) if view else y
        y = s.pick(
            "the grid", y,
            ("token-order", "is filled column by column, not row by row",
             wide.reshape(-1, w, h, e.dim).swapaxes(1, 2)),
            ("token-order", "has height and width exchanged: the tokens are reshaped to "
             "(width, height)", wide.reshape(-1, w, h, e.dim)),
            right="Reshape the tokens to (height, width), row by row.",
        )  # fmt: skip
    layers = [*zip(_kernels(e, s), map(_host, e.biases), strict=True)]
    narrow = [
        (kind, significant(y, n), [(significant(k, n), b) for k, b in layers])
        for kind, n in SIGNIFICANT_BITS.items()
    ]
    y, layers = s.pick(
        "the numbers", (y, layers),
        *(row for kind, x, of in narrow for row in (
            ("table-precision", f"of the input are rounded to {kind}", (x, layers)),
            ("table-precision", f"of the kernels are rounded to {kind}", (y, of)),
            ("table-precision", f"of the input and the kernels are rounded to {kind}", (x, of)))),
        right="Keep the input and the weights in float32.",
    )  # fmt: skip
    if len(layers) > 1:
        layers = s.pick(
            "the layers", layers,
            ("conv-layers", f"are {len(layers) - 1}, without the last one", layers[:-1]),
            ("conv-layers", "are applied from the last to the first", layers[::-1]),
            right=f"Apply all {len(layers)} layers, from the first to the last.",
        )  # fmt: skip
        layers = [*zip(_of_layers(s, "kernels", [k for k, _ in layers]),
                       _of_layers(s, "biases", [b for _, b in layers]), strict=True)]  # fmt: skip
    added = len(layers) > 1 and s.pick(
        "the layers", "follow each other",
        ("conv-residual", "each add their input to their output", "each"),
        ("conv-residual", "each add x, the input of the first, to their output", "first"),
        ("conv-residual", "but the first add their input to their output", "later"),
        ("conv-residual", "but the last add x, the input of the first, to their output", "early"),
        right="Pass the output of a layer alone to the next one.",
    )  # fmt: skip
    start = y
    for n, (kernel, bias) in enumerate(layers):
        through = _layer(e, kernel, bias, y, s if n == 0 else _same(s))
        if len(layers) > 1 and n == len(layers) - 1:
            through = _last(e, through, kernel, bias, y, s)
        if added == "each" or (added == "later" and n):
            through = through + y
        early = added == "early" and n < len(layers) - 1
        y = through + start if added == "first" or early else through
    y = np.moveaxis(y, -1, 1) if view == "both" else y
    y = np.reshape(y, (*wide.shape[:-2], -1, e.dim))
    if wide.shape != y.shape:
        return y
    return np.asarray(
        s.pick(
            "the result", y + wide if e.residual else y,
            ("conv-residual", "lacks x itself", y) if e.residual
            else ("conv-residual", "already includes x, which the caller adds", y + wide),
            *([("conv-residual", "has x added twice", y + 2 * wide)] if e.residual else []),
            ("token-order", "leaves the first token as it is, as if it were [CLS]",
             np.concatenate([wide[:, :1], (y + wide if e.residual else y)[:, 1:]], axis=1)),
            right="Return x plus the convolution, for every token." if e.residual
            else "Return the convolution alone, for every token; the caller adds it to x.",
        )
    )  # fmt: skip


def _last(e: ConvPositions, own: Any, kernel: Any, bias: Any, y: Any, s: Steps) -> Any:
    """Return the output of the last of several layers."""
    ways: list[tuple[str, str, dict[str, Any]]] = []
    if e.activation != "none":
        ways.append(("activation", "has no activation", {"activation": "none"}))
    if e.layer_norm:
        ways.append(("conv-norm", "has no LayerNorm", {"layer_norm": False}))
    if len(ways) > 1:
        both = {"activation": "none", "layer_norm": False}
        ways.append(("conv-norm", "has neither LayerNorm nor activation", both))
    return s.pick(
        "the last layer", own,
        *((code, words, lambda changed=changed: _layer(e.replace(**changed), kernel, bias, y,
                                                       _same(s)))
          for code, words, changed in ways),
        right="Apply LayerNorm and activation after every layer, the last one included.",
    )  # fmt: skip


def _of_layers(s: Steps, name: str, own: list[np.ndarray]) -> list[np.ndarray]:
    """Return the parameters of the layers, or those of one layer in the place of another's."""
    n = len(own)
    used = [(f"of every layer are those of layer {m}", [m] * n) for m in range(n)]
    used += [(f"of layer {at} are those of layer {m}", [*range(at), m, *range(at + 1, n)])
             for at in range(n) for m in range(n) if n > 2 and m != at]  # fmt: skip
    used.append(("are taken from the last layer to the first", [*range(n)][::-1]))
    return list(s.pick(
        f"the {name}", own,
        *(("conv-layers", text, [own[m] for m in rows]) for text, rows in used
          if all(own[m].shape == a.shape for m, a in zip(rows, own, strict=True))),
        right=f"Give layer n the {name} of layer n.",
    ))  # fmt: skip


def _same(s: Steps) -> Steps:
    """Return steps that make the same change in a further layer, without listing it again."""
    return s if s.made else Steps()


def _kernels(e: ConvPositions, s: Steps) -> list[np.ndarray]:
    weights = [_host(w) for w in e.weights]
    if not e.gains:
        return weights
    gains = [_host(g) for g in e.gains]
    gains = _of_layers(s, "gains", gains) if len(gains) > 1 else gains
    dims: dict[str, Any] = {"the taps": (0, 1), "the output channels": (1, 2),
                            "the input channels": (0, 2), "nothing": (0, 1, 2)}  # fmt: skip

    def normed(keeps: str, gain: Any = (1, 1, -1)) -> list[np.ndarray]:
        size = [np.sqrt((w * w).sum(axis=dims[keeps], keepdims=True)) for w in weights]
        return [w / n * g.reshape(gain) for w, n, g in zip(weights, size, gains, strict=True)]

    own = normed("the taps")
    code = "weight-norm"
    return list(
        s.pick(
            "the norm of the weight", own,
            *((code, f"keeps {keeps} (dim {'01-'[n]}), not the taps of the kernel (dim 2)"
               if n < 2 else "is that of the whole weight, not one for each tap", normed(keeps))
              for n, keeps in enumerate(("the output channels", "the input channels", "nothing"))),
            *((code, f"keeps {keeps} (dim {n}), not the taps of the kernel (dim 2), and so do the "
               "gains", normed(keeps, gain))
              for n, keeps, gain in ((0, "the output channels", (-1, 1, 1)),
                                     (1, "the input channels", (1, -1, 1)))
              if all(w.shape[n] == w.shape[2] for w in weights)),
            (code, "and the gain are left out: the weight is v itself", weights),
            (code, "is not divided by: the weight is gain * v",
             [w * g for w, g in zip(weights, gains, strict=True)]),
            right="Use weight_norm(conv, dim=2): W_k = gain_k * v_k / |v_k|, the norm over all "
            "channels of tap k.",
        )
    )  # fmt: skip


def _layer(e: ConvPositions, kernel: Any, bias: Any, y: np.ndarray, s: Steps) -> np.ndarray:
    b = s.term("the bias", bias, "conv-bias")
    y = convolved(e, kernel, y, s)
    late_bias = s.pick(
        "the bias", False,
        ("conv-bias", "is added after the activation, not before it", True),
        right="Add the bias to the convolution, before the LayerNorm and the activation.",
    )  # fmt: skip
    y = y if late_bias else y + b
    if e.layer_norm:
        y = s.pick(
            "the LayerNorm", _standard(y, -1),
            ("conv-norm", "is left out", y),
            ("conv-norm", "is taken over the tokens, not over the channels", _standard(y, 1)),
            ("conv-norm", "is taken over tokens and channels together, not over the channels of "
             "each token", _standard(y, (1, 2, 3))),
            ("conv-norm", "stands after the activation, not before it", _Late(y)),
            right="Apply a LayerNorm over the channels, without parameters, before GELU.",
        )  # fmt: skip
    late = isinstance(y, _Late)
    v = y.values if isinstance(y, _Late) else np.asarray(y)
    ways = {
        "gelu": ("GELU with erf", v * (1 + erf(v / math.sqrt(2))) / 2),
        "silu": ("SiLU", v / (1 + np.exp(-v))),
        "none": ("left out", v),
        "tanh": ("GELU with tanh",
                 v / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))),
        "relu": ("ReLU", np.maximum(v, 0)),
        "sigmoid": ("x sigmoid(1.702 x)", v / (1 + np.exp(-1.702 * v))),
    }  # fmt: skip
    own, value = ways.pop(e.activation)
    own = "no activation" if e.activation == "none" else own
    right = {"gelu": 'Use GELU with erf: gelu(x, approximate="none").', "silu": "Use SiLU.",
             "none": "Apply no activation after the convolution."}  # fmt: skip
    options = [("activation", f"is {name}, not {own}", other) for name, other in ways.values()]
    if e.activation == "gelu":
        twice = value * (1 + erf(value / math.sqrt(2))) / 2
        options.append(("activation", "is applied twice", twice))
    found = s.pick("the activation", value, *options, right=right[e.activation])
    found = found + b if late_bias else found
    return _standard(found, -1) if late else np.asarray(found)


class _Late:
    """Values whose LayerNorm follows the activation."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values


def _standard(y: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    centred = y - y.mean(axis=axis, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(axis=axis, keepdims=True) + EPS))


def _host(a: Any) -> np.ndarray:
    return np.asarray(to_host(widen(a)), np.float64)


def _truth(e: ConvPositions, arguments: tuple[Any, ...], value: np.ndarray) -> Truth:
    truth = e.truth(*arguments)
    return Truth(value, np.maximum(truth.terms, np.abs(value)), truth.angle)


def _misshapen(e: ConvPositions, expected: tuple[int, ...], actual: tuple[int, ...]) -> str:
    """Return a hint for a result with one token too many."""
    even = any(int(w.shape[2]) % 2 == 0 for w in e.weights)
    if even and len(actual) == 3 and actual[1] - expected[1] in (1, len(e.weights)):
        return ": an even kernel makes one token too many; drop the last one"
    return ""


CONVOLUTION_ROWS = {
    "convolve": Plain(
        _sequences, _mistakes, "conv-kernel", integers=False, truth=_truth, misshapen=_misshapen
    ),
    "convolve_grid": Plain(_grids, _mistakes, "conv-kernel", integers=False, truth=_truth),
}
