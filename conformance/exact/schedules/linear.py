"""Linear scaling, position interpolation."""

from __future__ import annotations

from typing import Any

from posenc_ref import LinearScaling
from posenc_ref.conformance.exact.numbers import Number

from . import powers, schedule


@schedule(
    LinearScaling,
    words="f_k / {s.factor:g}",
    examples=(LinearScaling(4.0),),
    row=(
        "LinearScaling(s)", "`f_k / s`", "1",
        "dividing positions instead: only the rounding differs",
        "LongChat, Gemma 3 full layers",
    ),
)  # fmt: skip
def linear(s: LinearScaling, base: Any, d: int, seq_len: int | None) -> list[Number]:
    """Every frequency is divided by the factor."""
    return [w / s.factor for w in powers(base, d)]
