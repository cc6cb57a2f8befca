"""Biases computed from positions (KERPLE, Sandwich, FIRE) or from forget gates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc_ref import FIRE, ForgettingBias, Kerple, Sandwich
from posenc_ref.conformance.exact.error_numbers import Counted, cos, log, power, total

from . import numbers, register
from .dynamic import network


@register(
    Kerple,
    spec="Chi et al. 2022, KERPLE, arXiv:2205.09921, equations (4) and (5)",
    examples={
        "kerple-log": Kerple((0.5, 0.25), (1.5, 0.5)),
        "kerple-power": Kerple((0.5, 0.25), (1.5, 0.5), form="power", causal=False),
    },
)
def kerple(e: Kerple, i: Any, j: Any) -> Sequence[Any]:
    """Return minus r1 times the logarithm, or the power, of the distance."""
    distance = Counted(abs(i - j))
    if e.form == "log":
        return [-r1 * log(1 + r2 * distance) for r1, r2 in zip(e.r1, e.r2, strict=True)]
    return [-r1 * distance**r2 for r1, r2 in zip(e.r1, e.r2, strict=True)]


@register(
    Sandwich,
    spec="Chi et al. 2022, Dissecting Length Extrapolation, arXiv:2212.10356, section 5",
    examples={
        "sandwich-3": Sandwich(3, 16),
        "sandwich-2-base-500": Sandwich(2, 8, base=500.0, causal=False),
    },
)
def sandwich(e: Sandwich, i: Any, j: Any) -> Sequence[Any]:
    """Return ``(sum of cos((i - j) w) - d/2) H / (8h)`` for h = 1 to H and all frequencies w."""
    waves = [power(e.base, -2 * k, e.dim) for k in range(1, e.dim // 2 + 1)]
    product = total(cos(Counted((i - j) * w)) for w in waves) - e.dim // 2
    return [product * e.num_heads / (8 * h) for h in range(1, e.num_heads + 1)]


_LAYERS = (
    numbers("fire-hidden", 4, 1),
    numbers("fire-hidden-bias", 4),
    numbers("fire-output", 2, 4),
)


@register(
    FIRE,
    spec="Li et al. 2023, Functional Interpolation, arXiv:2310.04418, equation (7) and appendix",
    examples={
        "fire": FIRE(*_LAYERS, length=16.0),
        "fire-output-bias": FIRE(*_LAYERS, numbers("fire-output-bias", 2), c=0.5, length=4.0),
    },
)
def fire(e: FIRE, i: Any, j: Any) -> Sequence[Any]:
    """Return an MLP of log distance divided by the log of the query's position."""

    def psi(x: Any) -> Counted:
        return log(1 + e.c * Counted(x))

    x = psi(max(i - j, 0)) / (psi(max(i, e.length)) + e.eps)
    return network([x], (e.hidden, e.output), (e.hidden_bias, e.output_bias))


@register(
    ForgettingBias,
    spec="Lin et al. 2025, Forgetting Transformer, arXiv:2503.02130, section 3",
    examples={
        "forgetting-8": ForgettingBias(-np.abs(numbers("forgetting", 2, 8)) * 0.25),
        "cable-6": ForgettingBias(-np.abs(numbers("cable", 2, 6)) * 0.25, scaled=False),
    },
)
def forgetting(e: ForgettingBias, i: Any, j: Any) -> Sequence[Any]:
    """Return the sum of log gates up to the query minus the sum up to the key."""
    return [total(g[: i + 1]) - total(g[: j + 1]) for g in e.log_gates.tolist()]
