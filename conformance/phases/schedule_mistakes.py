"""Frequencies of known mistakes in a declared scaling.

Each mistake is the declaration with one change of its scaling. The first that matches every
measured frequency is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, product
from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref import RoPE
from posenc_ref.conformance.exact.schedules import schedules

from .formula_mistakes import LLAMA3_SHAPES, NTK_SHAPES, PARAMETERS, YARN_SHAPES
from .frequencies import PUBLISHED_BASES, FrequencyMistake
from .schedule_steps import computed_frequencies, formula_of, step_mistakes, two_steps

#: Extension factors and original lengths of released models.
FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0, 128.0)
LENGTHS = (2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144)
#: Llama-3 parameters of released models: factor, low, high, original length.
LLAMA3 = ((8.0, 1.0, 4.0, 8192), (32.0, 1.0, 4.0, 8192), (16.0, 1.0, 4.0, 8192))
#: Published low_freq_factor and high_freq_factor, and values without a blend.
LOW_HIGH = ((1.0, 4.0), (1.0, 1.0), (4.0, 4.0), (1.0, 2.0), (2.0, 4.0), (1.0, 8.0))
#: Published beta_fast and beta_slow of YaRN.
BETAS = ((32.0, 1.0), (64.0, 1.0), (128.0, 1.0), (16.0, 1.0), (32.0, 2.0))
#: Numbers of turns that may be written in place of these.
_TURNS = (128.0, 64.0, 48.0, 40.0, 32.0, 24.0, 20.0, 16.0, 10.0, 8.0, 4.0, 3.0, 2.0, 1.0, 0.5, 0.25)
#: The formula of a scaling, and its wrong forms.
SHAPES = {pr.YaRN: YARN_SHAPES, pr.Llama3Scaling: LLAMA3_SHAPES, pr.NTKScaling: NTK_SHAPES}


def scaling_mistakes(encoding: RoPE) -> Iterator[FrequencyMistake]:
    """Yield known mistakes in the declared scaling, likely ones first."""
    scaling = encoding.scaling
    if scaling is None:
        yield from _undeclared(encoding)
        return
    name = type(scaling).__name__
    plain = encoding.replace(scaling=None).frequencies()
    if isinstance(scaling, pr.Proportional):  # the pairs with frequency 0 show that it is applied
        yield from _changed(encoding, "", factor=1.0)
    yield FrequencyMistake(
        "scaling-missing",
        f"the declared scaling is missing: {scaling!r}",
        plain,
        remedy=f"Apply the declared {name} where the frequencies are computed.",
    )
    yield from _own(encoding)
    yield from _parameters(encoding)
    yield from _shapes(encoding)
    yield from _other_schedules(encoding)
    yield from _again(encoding, encoding.frequencies())


def _again(encoding: RoPE, w: np.ndarray) -> Iterator[FrequencyMistake]:
    """Yield frequencies to which the factor of the declared scaling is applied once more."""
    factor = getattr(encoding.scaling, "factor", None)
    if factor and factor != 1.0:
        yield FrequencyMistake(
            "position-scale",
            f"every frequency, or every position, is divided by the factor {factor:g} once more",
            w / factor,
            {"declared": 1.0, "measured": 1 / factor},
            ("scaling-parameter",),
            remedy=f"Divide by {factor:g} once, in the frequencies or in the positions.",
        )
        yield FrequencyMistake(
            "position-scale",
            f"positions are multiplied by the scaling factor {factor:g} once more",
            w * factor,
            {"declared": 1.0, "measured": factor},
            remedy=f"Do not multiply positions by {factor:g}: the frequencies hold the scaling.",
        )


def _own(encoding: RoPE) -> Iterator[FrequencyMistake]:
    """Yield the mistakes of the schedule's entry."""
    entry = schedules().get(type(encoding.scaling))  # type: ignore[arg-type]
    for one in entry.mistakes(encoding) if entry else ():
        if one.frequencies is None:
            yield from _changed(encoding, one.message, **dict(one.fields))
            continue
        told = {"declared": one.declared, "measured": one.measured}
        values = {name: value for name, value in told.items() if value is not None}
        yield FrequencyMistake(
            one.code, one.message, one.frequencies, values, one.alternatives, one.remedy
        )


def _replaced(
    encoding: RoPE, scaling: Any, code: str, message: str, remedy: str = "", **values: Any
) -> Iterator[FrequencyMistake]:
    """Yield the mistake that replaces the scaling, unless the new scaling is invalid."""
    try:
        made = scaling() if callable(scaling) else scaling
        changed = encoding.replace(scaling=made)
        predicted = computed_frequencies(changed)
    except (ValueError, TypeError):
        return
    yield FrequencyMistake(code, message, predicted, values, remedy=remedy, encoding=changed)


