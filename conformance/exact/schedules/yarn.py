"""YaRN, and NTK by parts, which shares its ramp."""

from __future__ import annotations

from typing import Any

from posenc_ref import NTKByParts, RoPE, YaRN
from posenc_ref.conformance.exact.digits import mpmath
from posenc_ref.conformance.exact.numbers import Number

from . import powers, schedule
from .ntk import ntk_aware


def _correction(s: Any, base: Any, d: int, turns: float) -> Number:
    """Return the (fractional) pair that makes ``turns`` turns within the trained length."""
    mp = mpmath().mp
    length = mp.mpf(s.original_max_position)
    return d * mp.log(length / (mp.mpf(turns) * 2 * mp.pi)) / (2 * mp.log(base))


def _ramp(s: Any, base: Any, d: int, fast: float, slow: float, whole: bool) -> list[Number]:
    """Return YaRN's ramp: 0 for high frequencies, 1 for low ones."""
    mp = mpmath().mp
    low, high = (_correction(s, base, d, turns) for turns in (fast, slow))
    if whole:
        low, high = mp.floor(low), mp.ceil(high)
    low, high = mp.mpf(max(low, 0)), mp.mpf(min(high, d - 1))
    if low == high:
        high = high + mp.mpf(1) / 1000
    return [min(max((k - low) / (high - low), mp.mpf(0)), mp.mpf(1)) for k in range(d // 2)]


def _yarn_words(encoding: RoPE) -> str:
    s: Any = encoding.scaling
    blend = "f_k / {s.factor:g} ** w_k" if s.blend == "geometric" else (
        "(1 - w_k) f_k + w_k f_k / {s.factor:g}"
    )  # fmt: skip
    rounded = ", rounded outwards" if s.truncate else ", not rounded"
    return (
        f"{blend}, where w_k rises linearly from 0 at pair low to 1 at pair high; low and high are "
        "{d} ln({s.original_max_position}/(2 pi r)) / (2 ln {base:.10g}) for r = {s.beta_fast:g} "
        f"and r = {{s.beta_slow:g}}{rounded}, within 0 and {{d1}}"
    )


def _mscale(s: YaRN, seq_len: int | None) -> Number:
    mp = mpmath().mp
    if s.attention_factor is not None:
        return mp.mpf(s.attention_factor)

    def get_mscale(weight: float) -> Number:
        return mp.mpf(weight) * mp.log(mp.mpf(s.factor)) / 10 + 1

    above, below = s.mscale, s.mscale_all_dim
    return get_mscale(above) / get_mscale(below) if above and below else get_mscale(1)


@schedule(
    YaRN,
    words=_yarn_words,
    examples=(
        YaRN(4.0, 4096),
        YaRN(4.0, 4096, truncate=False, attention_factor=1.0),
        YaRN(40.0, 4096, mscale=0.707, mscale_all_dim=1.0, blend="geometric"),
    ),
    row=(
        (
            "YaRN(s, L0)",
            "`f_k` to `f_k / s`, ramp linear in k from the pair of `beta_fast` turns to that of "
            "`beta_slow`",
            "`0.1 ln s + 1`",
            "`truncate`; `mscale` without `mscale_all_dim`; the paper's ramp is linear in r_k; "
            "where m is applied",
            "Qwen 2.5 and 3, gpt-oss, DeepSeek, Ministral 3, OLMo 3",
        ),
        (
            'YaRN(blend="geometric")', "`f_k / s^w_k`, where w_k is the same ramp", "as YaRN",
            "Grok's code has m = 1: `attention_factor=1.0`", 'Grok ("yarn_log")',
        ),
    ),
    magnitude=_mscale,
)  # fmt: skip
def yarn(s: YaRN, base: Any, d: int, seq_len: int | None) -> list[Number]:
    """A blend of the plain and the divided frequencies."""
    factor, plain = mpmath().mp.mpf(s.factor), powers(base, d)
    ramp = _ramp(s, base, d, s.beta_fast, s.beta_slow, s.truncate)
    if s.blend == "geometric":
        return [w / factor**r for w, r in zip(plain, ramp, strict=True)]
    return [w / factor * r + w * (1 - r) for w, r in zip(plain, ramp, strict=True)]


@schedule(
    NTKByParts,
    words="(1 - c_k) f_k + c_k ((1 - b_k) n_k + b_k f_k / {s.factor:g}); n_k is the "
    "NTK-aware frequency, the ramp c_k is that of gamma, b_k that of beta",
    examples=(NTKByParts(4.0, 4096),),
    row=(
        "NTKByParts(s, L0)",
        "from fast to slow pairs `f_k`, `n_k(s)`, `f_k / s`, joined by two ramps", "1",
        "the YaRN paper uses this name for its own blend", "YaRN's repository",
    ),
)  # fmt: skip
def by_parts(s: NTKByParts, base: Any, d: int, seq_len: int | None) -> list[Number]:
    """Two blends: of NTK and linear, and of that with the plain frequencies."""
    factor = mpmath().mp.mpf(s.factor)
    beta = _ramp(s, base, d, s.beta_0, s.beta_1, True)
    gamma = _ramp(s, base, d, s.gamma_0, s.gamma_1, True)
    plain, ntk = powers(base, d), ntk_aware(base, d, factor)
    mixed = [n * (1 - b) + w / factor * b for w, n, b in zip(plain, ntk, beta, strict=True)]
    return [x * g + w * (1 - g) for w, x, g in zip(plain, mixed, gamma, strict=True)]
