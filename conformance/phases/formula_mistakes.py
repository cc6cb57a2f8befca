"""Wrong forms of scaling formulas, in NumPy alone.

The entry "as declared", as in ``YARN_SHAPES``, is the right formula, written independently of
``posenc_ref``. It also accepts parameters that ``posenc_ref`` refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import RoPE

Shape = Callable[..., np.ndarray]


@dataclass(frozen=True)
class Head:
    """The fields of an encoding that the formulas use."""

    head_dim: int
    rotary_dim: int
    base: float


def _plain(encoding: RoPE | Head, base: float | None = None) -> np.ndarray:
    assert encoding.rotary_dim is not None
    d = encoding.rotary_dim
    return np.asarray((base or encoding.base) ** (-np.arange(0, d, 2) / d))


def _yarn(
    encoding: RoPE | Head,
    s: Any,
    *,
    beta_fast: float | None = None,
    beta_slow: float | None = None,
    reverse: bool = False,
    geometric: bool | None = None,
    periods: bool = False,
    rounding: str = "",
    base: float | None = None,
    over_head: bool = False,
    top: str = "d - 1",
    two_pi: float = 2 * np.pi,
    channels: bool = False,
    decimal: bool = False,
    inverted: bool = False,
) -> np.ndarray:
    """Return YaRN's frequencies, with the given mistakes."""
    assert encoding.rotary_dim is not None
    d = encoding.head_dim if over_head else encoding.rotary_dim
    f = _plain(encoding)
    rounding = rounding or ("out" if s.truncate else "")

    def correction(turns: float) -> float:
        ratio = s.original_max_position / (turns * two_pi)
        log = np.log10 if decimal else np.log
        return float(d * log(ratio) / (2 * np.log(base or encoding.base)))

    fast = s.beta_fast if beta_fast is None else beta_fast
    slow = s.beta_slow if beta_slow is None else beta_slow
    low, high = correction(fast), correction(slow)
    if rounding == "out":
        low, high = np.floor(low), np.ceil(high)
    elif rounding:
        to = {"nearest": np.rint, "down": np.floor, "up": np.ceil}[rounding]
        low, high = to(low), to(high)
    low, high = max(low, 0.0), min(high, d / 2 - 1 if top == "d/2 - 1" else d - 1)
    if low == high:
        high += 1e-3
    k = np.arange(f.size) * (2 if channels else 1)
    ramp = np.clip((k - low) / (high - low), 0, 1)
    ramp = 1 - ramp if reverse else ramp
    scaled = f * s.factor if inverted else f / s.factor
    if geometric is None:
        geometric = not periods and getattr(s, "blend", "") == "geometric"
    if geometric:
        return np.asarray(np.exp((1 - ramp) * np.log(f) + ramp * np.log(scaled)))
    if periods:
        return np.asarray(1 / ((1 - ramp) / f + ramp / scaled))
    return np.asarray(f * (1 - ramp) + scaled * ramp)


YARN_SHAPES: dict[str, Shape] = {
    "as declared": _yarn,
    "the ramp is reversed: fast pairs are interpolated, slow ones kept": partial(
        _yarn, reverse=True
    ),
    "frequencies are blended geometrically": partial(_yarn, geometric=True),
    "frequencies are blended linearly, as in YaRN's code, not geometrically": partial(
        _yarn, geometric=False
    ),
    "periods are blended, not frequencies": partial(_yarn, periods=True),
    "the base is 10000 in the ramp": partial(_yarn, base=10000.0),
    "head_dim is used in place of rotary_dim in the ramp": partial(_yarn, over_head=True),
    "the ends of the ramp are rounded to the nearest integer": partial(_yarn, rounding="nearest"),
    "both ends of the ramp are rounded down": partial(_yarn, rounding="down"),
    "both ends of the ramp are rounded up": partial(_yarn, rounding="up"),
    "the end of the ramp is clamped to d/2 - 1": partial(_yarn, top="d/2 - 1"),
    "the ramp runs over channels, not pairs": partial(_yarn, channels=True),
    "2 pi is missing from the wavelength": partial(_yarn, two_pi=1.0),
    "pi is used for 2 pi in the wavelength": partial(_yarn, two_pi=np.pi),
    "a decimal logarithm is divided by a natural one in the ramp": partial(_yarn, decimal=True),
    "frequencies are multiplied by the factor, not divided": partial(_yarn, inverted=True),
}


