"""Wrong attention factors of scaled rotations: wrong forms of the declared formula."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref import Rotary
from posenc_ref.accuracy import FACTOR_SLACK

_EXCHANGED = "the factors of short and of long contexts are exchanged"


def factors(encoding: Rotary, length: int | None = None) -> dict[str, float]:
    """Return the factors on cos and sin that known mistakes give, by message."""
    m = encoding.attention_factor(length)
    found: dict[str, float] = {}
    scaling: Any = getattr(encoding, "scaling", None)
    if m != 1.0:
        found |= {
            "the attention factor is missing": 1.0,
            "the attention factor is applied twice": m * m,
            "the square root of the attention factor is applied": abs(m) ** 0.5,
            "cos and sin are divided by the attention factor": 1 / m,
        }
    if isinstance(scaling, pr.YaRN | pr.LongRoPE):
        formula = _yarn if isinstance(scaling, pr.YaRN) else _longrope
        found |= {text: float(v) for text, v in formula(scaling).items()}
    if isinstance(given := getattr(scaling, "attention_factor", None), tuple):
        other = scaling.replace(attention_factor=given[::-1])
        found[_EXCHANGED] = encoding.replace(scaling=other).attention_factor(length)
    return {text: v for text, v in found.items() if abs(v - m) > FACTOR_SLACK * abs(m)}


def named(
    encoding: Rotary, factor: float, length: int | None = None, *, others: bool = False
) -> str:
    """Return the messages of the known mistakes that give this factor, joined; maybe empty.

    ``others`` says that the factor is right at other lengths.
    """
    every = factors(encoding, length).items()
    said = [text for text, value in every if abs(factor - value) <= FACTOR_SLACK * abs(value)]
    if others and _EXCHANGED in said:
        long = (length or 0) > encoding.scaling.original_max_position  # type: ignore[attr-defined]
        kinds = ("short", "long") if long else ("long", "short")
        said[said.index(_EXCHANGED)] = "the factor of {} contexts is used in {} ones".format(*kinds)
    return "; or ".join(said[:2])


def on_one(
    seen: tuple[np.ndarray, np.ndarray],
    exact: tuple[np.ndarray, np.ndarray],
    slack: np.ndarray,
    m: float,
) -> tuple[str, float, float] | None:
    """Return that cos and sin have different factors, in words, and the factors of both.

    None if the values are not those of the declared angles, times one number for all cosines and
    another one for all sines.

    Parameters
    ----------
    seen : tuple
        Cos and sin of the function.
    exact : tuple
        Cos and sin of the declared angles, of amplitude 1.
    slack : array
        The allowed error of values of amplitude 1.
    m : float
        The declared factor of both.
    """
    found = []
    for values, one in zip(seen, exact, strict=True):
        size = float(np.sum(one * one))
        factor = float(np.sum(values * one)) / size if size else 0.0
        if not factor > FACTOR_SLACK:
            return None
        if not (np.abs(values - factor * one) <= slack * max(factor, 1.0)).all():
            return None
        found.append(factor)
    a, b = found
    return None if abs(a - b) <= FACTOR_SLACK * abs(m) else (two_factors(a, b, m), a, b)


def two_factors(a: float, b: float, m: float) -> str:
    """Return that cos has the factor a and sin another one, b, in words; m is declared."""
    right = [abs(factor - m) <= FACTOR_SLACK * abs(m) for factor in (a, b)]
    plain = [abs(factor - 1) <= FACTOR_SLACK for factor in (a, b)]
    if m != 1.0 and any(right) and any(plain):
        name = "cos" if right[0] else "sin"
        return f"only {name} is multiplied by the attention factor {m:.6g}, not cos and sin"
    if any(right):
        name, other = ("sin", "cos") if right[0] else ("cos", "sin")
        factor = b if right[0] else a
        if m == 1.0:
            return f"only {name} is multiplied by {factor:.6g}; the declared factor is 1"
        return f"{name} is multiplied by {factor:.6g}, declared {m:.6g}; {other} is right"
    return f"cos is multiplied by {a:.6g}, sin by {b:.6g}, declared {m:.6g} for both"


def remedy(encoding: Rotary, length: int | None = None) -> str:
    """Return the declared factor as an instruction."""
    m, s = encoding.attention_factor(length), getattr(encoding, "scaling", None)
    text = f"Multiply both cos and sin by {m:.9g}, once"
    if isinstance(s, pr.YaRN) and s.attention_factor is None:
        top = 1.0 if s.mscale is None else s.mscale
        text += f": 0.1 * {top:g} * ln({s.factor:g}) + 1"
        if s.mscale_all_dim:
            text += f", divided by 0.1 * {s.mscale_all_dim:g} * ln({s.factor:g}) + 1"
    if isinstance(s, pr.LongRoPE) and s.attention_factor is None and m != 1.0:
        ratio = math.exp((m * m - 1) * math.log(s.original_max_position))
        text += f": sqrt(1 + ln({ratio:.6g}) / ln({s.original_max_position})), at every length"
    if isinstance(s, pr.LongRoPE) and isinstance(given := s.attention_factor, tuple):
        text = f"Multiply both cos and sin by {given[0]:.9g} in calls of up to "
        text += f"{s.original_max_position} tokens, by {given[1]:.9g} in longer ones, once"
    return f"{text}." if m != 1.0 else "Remove the factor from cos and sin: the declared one is 1."


def _yarn(s: Any) -> dict[str, float]:
    log = math.log(s.factor)

    def g(weight: float | None, of: float = log) -> float:
        return 0.1 * (1.0 if weight is None else weight) * of + 1

    found = {
        "the logarithm of the factor is decimal": g(s.mscale, math.log10(s.factor)),
        "the logarithm of the factor is binary": g(s.mscale, math.log2(s.factor)),
        "1 is not added to 0.1 ln(factor)": g(s.mscale) - 1,
        "the factor is 0.1 ln(factor) + 1, without mscale": g(1.0),
        "the factor is ln(factor) + 1, without 0.1": log + 1,
        "the factor is sqrt(0.1 ln(factor) + 1)": g(s.mscale) ** 0.5,
        "the logarithm is that of the trained length": g(
            s.mscale, math.log(s.original_max_position)
        ),
        "the factor is sqrt(1 + ln(factor) / ln(L0)), as in LongRoPE": math.sqrt(
            1 + log / math.log(s.original_max_position)
        ),
    }
    if s.mscale is not None and s.mscale_all_dim:
        found |= {
            "mscale_all_dim is not divided by: the factor is that of mscale": g(s.mscale),
            "the factor is that of mscale_all_dim": g(s.mscale_all_dim),
            "the factor of mscale_all_dim is divided by that of mscale, not the reverse":
                g(s.mscale_all_dim) / g(s.mscale),
            "the factors of mscale and mscale_all_dim are multiplied, not divided":
                g(s.mscale) * g(s.mscale_all_dim),
        }  # fmt: skip
    return found


def _longrope(s: Any) -> dict[str, float]:
    if not getattr(s, "factor", None) or s.factor <= 1:
        return {}
    factor, length = math.log(s.factor), math.log(s.original_max_position)
    extended = math.log(s.original_max_position * s.factor)
    return {
        "ln(factor) is divided by the logarithm of the extended length, not of the original one":
            math.sqrt(1 + factor / extended),
        "the root is missing: the factor is 1 + ln(factor) / ln(L0)": 1 + factor / length,
        "1 is not added under the root": math.sqrt(factor / length),
        "the factor is 0.1 ln(factor) + 1, as in YaRN": 0.1 * factor + 1,
        "the logarithm of the extended length is divided, not that of the factor":
            math.sqrt(1 + extended / length),
    }  # fmt: skip