def _changed(encoding: RoPE, what: str, **changes: Any) -> Iterator[FrequencyMistake]:
    """Yield the mistake that changes some parameters of the declared scaling."""
    scaling: Any = encoding.scaling
    changes = {k: v for k, v in changes.items() if v != getattr(scaling, k)}
    if not changes:
        return
    changed = ", ".join(
        f"{k} is {_number(v)}, declared {_number(getattr(scaling, k))}" for k, v in changes.items()
    )
    first = next(iter(changes))
    yield from _replaced(
        encoding,
        lambda: scaling.replace(**changes),
        "scaling-parameter",
        f"{what}: {changed}" if what else changed,
        "Pass "
        + " and ".join(f"{k} = {_number(getattr(scaling, k))}" for k in changes)
        + " to the function that computes the frequencies.",
        declared=getattr(scaling, first),
        measured=changes[first],
    )


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else repr(value)


def trained_field(scaling: Any) -> str | None:
    """Return the field of a schedule with the length on which the model was trained, or None."""
    fields = ("original_max_position", "max_position", "train_length")
    return next((name for name in fields if getattr(scaling, name, None) is not None), None)


def one_schedule(encoding: Any) -> float:
    """Return the length up to which calls of every length have the same frequencies."""
    if encoding is None or not encoding.depends_on_length:
        return np.inf
    name = trained_field(encoding.scaling)
    return np.inf if name is None else float(getattr(encoding.scaling, name))


def one_factor(encoding: Any) -> float:
    """Return the length up to which calls of every length have one factor on cos and sin."""
    factor = getattr(encoding, "attention_factor", None)
    if factor is None or factor(1) == factor(2**30):
        return np.inf
    return one_schedule(encoding)


def _parameters(encoding: RoPE) -> Iterator[FrequencyMistake]:
    """Yield mistakes in one parameter, with declared constants before published ones."""
    s: Any = encoding.scaling
    fields = set(s.to_dict())
    factor = getattr(s, "factor", None)
    length = trained_field(s)
    if "truncate" in fields:
        yield from _changed(encoding, "", truncate=not s.truncate)
    if "beta_fast" in fields:
        yield _swapped_betas(encoding, s)
    if factor and "short_factor" not in fields:
        yield from _changed(encoding, "the factor is applied twice", factor=factor * factor)
        yield from _changed(encoding, "", factor=float(np.sqrt(factor)))
    if length and factor:
        original = getattr(s, length)
        yield from _changed(encoding, "the extended length", **{length: round(original * factor)})
        yield from _changed(encoding, "", **{length: round(original / factor)})
    if "short_factor" in fields:
        yield from _long_rope(encoding)
    if "low_freq_factor" in fields:
        yield from _shapes(encoding)  # a wrong formula is likelier than low == high
        for low, high in LOW_HIGH:
            yield from _changed(encoding, "", low_freq_factor=low, high_freq_factor=high)
    if factor and "short_factor" not in fields:
        for f in FACTORS:
            yield from _changed(encoding, "", factor=f)
    if length:
        for n in LENGTHS:
            yield from _changed(encoding, "", **{length: n})
    if "beta_fast" in fields:
        for fast, slow in BETAS:
            yield from _changed(encoding, "", beta_fast=fast, beta_slow=slow)
    if "fraction" in fields:
        yield from _slice_denominators(encoding)
        for fraction in (0.25, 0.5, 0.75, 1.0):
            yield from _changed(encoding, "", fraction=fraction)
    if "policy" in fields:
        for policy in ("static", "current", "short", "long"):
            if policy != s.policy:
                yield from _changed(encoding, "", policy=policy)


def unusual_turns(encoding: RoPE) -> Iterator[FrequencyMistake]:
    """Yield a ramp between other numbers of turns, which no model has published."""
    if "beta_fast" in encoding.scaling.to_dict():  # type: ignore[union-attr]
        for fast, slow in product(_TURNS, _TURNS):
            if fast > slow:
                yield from _changed(encoding, "", beta_fast=fast, beta_slow=slow)


def _slice_denominators(encoding: RoPE) -> Iterator[FrequencyMistake]:
    turning = int(np.count_nonzero(encoding.frequencies()))
    if not turning:
        return
    shape = np.where(
        encoding.frequencies() != 0,
        encoding.base ** -(np.arange(encoding.frequencies().size) / turning),
        0.0,
    )
    yield FrequencyMistake(
        "denominator",
        f"exponents are divided by the {2 * turning} channels that turn, not by head_dim",
        shape / getattr(encoding.scaling, "factor", 1.0),
        {},
        ("proportional",),
    )


def _swapped_betas(encoding: RoPE, s: Any) -> FrequencyMistake:
    """Return YaRN with exchanged betas, which ``posenc_ref.YaRN`` refuses."""
    text = "beta_fast and beta_slow are exchanged"
    if not s.truncate:
        text += ", or the ramp is reversed (without truncation that is the same)"
    swapped = {"beta_fast": s.beta_slow, "beta_slow": s.beta_fast}
    predicted = YARN_SHAPES["as declared"](encoding, s, **swapped)
    return FrequencyMistake("scaling-parameter", text, predicted, {}, ("scaling-formula",))


