"""Llama 3's scaling."""

from __future__ import annotations

from typing import Any

from posenc_ref import Llama3Scaling
from posenc_ref.conformance.exact.digits import mpmath
from posenc_ref.conformance.exact.numbers import Number

from . import powers, schedule


@schedule(
    Llama3Scaling,
    words="f_k ((1 - t_k) / {s.factor:g} + t_k), t_k = clip((r_k - {s.low_freq_factor:g}) / "
    "({s.high_freq_factor:g} - {s.low_freq_factor:g}), 0, 1), r_k = {s.original_max_position} f_k "
    "/ (2 pi)",
    examples=(Llama3Scaling(8.0, 1.0, 4.0, 8192),),
    row=(
        "Llama3Scaling(s, low, high, L0)",
        "`f_k` to `f_k / s`, ramp linear in r_k from `high` to `low` turns", "1",
        "`low == high`: a step in posenc_ref, an error or NaN elsewhere",
        "Llama 3.1 (8), 3.2 (32), 3.3",
    ),
)  # fmt: skip
def llama3(s: Llama3Scaling, base: Any, d: int, seq_len: int | None) -> list[Number]:
    """By the wavelength: kept, divided, or in between."""
    mp = mpmath().mp
    low, high = mp.mpf(s.low_freq_factor), mp.mpf(s.high_freq_factor)
    length, factor = s.original_max_position, mp.mpf(s.factor)

    def scaled(w: Number) -> Number:
        wavelength = 2 * mp.pi / w
        if wavelength < length / high:
            return w
        if wavelength > length / low:
            return w / factor
        smooth = (length / wavelength - low) / (high - low)
        return (1 - smooth) * w / factor + smooth * w

    return [scaled(w) for w in powers(base, d)]
