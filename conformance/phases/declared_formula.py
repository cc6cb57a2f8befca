"""The declared frequencies in words, with the declared numbers."""

from __future__ import annotations

from typing import Any

from posenc_ref import MultiAxisRoPE, RoPE, Rotary
from posenc_ref.conformance.exact.schedules import schedules


def formula(encoding: Rotary) -> str:
    """Return the declared frequencies in a sentence; empty for encodings that are given by arrays.

    Examples
    --------
    >>> formula(pr.RoPE(64, layout="half"))
    'Declared: pair k turns by theta_k = 10000 ** (-2k/64), k = 0 .. 31.'
    """
    if isinstance(encoding, MultiAxisRoPE):
        return (
            f"Declared: base {_numbers(encoding.base)}, {encoding.spacing!r} spacing over sections "
            f"{encoding.sections}"
            + (f", positions times {_numbers(encoding.position_scale)}."
               if encoding.position_scale != 1.0 else ".")
        )  # fmt: skip
    if not isinstance(encoding, RoPE):
        return ""
    d: Any = encoding.rotary_dim
    plain = f"{encoding.base:.10g} ** (-2k/{d})"
    pairs = f", k = 0 .. {d // 2 - 1}."
    s: Any = encoding.scaling
    if s is None:
        return f"Declared: pair k turns by theta_k = {plain}{pairs}"
    entry = schedules().get(type(s))
    if entry is None:
        return ""
    words = entry.words if isinstance(entry.words, str) else entry.words(encoding)
    said = words.format(s=s, d=d, d1=d - 1, d2=d - 2, base=encoding.base)
    given = "" if "f_k" not in words else f", f_k = {plain}"
    return f"Declared: pair k turns by theta_k = {said}{given}{pairs}"


def _numbers(value: Any) -> str:
    each = value if isinstance(value, tuple) else (value,)
    text = ", ".join(f"{v:g}" if isinstance(v, int | float) else str(v) for v in each)
    return f"({text})" if isinstance(value, tuple) else text
