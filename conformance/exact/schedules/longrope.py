"""LongRoPE."""

from __future__ import annotations

from typing import Any

from posenc_ref import LongRoPE
from posenc_ref.conformance.exact.digits import mpmath
from posenc_ref.conformance.exact.numbers import Number

from . import powers, schedule


def _is_long(s: LongRoPE, seq_len: int | None) -> bool:
    longer = s.policy == "current" and (seq_len or 0) > s.original_max_position
    return longer or s.policy == "long"


def _magnitude(s: LongRoPE, seq_len: int | None) -> Number:
    mp, given = mpmath().mp, s.attention_factor
    if given is not None:
        return mp.mpf(given[_is_long(s, seq_len)] if isinstance(given, tuple) else given)
    return mp.sqrt(1 + mp.log(s.factor) / mp.log(s.original_max_position))


@schedule(
    LongRoPE,
    words="f_k / short_factor[k], in calls longer than {s.original_max_position} tokens "
    "f_k / long_factor[k]",
    examples=(
        LongRoPE([1.0] * 8, [float(n) for n in range(1, 9)], 4096, factor=32.0),
        LongRoPE([1.125] * 8, [2.5] * 8, 4096, attention_factor=(1.1, 1.3), policy="long"),
    ),
    row=(
        "LongRoPE(short, long, L0)", "`f_k / short_k`, or `f_k / long_k` where L > L0",
        "`sqrt(1 + ln s / ln L0)`",
        "`policy`: per call, once, or always long; m applies to short contexts too",
        "Phi-3, Phi-3.5, Phi-4-mini, MiniCPM3",
    ),
    magnitude=_magnitude,
    depends_on_length=lambda s: bool(s.policy == "current"),
)  # fmt: skip
def longrope(s: LongRoPE, base: Any, d: int, seq_len: int | None) -> list[Number]:
    """A divisor for each pair, of two lists."""
    divisors = s.long_factor if _is_long(s, seq_len) else s.short_factor
    return [w / mpmath().mp.mpf(x) for w, x in zip(powers(base, d), divisors, strict=True)]
