"""The declared frequencies in words, with the declared numbers."""

from __future__ import annotations

from typing import Any

import posenc_ref as pr
from posenc_ref import MultiAxisRoPE, RoPE, Rotary

#: The frequency theta_k of pair k for each scaling; f_k is the frequency without it.
_SCALED: dict[type, str] = {
    pr.LinearScaling: "f_k / {s.factor:g}",
    pr.NTKScaling: "B ** (-2k/{d}) with B = {base:.10g} * {s.factor:g} ** ({d}/{d2})",
    pr.YaRN: "(1 - w_k) f_k + w_k f_k / {s.factor:g}, where w_k rises linearly from 0 at pair low "
    "to 1 at pair high; low and high are {d} ln({s.original_max_position}/(2 pi r)) / "
    "(2 ln {base:.10g}) for r = {s.beta_fast:g} and r = {s.beta_slow:g}{rounded}, within 0 and "
    "{d1}",
    pr.Llama3Scaling: "f_k ((1 - t_k) / {s.factor:g} + t_k), t_k = clip((r_k - "
    "{s.low_freq_factor:g}) / ({s.high_freq_factor:g} - {s.low_freq_factor:g}), 0, 1), r_k = "
    "{s.original_max_position} f_k / (2 pi)",
    pr.SuNTK: "f_k / {s.factor:g} ** ((2 (k + 1)/{d}) ** {s.power:g})",
    pr.LongRoPE: "f_k / short_factor[k], in calls longer than {s.original_max_position} tokens "
    "f_k / long_factor[k]",
    pr.Proportional: "{base:.10g} ** (-2k/{d}) / {s.factor:g} with the whole head, {d}, in the "
    "exponent, for the first {n} pairs, and 0 for the others",
    pr.RIFLEx: "f_k, and 2 pi {s.periods:g} / {s.length} for pair {s.pair}, counted from 1, if its "
    "period is shorter or the model is fine-tuned",
    pr.GivenFrequencies: "the given number k",
    pr.DynamicNTK: "B ** (-2k/{d}) with B = {base:.10g} * a ** ({d}/{d2}), a = {s.factor:g} L / "
    "{s.max_position} - {less:g}, L = {length}",
    pr.QwenNTK: "B ** (-2k/{d}) with B = {base:.10g} * a ** ({d}/{d2}), a = 2 ** "
    "(ceil(log2(L/{s.train_length})) + 1) - 1, at least 1, L the length of the call",
    pr.NTKByParts: "(1 - c_k) f_k + c_k ((1 - b_k) n_k + b_k f_k / {s.factor:g}); n_k is the "
    "NTK-aware frequency, the ramp c_k is that of gamma, b_k that of beta",
}
#: The length that decides, by the policy of DynamicNTK.
_LENGTHS = {
    "current": "the larger of the length of the call and {s.max_position}",
    "static": "{s.factor:g} * {s.max_position}",
}


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
    words = _SCALED.get(type(s))
    if words is None:
        return ""
    if getattr(s, "blend", "") == "geometric":
        words = words.replace("(1 - w_k) f_k + w_k f_k / {s.factor:g}", "f_k / {s.factor:g} ** w_k")
    said = words.format(
        s=s,
        d=d,
        d1=d - 1,
        d2=d - 2,
        base=encoding.base,
        n=int((encoding.frequencies() != 0).sum()),
        rounded=", rounded outwards" if getattr(s, "truncate", False) else ", not rounded",
        less=(getattr(s, "factor", 1.0) or 1.0) - 1,
        length=_LENGTHS.get(s.policy, "").format(s=s) if isinstance(s, pr.DynamicNTK) else "",
    )
    said = said.replace(" / 1 with", " with")
    given = "" if "f_k" not in words else f", f_k = {plain}"
    return f"Declared: pair k turns by theta_k = {said}{given}{pairs}"


def _numbers(value: Any) -> str:
    each = value if isinstance(value, tuple) else (value,)
    text = ", ".join(f"{v:g}" if isinstance(v, int | float) else str(v) for v in each)
    return f"({text})" if isinstance(value, tuple) else text
