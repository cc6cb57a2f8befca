"""Dynamic position biases: an MLP of the offset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from posenc_ref import DynamicBias, DynamicWindowBias
from posenc_ref.conformance.exact.error_numbers import (
    Counted,
    counted,
    dot,
    log,
    relu,
    root,
    sigmoid,
    smooth,
    total,
)

from . import numbers, register

#: The epsilon of LayerNorm.
_EPS = 1e-5


def _silu(x: Counted) -> Counted:
    """Return ``x * sigmoid(x)``."""
    s = sigmoid(x).value
    return smooth(x, lambda x: x * s, lambda x, y: s + y * (1 - s))


def _normed(x: Sequence[Counted], gain: Sequence[Any], shift: Sequence[Any]) -> list[Counted]:
    """Return LayerNorm of x; the error unit ignores the rounding of the standard deviation."""
    centred = [v - total(x) / len(x) for v in x]
    variance = total(Counted(c.value) * c.value for c in centred) / len(x)
    deviation = root(variance.value + _EPS)
    return [c / deviation * g + s for c, g, s in zip(centred, gain, shift, strict=True)]


def network(
    x: Sequence[Any],
    weights: Sequence[Any],
    biases: Sequence[Any],
    norms: Sequence[Any] = (),
    activation: Callable[[Any], Counted] = relu,
) -> list[Counted]:
    """Return the output of an MLP: each hidden layer ends with a norm and an activation."""
    values = list(map(counted, x))
    for n, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        shift = [0.0] * len(weight) if bias is None else bias.tolist()
        values = [dot(row, values) + b for row, b in zip(weight.tolist(), shift, strict=True)]
        if n == len(weights) - 1:
            break
        if norms:
            values = _normed(values, *(part.tolist() for part in norms[n]))
        values = [activation(v) for v in values]
    return values


def _dynamic(e: Any, x: Sequence[Any]) -> list[Counted]:
    norms = list(zip(e.gains, e.shifts, strict=True))
    return network(x, e.weights, e.biases, norms, relu if e.activation == "relu" else _silu)


def _layers(name: str, *widths: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    pairs = list(zip(widths[1:], widths[:-1], strict=True))
    weights = tuple(numbers(f"{name}-weight-{n}", *pair) * 0.25 for n, pair in enumerate(pairs))
    return weights, tuple(numbers(f"{name}-bias-{n}", a) * 0.25 for n, (a, _) in enumerate(pairs))


def _norms(name: str, *widths: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    gains, shifts = (
        tuple(numbers(f"{name}-{kind}-{n}", width) for n, width in enumerate(widths))
        for kind in ("gain", "shift")
    )
    return gains, shifts


_GAINS, _SHIFTS = _norms("dynamic-normed", 4)


@register(
    DynamicBias,
    spec="lucidrains/x-transformers, x_transformers.py, DynamicPositionBias",
    examples={
        "dynamic": DynamicBias(*_layers("dynamic", 1, 4, 4, 2)),
        "dynamic-log": DynamicBias(*_layers("dynamic-log", 1, 4, 2), log_distance=True),
        "dynamic-normed": DynamicBias(
            *_layers("dynamic-normed", 1, 4, 2), gains=_GAINS, shifts=_SHIFTS
        ),
    },
)
def dynamic(e: DynamicBias, i: Any, j: Any) -> Sequence[Any]:
    """Return an MLP of the offset i - j, or of ``sign(i - j) log(1 + |i - j|)``."""
    x = counted(i - j)
    if e.log_distance:
        size = log(1 + abs(x))
        x = size if i >= j else -size
    return _dynamic(e, [x])


@register(
    DynamicWindowBias,
    spec="Wang et al. 2021, CrossFormer, arXiv:2108.00154; its code",
    examples={
        "crossformer-2-by-3": DynamicWindowBias(
            *_layers("crossformer", 2, 4, 4, 2), *_norms("crossformer", 4, 4), window=(2, 3)
        )
    },
)
def crossformer(e: DynamicWindowBias, i: Any, j: Any) -> Sequence[Any]:
    """Return an MLP of the offset in rows and the offset in columns."""
    w = e.window[1]
    return _dynamic(e, [i // w - j // w, i % w - j % w])
