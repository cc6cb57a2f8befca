"""The schedules that change the base."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc_ref import DynamicNTK, NTKScaling, QwenNTK, RoPE, SuNTK
from posenc_ref.conformance.exact.digits import mpmath
from posenc_ref.conformance.exact.numbers import Number

from . import Change, powers, schedule

_LENGTHS = {
    "current": "the larger of the length of the call and {s.max_position}",
    "static": "{s.factor:g} * {s.max_position}",
}


def ntk_aware(base: Any, d: int, alpha: Any) -> list[Number]:
    """Return the frequencies with the base times alpha ** (d / (d - 2))."""
    mp = mpmath().mp
    return powers(base * mp.mpf(alpha) ** (mp.mpf(d) / (d - 2)), d)


@schedule(
    NTKScaling,
    words="B ** (-2k/{d}) with B = {base:.10g} * {s.factor:g} ** ({d}/{d2})",
    examples=(NTKScaling(4.0),),
    row=(
        "NTKScaling(s)", "`n_k(s)`: pair 0 kept, the last divided by s", "1",
        "some multiply the base by s, without the exponent d/(d-2)",
        'HunYuan ("dynamic" with `alpha`)',
    ),
)  # fmt: skip
def ntk(s: NTKScaling, base: Any, d: int, seq_len: int | None) -> list[Number]:
    """The base times factor ** (d / (d - 2))."""
    return ntk_aware(base, d, s.factor)


def _dynamic_words(encoding: RoPE) -> str:
    s: Any = encoding.scaling
    length = _LENGTHS[s.policy].format(s=s)
    return (
        "B ** (-2k/{d}) with B = {base:.10g} * a ** ({d}/{d2}), a = {s.factor:g} L / "
        f"{{s.max_position}} - {s.factor - 1:g}, L = {length}"
    )


def _dynamic_mistakes(encoding: RoPE) -> Iterator[Change]:
    """Yield static dynamic NTK with another length or another factor on the base."""
    s: Any = encoding.scaling
    if s.policy != "static":
        return
    assert encoding.rotary_dim is not None
    d, f, k = encoding.rotary_dim, s.factor, np.arange(encoding.rotary_dim // 2)
    right = f * f - (f - 1)
    for words, alpha in (
        ("the length is the factor squared times max_position: the extended length is multiplied "
         "by the factor once more", f**3 - (f - 1)),
        ("the length is max_position, not factor * max_position", 1.0),
        ("alpha is the factor alone", f),
        ("alpha is the factor squared: factor - 1 is not subtracted", f * f),
        ("alpha is L / max_position - (factor - 1)", 1.0),
    ):  # fmt: skip
        predicted = (encoding.base * alpha ** (d / (d - 2))) ** (-2 * k / d)
        remedy = f"Use alpha = {right:g}: factor * L / max_position - (factor - 1) with "
        remedy += f"L = {f:g} * {s.max_position}."
        yield Change(
            "scaling-formula", f"DynamicNTK: {words}", predicted, remedy=remedy,
            alternatives=("base",), declared=right, measured=alpha,
        )  # fmt: skip


@schedule(
    DynamicNTK,
    words=_dynamic_words,
    examples=(DynamicNTK(4.0, 4096), DynamicNTK(4.0, 4096, policy="static")),
    row=(
        "DynamicNTK(s, L0)", "`n_k(1 + s (L - L0)/L0)`, L at least L0", "1",
        "`policy`: length of the call (Hugging Face), or always s·L0 (vLLM, SGLang)",
        "early Llama 2 extensions, InternLM",
    ),
    mistakes=_dynamic_mistakes,
    depends_on_length=lambda s: bool(s.policy == "current"),
)  # fmt: skip
def dynamic(s: DynamicNTK, base: Any, d: int, seq_len: int | None) -> list[Number]:
    """NTK with an alpha that follows the length."""
    factor, trained = mpmath().mp.mpf(s.factor), s.max_position
    length = factor * trained if s.policy == "static" else max(seq_len or 0, trained)
    return ntk_aware(base, d, factor * length / trained - (factor - 1))


@schedule(
    QwenNTK,
    words="B ** (-2k/{d}) with B = {base:.10g} * a ** ({d}/{d2}), a = 2 ** "
    "(ceil(log2(L/{s.train_length})) + 1) - 1, at least 1, L the length of the call",
    examples=(QwenNTK(4096),),
    row=(
        "QwenNTK(L0)", "`n_k(α)`, α = 1, 3, 7, 15, ... as L passes L0, 2 L0, 4 L0, ...", "1",
        "α of the prompt is kept while generating", "Qwen 1 (with `LogNScale` on queries)",
    ),
    depends_on_length=lambda s: True,
)  # fmt: skip
def qwen(s: QwenNTK, base: Any, d: int, seq_len: int | None) -> list[Number]:
    """NTK with a step at every doubling of the trained length."""
    doublings, reach = 0, s.train_length
    while reach < (seq_len or 0):
        doublings, reach = doublings + 1, 2 * reach
    return ntk_aware(base, d, max(2 ** (doublings + 1) - 1, 1))


@schedule(
    SuNTK,
    words="f_k / {s.factor:g} ** ((2 (k + 1)/{d}) ** {s.power:g})",
    examples=(SuNTK(4.0), SuNTK(4.0, power=0.625)),
    row=(
        "SuNTK(s, power=p)", "`f_k / s^((2(k+1)/d)^p)`: pair 0 changes too", "1",
        'pairs are counted from 1; Su calls p = 1 "fixed" and other p "mixed" (usually 0.625)',
        'vLLM `rope_type="ntk"`',
    ),
)  # fmt: skip
def su(s: SuNTK, base: Any, d: int, seq_len: int | None) -> list[Number]:
    """A power of the factor that grows with the pair, counted from 1."""
    mp = mpmath().mp
    power, log = mp.mpf(s.power), mp.log(mp.mpf(s.factor))
    a = log / mp.mpf(d // 2) ** power
    return [w * mp.exp(-a * mp.mpf(k + 1) ** power) for k, w in enumerate(powers(base, d))]