def _shapes(encoding: RoPE) -> Iterator[FrequencyMistake]:
    """Yield wrong forms of the declared formula."""
    s: Any = encoding.scaling
    for what, shape in SHAPES.get(type(s), {}).items():
        if what == "as declared":
            continue
        with np.errstate(all="ignore"):
            predicted = shape(encoding, s)
        if np.isfinite(predicted).all():
            code = "scaling-parameter" if what in PARAMETERS else "scaling-formula"
            yield FrequencyMistake(code, f"{type(s).__name__}: {what}", predicted)


def _long_rope(encoding: RoPE) -> Iterator[FrequencyMistake]:
    s: Any = encoding.scaling
    plain = encoding.replace(scaling=None).frequencies()
    short, long = np.array(s.short_factor), np.array(s.long_factor)
    name, other = ("long", long) if s.policy != "long" else ("short", short)
    yield FrequencyMistake(
        "scaling-parameter", f"the {name} factors are used for this length", plain / other
    )
    for name, factors in (("short", short), ("long", long)):
        yield FrequencyMistake(
            "scaling-formula", f"frequencies are multiplied by the {name} factors", plain * factors
        )


def _other_schedules(encoding: RoPE) -> Iterator[FrequencyMistake]:
    """Yield schedules of another class, with the constants of the declared one."""
    name = type(encoding.scaling).__name__
    for other in _formulas(encoding.scaling):
        if type(other) is not type(encoding.scaling):
            text = f"the scaling is {other!r}, declared {name}"
            yield from _replaced(encoding, other, "scaling-formula", text)


def _formulas(declared: Any) -> Iterator[Any]:
    """Yield other schedules with the constants of the declared one."""
    factor = getattr(declared, "factor", None)
    length = getattr(declared, trained_field(declared) or "", None)
    if not factor or factor <= 1.0:
        return
    yield pr.LinearScaling(factor)
    yield pr.NTKScaling(factor)
    if length:
        yield pr.YaRN(factor, length)
        yield pr.Llama3Scaling(factor, 1.0, 4.0, length)
        yield pr.NTKByParts(factor, length)
        yield pr.DynamicNTK(factor, length, policy="static")


def _undeclared(encoding: RoPE) -> Iterator[FrequencyMistake]:
    """Yield scalings of released models, for an encoding that declares none."""
    llama3 = (pr.Llama3Scaling(*parameters) for parameters in LLAMA3)
    yarn = (pr.YaRN(factor, length) for factor, length in product(FACTORS, LENGTHS[:6]))
    for made in chain(llama3, yarn):
        text = f"the scaling is {made!r}, declared none"
        yield from _replaced(encoding, made, "scaling-formula", text)


def two_mistakes(encoding: RoPE) -> Iterator[tuple[FrequencyMistake, FrequencyMistake]]:
    """Yield two mistakes that are made at once; the second one predicts the result of both.

    A wrong base, parameter or schedule comes first, with a mistake in the formula or in another
    parameter, and then two changed steps of the formula.
    """
    firsts = [*_bases(encoding), *(m for m in scaling_mistakes(encoding) if m.encoding)]
    for one in firsts:
        if one.encoding.scaling is not None:
            wrong = chain(_own(one.encoding), _shapes(one.encoding))
            if one.encoding.scaling == encoding.scaling:
                wrong = chain(_other_schedules(one.encoding), wrong)
            for other in wrong:
                yield one, other
    for one in firsts:
        for other in _parameters(one.encoding) if one.encoding.scaling is not None else ():
            yield one, other
    for one in firsts:
        for other in step_mistakes(one.encoding):
            yield one, other
    for one in chain(scaling_mistakes(encoding), step_mistakes(encoding)):
        for other in _again(encoding, one.predicted):
            yield one, other
    yield from two_steps(encoding)


def with_factor(encoding: RoPE, factor: float) -> Iterator[FrequencyMistake]:
    """Yield the mistake of another factor, where the formula divides by it."""
    if formula_of(encoding) is not None and hasattr(encoding.scaling, "factor"):
        yield from _changed(encoding, "", factor=factor)


def _bases(encoding: RoPE) -> Iterator[FrequencyMistake]:
    """Yield other published bases."""
    for base in PUBLISHED_BASES:
        if base != encoding.base:
            changed = encoding.replace(base=base)
            yield FrequencyMistake(
                "base",
                f"the base is {base:.10g}, declared {encoding.base:.10g}",
                computed_frequencies(changed),
                {"declared": encoding.base, "measured": base},
                remedy=f"Use the base {encoding.base:.10g}.",
                encoding=changed,
            )
