"""Biases of forget gates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc_ref import ForgettingBias
from posenc_ref.conformance.exact.error_numbers import total

from . import numbers, register


@register(
    ForgettingBias,
    spec="Lin et al. 2025, Forgetting Transformer, arXiv:2503.02130, section 3",
    examples={
        "forgetting-8": ForgettingBias(-np.abs(numbers("forgetting", 2, 8)) * 0.25),
        "cable-6": ForgettingBias(-np.abs(numbers("cable", 2, 6)) * 0.25, scaled=False),
    },
)
def forgetting(e: ForgettingBias, i: Any, j: Any) -> Sequence[Any]:
    """The sum up to the query less the sum up to the key."""
    return [total(g[: i + 1]) - total(g[: j + 1]) for g in e.log_gates.tolist()]
