"""Proportional RoPE."""

from __future__ import annotations

from typing import Any

from posenc_ref import Proportional, RoPE
from posenc_ref.conformance.exact.digits import mpmath
from posenc_ref.conformance.exact.numbers import Number

from . import powers, schedule


def _words(encoding: RoPE) -> str:
    s: Any = encoding.scaling
    turning = int((encoding.frequencies() != 0).sum())
    divided = "" if s.factor == 1 else " / {s.factor:g}"
    return (
        f"{{base:.10g}} ** (-2k/{{d}}){divided} with the whole head, {{d}}, in the exponent, for "
        f"the first {turning} pairs, and 0 for the others"
    )


@schedule(
    Proportional,
    words=_words,
    examples=(Proportional(0.25, factor=2.0),),
    row=(
        "Proportional(p)", "`f_k / s` for k < int(p d // 2), then 0", "1",
        "differs from partial rotary: exponents and pairs are those of the whole head",
        "Gemma 4 full layers",
    ),
)  # fmt: skip
def proportional(s: Proportional, base: Any, d: int, seq_len: int | None) -> list[Number]:
    """The first pairs turn, the others do not."""
    turning = int(s.fraction * d // 2)
    rest = [mpmath().mp.mpf(0)] * (d // 2 - turning)
    return [w / s.factor for w in powers(base, d)[:turning]] + rest