def _llama3(
    encoding: RoPE | Head,
    s: Any,
    *,
    low_freq_factor: float | None = None,
    high_freq_factor: float | None = None,
    inverted: bool = False,
    step: str = "",
    by_wavelength: bool = False,
    exchanged: bool = False,
    reversed_ends: bool = False,
    two_pi: float = 2 * np.pi,
) -> np.ndarray:
    """Return Llama 3's frequencies, with the given mistakes."""
    low = s.low_freq_factor if low_freq_factor is None else low_freq_factor
    high = s.high_freq_factor if high_freq_factor is None else high_freq_factor
    f, original = _plain(encoding), s.original_max_position
    wavelength = two_pi / f
    if by_wavelength:
        long, short = original / low, original / high
        smooth = (long - wavelength) / (long - short)
    else:
        with np.errstate(divide="ignore", invalid="ignore"):  # low == high: no pair is blended
            smooth = (original / wavelength - low) / (high - low)
    if exchanged:  # clipping covers low and high frequencies too
        turns = np.clip((original / wavelength - high) / (low - high), 0, 1)
        return np.asarray(f / s.factor + turns * (f - f / s.factor))
    smooth = 1 - smooth if inverted else smooth
    blended = f / s.factor + np.where(np.isfinite(smooth), smooth, 0.0) * (f - f / s.factor)
    if step:
        blended = {"slow": f / s.factor, "fast": f}[step]
    fast, slow = (f / s.factor, f) if reversed_ends else (f, f / s.factor)
    ends = np.where(wavelength > original / low, slow, blended)
    return np.where(wavelength < original / high, fast, ends)


LLAMA3_SHAPES: dict[str, Shape] = {
    "as declared": _llama3,
    "the blend is inverted: 1 - smooth is used in place of smooth": partial(_llama3, inverted=True),
    "medium frequencies are divided by the factor, not blended: the blend is missing, or "
    "low_freq_factor and high_freq_factor are exchanged": partial(_llama3, step="slow"),
    "medium frequencies are not scaled at all: the blend is missing, or low_freq_factor and "
    "high_freq_factor are exchanged": partial(_llama3, step="fast"),
    "the comparisons of the wavelength are reversed: fast pairs are divided by the factor, slow "
    "ones are kept, and the blend between them is right": partial(_llama3, reversed_ends=True),
    "low_freq_factor and high_freq_factor are exchanged in the blend": partial(
        _llama3, exchanged=True
    ),
    "the blend is linear in the wavelength, not in the frequency": partial(
        _llama3, by_wavelength=True
    ),
    "2 pi is missing from the wavelength": partial(_llama3, two_pi=1.0),
}


def _ntk(encoding: RoPE | Head, s: Any, exponent: Callable[[float, float], float]) -> np.ndarray:
    """Return NTK's frequencies, with another exponent on the factor."""
    assert encoding.rotary_dim is not None
    power = exponent(encoding.rotary_dim, encoding.head_dim)
    return _plain(encoding, encoding.base * s.factor**power)


NTK_SHAPES: dict[str, Shape] = {
    "the base is multiplied by the factor itself, without the exponent d/(d-2)": partial(
        _ntk, exponent=lambda d, head: 1.0
    ),
    "the exponent is d/(d-1), not d/(d-2)": partial(_ntk, exponent=lambda d, head: d / (d - 1)),
    "the exponent is (d-2)/d, not d/(d-2)": partial(_ntk, exponent=lambda d, head: (d - 2) / d),
    "the exponent is n/(n-2) with n = d/2 pairs, not d/(d-2)": partial(
        _ntk, exponent=lambda d, head: d / (d - 4)
    ),
    "head_dim is used in place of rotary_dim in the exponent": partial(
        _ntk, exponent=lambda d, head: head / (head - 2)
    ),
    "the factor enters squared": partial(_ntk, exponent=lambda d, head: 2 * d / (d - 2)),
}

#: Messages of the mistakes that change a number, not the form: their code is scaling-parameter.
PARAMETERS = (
    "the base is 10000 in the ramp",
    "head_dim is used in place of rotary_dim in the ramp",
    "2 pi is missing from the wavelength",
    "pi is used for 2 pi in the wavelength",
    "a decimal logarithm is divided by a natural one in the ramp",
    "frequencies are multiplied by the factor, not divided",
    "low_freq_factor and high_freq_factor are exchanged in the blend",
)
