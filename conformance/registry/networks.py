"""The small network of some biases, in counted numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from posenc_ref.conformance.exact.error_numbers import Counted, dot, relu


def network(e: Any, x: Sequence[Any]) -> list[Counted]:
    """``output relu(hidden x + hidden_bias) + output_bias``."""
    hidden = [
        relu(dot(row, x) + b)
        for row, b in zip(e.hidden.tolist(), e.hidden_bias.tolist(), strict=True)
    ]
    bias = getattr(e, "output_bias", None)  # LogCPB's network has none
    last = [0.0] * len(e.output) if bias is None else bias.tolist()
    return [dot(row, hidden) + b for row, b in zip(e.output.tolist(), last, strict=True)]
