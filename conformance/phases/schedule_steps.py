"""The formulas of frequency scalings, written in steps that may be computed differently."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref import RoPE
from posenc_ref.conformance.diagnosis.steps import Steps, changes, computed, plain_steps
from posenc_ref.conformance.diagnosis.together import likely_changes

from .frequencies import SHORT_PI, FrequencyMistake

Formula = Callable[[RoPE, Any, Steps], np.ndarray]
#: Mistakes for 2 pi, with few digits of pi.
_SHORT_TWO_PI = tuple(
    ("scaling-formula", f"is {2 * pi:.7g}, not 2 * math.pi", 2 * pi) for pi in SHORT_PI.values()
)


def step_mistakes(encoding: RoPE) -> Iterator[FrequencyMistake]:
    """Yield the frequencies of every changed step of the declared scaling."""
    scaling = encoding.scaling
    formula = next((of for form, of in _FORMS if isinstance(scaling, form)), None)
    if formula is None:
        return
    run = lambda steps: formula(encoding, scaling, steps)  # noqa: E731
    for code, message, _, change in changes(plain_steps(run)):
        if change in _SHAPES and not (change in _OF_YARN and isinstance(scaling, pr.Llama3Scaling)):
            continue
        predicted = np.asarray(computed(run, change), np.float64)
        if predicted.shape == (encoding.rotary_dim // 2,) and np.isfinite(predicted).all():  # type: ignore[operator]
            text, remedy = f"{type(scaling).__name__}: {message}", _remedy(*change)
            yield FrequencyMistake(
                code, text, predicted, equivalent=("scaling-parameter",), remedy=remedy
            )


def _remedy(name: str, words: str, *_: str) -> str:
    """Return what to change, from the words of a change such as "is a, not b"."""
    said = words.split(" ", 1)[-1]
    if ", not " in said:
        wrong, right = said.split(", not ", 1)
        return f"{name[:1].upper()}{name[1:]} must be {right}, not {wrong}."
    return ""


def formula_of(encoding: RoPE) -> Formula | None:
    """Return the formula of the declared scaling, or None if there is none here."""
    return next((of for form, of in _FORMS if isinstance(encoding.scaling, form)), None)


def computed_frequencies(encoding: RoPE) -> np.ndarray:
    """Return the frequencies, by the formula here if there is one: it takes less time."""
    formula = formula_of(encoding)
    if formula is None:
        return encoding.frequencies()
    return np.asarray(formula(encoding, encoding.scaling, Steps()), np.float64)


def two_steps(encoding: RoPE) -> Iterator[tuple[FrequencyMistake, FrequencyMistake]]:
    """Yield two changed steps of the declared scaling; the second one predicts both."""
    formula, name = formula_of(encoding), type(encoding.scaling).__name__
    if formula is None:
        return
    run = partial(formula, encoding, encoding.scaling)
    rows = [row for row in likely_changes(plain_steps(run)) if len(row[-1]) == 2]
    for one, other in combinations(rows, 2):
        if one[-1][0] != other[-1][0]:
            predicted = np.asarray(computed(run, one[-1], other[-1]), np.float64)
            if predicted.shape == (encoding.frequencies().size,) and np.isfinite(predicted).all():
                first, second = (
                    FrequencyMistake(code, f"{name}: {message}", predicted, remedy=_remedy(*change))
                    for code, message, _, change in (one, other)
                )
                yield first, second


def _plain(e: RoPE, s: Steps) -> np.ndarray:
    assert e.rotary_dim is not None
    index = s.number("the index of the pair", np.arange(e.rotary_dim // 2), "exponent")
    return np.asarray(e.base ** (-2 * index / e.rotary_dim))


def _ramp(
    e: RoPE, length: float, fast: float, slow: float, truncate: bool, s: Steps, of: str = ""
) -> np.ndarray:
    """Return the ramp over the pairs: 0 at ``fast`` turns, 1 at ``slow``."""
    d, code = e.rotary_dim, "scaling-formula"
    assert d is not None
    two_pi = s.pick(
        f"2 pi in the ramp{of}", 2 * np.pi, (code, "is left out", 1.0), (code, "is pi", np.pi),
        *_SHORT_TWO_PI,
    )  # fmt: skip
    base = s.factor(f"the base in the ramp{of}", e.base, code)
    size = s.pick(f"the size in the ramp{of}", d, (code, "is head_dim, not rotary_dim", e.head_dim))

    def end(turns: float) -> float:
        return float(size * np.log(length / (two_pi * turns)) / (2 * np.log(base)))

    ends = end(fast), end(slow)
    low, high = s.pick(
        f"the ends of the ramp{of}",
        (np.floor(ends[0]), np.ceil(ends[1])) if truncate else ends,
        (code, "are rounded inwards, not outwards", (np.ceil(ends[0]), np.floor(ends[1]))),
        (code, "are not rounded", ends),
        (code, "are rounded to whole pairs", (np.floor(ends[0]), np.ceil(ends[1]))),
        (code, "are rounded to the nearest integer", (np.rint(ends[0]), np.rint(ends[1]))),
        (code, "are both rounded down", (np.floor(ends[0]), np.floor(ends[1]))),
        (code, "are both rounded up", (np.ceil(ends[0]), np.ceil(ends[1]))),
    )
    low = max(float(low), 0.0)
    top = s.pick(
        f"the largest end of the ramp{of}",
        d - 1,
        (code, "is d/2 - 1, not d - 1", d / 2 - 1),
        (code, "is d/2, not d - 1", d / 2),
        (code, "is d, not d - 1", d),
        (code, "has no bound", np.inf),
    )
    high = min(float(high), top)
    high = high + 1e-3 if low == high else high
    k = np.arange(d // 2)
    turns = length * e.base ** (-2 * k / d) / (2 * np.pi)
    linear = np.clip((fast - turns) / (fast - slow), 0, 1) if fast != slow else 1.0 * (turns < slow)
    above, width = k - low, high - low
    above, width = s.pick(
        f"the ramp (k - low) / (high - low){of}",
        (above, width),
        (code, "divides by high - low + 1", (above, width + 1)),
        (code, "has k + 1 in place of k: pairs count from 1", (above + 1, width)),
        (code, "has k - 1 in place of k", (above - 1, width)),
        right="Pair k = 0, 1, ... has the weight (k - low) / (high - low), within 0 and 1.",
    )
    x = np.clip(above / width, 0, 1)
    return np.asarray(
        s.pick(
            f"the ramp{of}",
            x,
            (code, "is linear in the number of turns, not in the index of the pair", linear),
            (code, "is reversed", 1 - x),
            (code, "is a smoothstep", x * x * (3 - 2 * x)),
            (code, "is a step", (x >= 0.5) * 1.0),
            (code, "is 0", 0 * x),
            (code, "is 1", 0 * x + 1),
            (
                code,
                "is not clamped to at least 0: its weight is negative for fast pairs",
                np.minimum(above / width, 1),
            ),
            (
                code,
                "is not clamped to at most 1: its weight is larger for slow pairs",
                np.maximum(above / width, 0),
            ),
            (code, "is not clamped to 0 .. 1", above / width),
        )
    )


def _blended(s: Steps, f: Any, slowed: Any, weight: Any, of: str) -> np.ndarray:
    """Return ``(1 - weight) f + weight slowed``."""
    code = "scaling-formula"
    with np.errstate(all="ignore"):
        return np.asarray(
            s.pick(
                of,
                (1 - weight) * f + weight * slowed,
                (code, "is of wavelengths, not of frequencies",
                 1 / ((1 - weight) / f + weight / slowed)),
                (code, "is geometric", f ** (1 - weight) * slowed**weight),
                (code, "has its weights exchanged", weight * f + (1 - weight) * slowed),
            )
        )  # fmt: skip


def _yarn(e: RoPE, y: Any, s: Steps) -> np.ndarray:
    f = _plain(e, s)
    length = s.factor("the trained length", float(y.original_max_position), "scaling-parameter")
    weight = _ramp(e, float(length), y.beta_fast, y.beta_slow, y.truncate, s)
    factor = s.factor("the factor", y.factor, "scaling-parameter")
    if y.blend == "geometric":
        code = "scaling-formula"
        return np.asarray(
            s.pick(
                "the blend f / factor ** w",
                f / factor**weight,
                (
                    code,
                    "is linear, (1 - w) f + w f / factor",
                    (1 - weight) * f + weight * f / factor,
                ),
                (code, "has the weight 1 - w in place of w", f / factor ** (1 - weight)),
            )
        )
    return _blended(s, f, f / factor, weight, "the blend")


def _llama3(e: RoPE, y: Any, s: Steps) -> np.ndarray:
    f = _plain(e, s)
    code = "scaling-formula"
    length = s.factor("the trained length", float(y.original_max_position), "scaling-parameter")
    two_pi = s.pick(
        "2 pi", 2 * np.pi, (code, "is left out", 1.0), (code, "is pi", np.pi), *_SHORT_TWO_PI
    )
    turns = length * f / two_pi
    low, high = y.low_freq_factor, y.high_freq_factor
    if low == high:
        return np.asarray(np.where(turns > low, f, f / y.factor))
    line = (turns - low) / (high - low)
    x = np.clip(line, 0, 1)
    wave = 1 / turns
    by_wave = np.clip((1 / low - wave) / (1 / low - 1 / high), 0, 1)
    middle = (x > 0) & (x < 1)
    t = s.pick(
        "the smooth factor",
        x,
        (code, "is linear in the wavelength, not in the number of turns", by_wave),
        (code, "is replaced by 1 - smooth between the thresholds", np.where(middle, 1 - x, x)),
        (code, "is a step at the low threshold", 1.0 * (turns > low)),
        (code, "is a step at the high threshold", 1.0 * (turns >= high)),
        (code, "is squared", x * x),
        (code, "is a smoothstep", x * x * (3 - 2 * x)),
        (code, "is not limited to at least 0", np.minimum(line, 1)),
        (code, "is not limited to at most 1", np.maximum(line, 0)),
        (code, "is not limited to 0 .. 1", line),
    )
    factor = s.factor("the factor", y.factor, "scaling-parameter")
    return _blended(s, f / factor, f, t, "the blend")


def _by_parts(e: RoPE, y: Any, s: Steps) -> np.ndarray:
    d = e.rotary_dim
    assert d is not None
    f, code = _plain(e, s), "scaling-formula"
    size = s.pick("the size in the NTK base", d, (code, "is head_dim, not rotary_dim", e.head_dim))
    ntk = (e.base * y.factor ** (size / (size - 2))) ** (-2 * np.arange(d // 2) / d)
    ntk = s.pick(
        "the NTK-aware frequency",
        ntk,
        (code, "is left out: the plain one is used", f),
        (code, "is replaced by the interpolated one", f / y.factor),
        (code, "has the base multiplied by the factor itself",
         (e.base * y.factor) ** (-2 * np.arange(d // 2) / d)),
    )  # fmt: skip
    pairs = (y.beta_0, y.beta_1), (y.gamma_0, y.gamma_1)
    betas, gammas = s.pick(
        "the beta and the gamma ramps", pairs, (code, "are exchanged", pairs[::-1])
    )
    length = float(y.original_max_position)
    b = _ramp(e, length, betas[0], betas[1], True, s, " from beta_0 to beta_1")
    c = _ramp(e, length, gammas[0], gammas[1], True, s, " from gamma_0 to gamma_1")
    return _blended(s, f, _blended(s, ntk, f / y.factor, b, "the blend of NTK and linear"), c,
                    "the blend with the plain frequencies")  # fmt: skip


def _su(e: RoPE, y: Any, s: Steps) -> np.ndarray:
    d = e.rotary_dim
    assert d is not None
    index = s.number("the index k + 1 in the divisor", np.arange(1, d // 2 + 1), "exponent")
    power = s.factor("the power", y.power, "scaling-parameter")
    factor = s.factor("the factor", y.factor, "scaling-parameter")
    half = d / 2
    exponent = s.pick(
        "the exponent of the factor",
        (index / half) ** power,
        ("scaling-formula", "is k + 1 to the power, divided by d/2, not by (d/2) to the power",
         index**power / half),
        ("scaling-formula", "is k + 1, divided by (d/2) to the power", index / half**power),
        right="Divide k + 1 by d/2 first, and then take the power.",
    )  # fmt: skip
    return np.asarray(_plain(e, s) / factor**exponent)


_FORMS: tuple[tuple[type, Formula], ...] = (
    (pr.YaRN, _yarn),
    (pr.Llama3Scaling, _llama3),
    (pr.NTKByParts, _by_parts),
    (pr.SuNTK, _su),
)
#: Changes of the blend that :mod:`.formula_mistakes` has for YaRN only.
_OF_YARN = {
    ("the blend", "is of wavelengths, not of frequencies"),
    ("the blend", "is geometric"),
}
#: Changes that :mod:`.formula_mistakes` has, with other words.
_SHAPES = {
    ("2 pi in the ramp", "is left out"),
    ("2 pi in the ramp", "is pi"),
    ("2 pi", "is left out"),
    ("the size in the ramp", "is head_dim, not rotary_dim"),
    ("the ends of the ramp", "are rounded to the nearest integer"),
    ("the ends of the ramp", "are rounded to whole pairs"),
    ("the ends of the ramp", "are not rounded"),
    ("the ends of the ramp", "are both rounded down"),
    ("the ends of the ramp", "are both rounded up"),
    ("the largest end of the ramp", "is d/2 - 1, not d - 1"),
    ("the ramp", "is reversed"),
    ("the blend", "is of wavelengths, not of frequencies"),
    ("the blend", "is geometric"),
    ("the blend", "has its weights exchanged"),
    ("the smooth factor", "is linear in the wavelength, not in the number of turns"),
    ("the smooth factor", "is replaced by 1 - smooth between the thresholds"),
}
