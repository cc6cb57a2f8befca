"""Frequencies of rotary encodings in 50-digit mpmath, from the fields of a schedule.

The formulas follow the papers and the models' code, and are written differently from those of
``posenc_ref``: a power instead of a quotient, a logarithm instead of a power.
"""

from __future__ import annotations

from typing import Any

from .digits import mpmath
from .numbers import Number


def frequencies(s: Any, base: float, d: int, seq_len: int | None) -> list[Number]:
    """Return the frequency of each of d/2 pairs in radians per position.

    ``s`` is the schedule, or None without frequency scaling.
    """
    base = mpmath().mp.mpf(base)
    if s is None:
        return _powers(base, d)
    return _RULES[type(s).__name__](s, base, d, seq_len)  # type: ignore[no-any-return]


def depends_on_length(s: Any) -> bool:
    """Return whether the sequence length changes the frequencies or m."""
    kind = type(s).__name__
    return kind == "QwenNTK" or (kind in ("DynamicNTK", "LongRoPE") and s.policy == "current")


def magnitude(s: Any, seq_len: int | None) -> Number:
    """Return the attention factor m, which multiplies cos and sin."""
    mp, kind = mpmath().mp, type(s).__name__
    given = getattr(s, "attention_factor", None)
    if given is not None:
        return mp.mpf(given[_is_long(s, seq_len)] if isinstance(given, tuple) else given)
    if kind == "LongRoPE":
        return mp.sqrt(1 + mp.log(s.factor) / mp.log(s.original_max_position))
    if kind != "YaRN":
        return mp.mpf(1)

    def get_mscale(weight: float) -> Number:
        return mp.mpf(weight) * mp.log(mp.mpf(s.factor)) / 10 + 1

    above, below = s.mscale, s.mscale_all_dim
    return get_mscale(above) / get_mscale(below) if above and below else get_mscale(1)


def _powers(base: Number, d: int) -> list[Number]:
    mp = mpmath().mp
    return [mp.exp(-mp.mpf(2 * k) / d * mp.log(base)) for k in range(d // 2)]


def _ntk_aware(base: Number, d: int, alpha: Number) -> list[Number]:
    mp = mpmath().mp
    return _powers(base * mp.mpf(alpha) ** (mp.mpf(d) / (d - 2)), d)


def _dynamic(s: Any, base: Number, d: int, seq_len: int | None) -> list[Number]:
    factor, trained = mpmath().mp.mpf(s.factor), s.max_position
    length = factor * trained if s.policy == "static" else max(seq_len or 0, trained)
    return _ntk_aware(base, d, factor * length / trained - (factor - 1))


def _qwen(s: Any, base: Number, d: int, seq_len: int | None) -> list[Number]:
    doublings, reach = 0, s.train_length
    while reach < (seq_len or 0):
        doublings, reach = doublings + 1, 2 * reach
    return _ntk_aware(base, d, max(2 ** (doublings + 1) - 1, 1))


def _su(s: Any, base: Number, d: int, seq_len: int | None) -> list[Number]:
    mp = mpmath().mp
    power, log = mp.mpf(s.power), mp.log(mp.mpf(s.factor))
    a = log / mp.mpf(d // 2) ** power
    return [w * mp.exp(-a * mp.mpf(k + 1) ** power) for k, w in enumerate(_powers(base, d))]


def _correction(s: Any, base: Number, d: int, turns: float) -> Number:
    """Return the (fractional) pair that makes ``turns`` turns within the trained length."""
    mp = mpmath().mp
    length = mp.mpf(s.original_max_position)
    return d * mp.log(length / (mp.mpf(turns) * 2 * mp.pi)) / (2 * mp.log(base))


def _ramp(s: Any, base: Number, d: int, fast: float, slow: float, whole: bool) -> list[Number]:
    """Return YaRN's ramp: 0 for high frequencies, 1 for low ones."""
    mp = mpmath().mp
    low, high = (_correction(s, base, d, turns) for turns in (fast, slow))
    if whole:
        low, high = mp.floor(low), mp.ceil(high)
    low, high = mp.mpf(max(low, 0)), mp.mpf(min(high, d - 1))
    if low == high:
        high = high + mp.mpf(1) / 1000
    return [min(max((k - low) / (high - low), mp.mpf(0)), mp.mpf(1)) for k in range(d // 2)]


def _yarn(s: Any, base: Number, d: int, seq_len: int | None) -> list[Number]:
    factor, plain = mpmath().mp.mpf(s.factor), _powers(base, d)
    ramp = _ramp(s, base, d, s.beta_fast, s.beta_slow, s.truncate)
    if s.blend == "geometric":
        return [w / factor**r for w, r in zip(plain, ramp, strict=True)]
    return [w / factor * r + w * (1 - r) for w, r in zip(plain, ramp, strict=True)]


def _by_parts(s: Any, base: Number, d: int, seq_len: int | None) -> list[Number]:
    factor = mpmath().mp.mpf(s.factor)
    beta = _ramp(s, base, d, s.beta_0, s.beta_1, True)
    gamma = _ramp(s, base, d, s.gamma_0, s.gamma_1, True)
    plain, ntk = _powers(base, d), _ntk_aware(base, d, factor)
    mixed = [n * (1 - b) + w / factor * b for w, n, b in zip(plain, ntk, beta, strict=True)]
    return [x * g + w * (1 - g) for w, x, g in zip(plain, mixed, gamma, strict=True)]


def _llama3(s: Any, base: Number, d: int, seq_len: int | None) -> list[Number]:
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

    return [scaled(w) for w in _powers(base, d)]


def _is_long(s: Any, seq_len: int | None) -> bool:
    longer: bool = s.policy == "current" and (seq_len or 0) > s.original_max_position
    return longer or s.policy == "long"


def _longrope(s: Any, base: Number, d: int, seq_len: int | None) -> list[Number]:
    divisors = s.long_factor if _is_long(s, seq_len) else s.short_factor
    return [w / mpmath().mp.mpf(x) for w, x in zip(_powers(base, d), divisors, strict=True)]


def _riflex(s: Any, base: Number, d: int, seq_len: int | None) -> list[Number]:
    mp = mpmath().mp
    wavelengths = [2 * mp.pi / w for w in _powers(base, d)]
    if s.fine_tuned or s.length > mp.nint(wavelengths[s.pair - 1]):
        wavelengths[s.pair - 1] = mp.mpf(s.length) / mp.mpf(s.periods)
    return [2 * mp.pi / x for x in wavelengths]


def _proportional(s: Any, base: Number, d: int, seq_len: int | None) -> list[Number]:
    turning = int(s.fraction * d // 2)
    rest = [mpmath().mp.mpf(0)] * (d // 2 - turning)
    return [w / s.factor for w in _powers(base, d)[:turning]] + rest


_RULES: dict[str, Any] = {
    "LinearScaling": lambda s, base, d, seq_len: [w / s.factor for w in _powers(base, d)],
    "NTKScaling": lambda s, base, d, seq_len: _ntk_aware(base, d, s.factor),
    "DynamicNTK": _dynamic,
    "QwenNTK": _qwen,
    "SuNTK": _su,
    "NTKByParts": _by_parts,
    "YaRN": _yarn,
    "Llama3Scaling": _llama3,
    "LongRoPE": _longrope,
    "Proportional": _proportional,
    "RIFLEx": _riflex,
    "GivenFrequencies": lambda s, base, d, seq_len: [mpmath().mp.mpf(w) for w in s.frequencies],
}
