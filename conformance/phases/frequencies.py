"""Declared frequencies as numbers, the record of a mistake in them, and exchanged pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance.diagnosis.rounding import SIGNIFICANT_BITS, significant
from posenc_ref.conformance.diagnosis.rule import find_rule
from posenc_ref.conformance.harness.run import Run

#: Bases of released text models; they are tried before a base is fitted.
PUBLISHED_BASES = (
    10000.0, 500000.0, 1000000.0, 100000.0, 150000.0, 160000.0, 250000.0, 5000000.0, 10000000.0,
    1000.0, 20000.0, 25000.0, 50000.0, 130000.0, 2000000.0, 8000000.0, 75000000.0, 1000042.0,
    256.0, 2000.0,
)  # fmt: skip
#: The tolerance of measured frequencies, in standard errors.
SIGMAS = 5.0
#: The difference of two frequencies that give the same angles at all measured positions.
Period = np.ndarray | float | None
#: The name of the index of a pair in rules.
_INDEX = "k"
#: The most pairs that are named one by one, if a rule has a condition.
_NAMED = 3
#: Constants are equal if their logarithms differ by less than this.
SAME = 2.0**-12


@dataclass(frozen=True)
class Schedule:
    """A declared schedule ``base ** (-k/n) / factor``, with its known mistakes.

    A schedule of another form gives its frequencies as ``target``, and the frequencies with
    another base by the function ``rebased``.
    """

    base: float
    n: float
    pairs: int
    factor: float = 1.0
    denominators: dict[str, float] = field(default_factory=dict)
    target: np.ndarray | None = None
    rebased: Callable[[float], np.ndarray] | None = None
    #: Known mistakes that are tried first, and those that are tried last, before fits.
    variants: Callable[[], Iterable[FrequencyMistake]] = tuple
    late: Callable[[], Iterable[FrequencyMistake]] = tuple
    #: Those that are tried only if no other mistake gives the frequencies.
    seldom: Callable[[], Iterable[FrequencyMistake]] = tuple
    #: Two mistakes that are made at once; the second one predicts the frequencies of both.
    together: Callable[[], Iterable[tuple[FrequencyMistake, FrequencyMistake]]] = tuple
    plain: np.ndarray | None = None  #: the declared frequencies without their scaling
    #: Returns the mistakes of a measured factor of the scaling.
    with_factor: Callable[[float], Iterable[FrequencyMistake]] = lambda factor: ()
    formula: str = ""  #: the declared frequencies in a sentence, for remedies

    @property
    def declared(self) -> np.ndarray:
        """Return the declared frequencies."""
        return self.values() if self.target is None else self.target

    def with_base(self, base: float) -> np.ndarray:
        """Return the declared frequencies with another base."""
        return self.values(base=base) if self.rebased is None else self.rebased(base)

    def values(
        self, base: float | None = None, n: float | None = None, factor: float | None = None,
        shift: int = 0,
    ) -> np.ndarray:  # fmt: skip
        """Return the frequencies with some fields replaced and ``shift`` added to pair indices."""
        b, m, f = base or self.base, n or self.n, self.factor if factor is None else factor
        return np.asarray(np.exp(-np.log(b) * (np.arange(self.pairs) + shift) / m) / f)


@dataclass(frozen=True)
class FrequencyMistake:
    """A known mistake in the frequencies, with the frequencies that it predicts."""

    code: str
    message: str
    predicted: np.ndarray
    values: dict[str, float] = field(default_factory=dict)
    equivalent: tuple[str, ...] = ()
    remedy: str = ""  #: what to change; empty: what the numbers say
    encoding: Any = None  #: the encoding with the mistake, in which another one can be made

    def at(self, chosen: np.ndarray) -> FrequencyMistake:
        """Return the same mistake, with the predictions of the chosen pairs only."""
        return replace(self, predicted=self.predicted[chosen])


def agree(
    measured: np.ndarray, predicted: np.ndarray, sigma: np.ndarray, period: Period = None
) -> np.ndarray:
    """Return for each pair whether measured and predicted frequency agree, within the tolerance.

    With ``period``, frequencies that differ by a multiple of it are the same.
    """
    slack = BUDGET["float32"] * ROUNDOFF["float32"] * np.abs(predicted) + SIGMAS * sigma
    off = measured - predicted
    if period is not None:
        off = off - period * np.rint(off / period)
    return np.asarray(np.abs(off) <= slack)


def half_precision(values: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name of each half-precision format, and ``values`` rounded to it."""
    yield "bfloat16", round_bfloat16(values)
    with np.errstate(over="ignore"):
        yield "float16", values.astype(np.float16).astype(np.float64)


def round_bfloat16(values: np.ndarray) -> np.ndarray:
    """Return ``values`` rounded to bfloat16 (8 significant bits, ties to even), as float64."""
    return significant(values, SIGNIFICANT_BITS["bfloat16"])


def few_digits(target: np.ndarray) -> Iterator[FrequencyMistake]:
    """Yield frequencies written with few digits, from few to many: up to seven, as in float32."""
    for n in range(2, 8):
        for name, written in (
            (f"rounded to {n} significant digits", [float(f"{w:.{n - 1}e}") for w in target]),
            (f"rounded to {n} decimals", np.round(target, n)),
        ):
            yield FrequencyMistake(
                "angle-precision",
                f"frequencies are {name}",
                np.array(written),
                remedy="Compute the frequencies, do not write them with few digits.",
            )


#: The fewest digits of a base that tell the logarithm that someone wrote in its place.
_SHOWN = 5


def base_mistake(d: Schedule, base: float, also: str = "") -> FrequencyMistake:
    """Return the mistake of another base."""
    said = f"the base is {base:.10g}, declared {d.base:.10g}{also}"
    own, digits = float(np.log(d.base)), len(f"{base:.10g}".replace(".", "").strip("0"))
    for short in {float(f"{own:.{n}g}") for n in range(2, 6)} if digits >= _SHOWN else ():
        if f"{np.exp(short):.{digits}g}" == f"{base:.{digits}g}":
            said += f": log({d.base:.10g}) is taken as {short:g}, not as {own:.6g}"
    return FrequencyMistake(
        "base",
        said,
        d.with_base(base),
        {"declared": d.base, "measured": base},
    )


#: The base of an exponential, of the logarithm in its exponent, and the remedy for the two.
_LOGARITHMS = (
    ("exp(-x log10({b:g}))", 1 / np.log(10), "exp goes with the natural logarithm"),
    ("exp(-x log2({b:g}))", 1 / np.log(2), "exp goes with the natural logarithm"),
    ("10 ** (-x ln({b:g}))", np.log(10), "10 ** goes with log10"),
    ("2 ** (-x ln({b:g}))", np.log(2), "2 ** goes with log2"),
    ("2 ** (-x log10({b:g}))", np.log(2) / np.log(10), "2 ** goes with log2"),
    ("10 ** (-x log2({b:g}))", np.log(10) / np.log(2), "10 ** goes with log10"),
)


def other_logarithms(d: Schedule) -> Iterator[FrequencyMistake]:
    """Yield frequencies whose exponential and logarithm have different bases."""
    for words, power, remedy in _LOGARITHMS:
        base = d.base**power
        text = f"frequencies are {words.format(b=d.base)}, x being the declared exponent: the base "
        yield FrequencyMistake(
            "base",
            f"{text}is {base:.7g}, declared {d.base:.7g}",
            d.with_base(base),
            {"declared": d.base, "measured": base},
            remedy=f"Use one base for both: {remedy}.",
        )


def scaled(target: np.ndarray, ratio: float) -> FrequencyMistake:
    """Return the mistake of a factor on all positions."""
    return FrequencyMistake(
        "position-scale",
        f"every frequency is {ratio:.10g} times the declared one",
        ratio * target,
        {"declared": 1.0, "measured": ratio},
        remedy=f"Multiply every frequency, or every position, by {1 / ratio:.10g}.",
    )


#: Ways to write pi with few digits.
SHORT_PI = {
    "3.14": 3.14, "3.1416": 3.1416, "3.141": 3.141, "22/7": 22 / 7, "3.1415": 3.1415, "3": 3.0,
}  # fmt: skip


def written_pi(target: np.ndarray) -> Iterator[FrequencyMistake]:
    """Yield frequencies with a factor pi that is written with few digits."""
    for text, pi in SHORT_PI.items():
        yield FrequencyMistake(
            "position-scale",
            f"pi is written as {text}: every frequency is {pi / np.pi:.7g} times the declared one",
            pi / np.pi * target,
            {"declared": 1.0, "measured": pi / np.pi},
            remedy="Use pi in full precision (math.pi) in the factor on positions.",
        )


def shorter(value: float, most: int) -> Iterator[float]:
    """Yield a fitted number with 2 to ``most`` digits: those that fit have no digit too many."""
    for digits in range(2, most + 1):
        yield float(f"{value:.{digits - 1}e}")


def other_pairs(
    measured: np.ndarray, sigma: np.ndarray, declared: Schedule
) -> FrequencyMistake | None:
    """Return the rule that says whose frequency each pair has, or None if there is none.

    The pairs of a geometric schedule go on past the declared ones.
    """
    target = declared.declared
    k = np.arange(target.size)
    if (target <= 0).any() or (measured <= 0).any():
        return None
    if declared.target is None:
        scale = declared.n / np.log(declared.base)
        used = np.rint(-np.log(measured * declared.factor) * scale).astype(np.int64)
        if (np.abs(used) > 4 * target.size).any():
            return None
        series = np.exp(-used / scale) / declared.factor
    else:
        used = np.abs(np.log(measured[:, None] / target)).argmin(axis=1)
        series = target[used]
    used = np.where(agree(measured, target, sigma), k, used)
    if not agree(measured, np.where(used == k, target, series), sigma).all():
        return None
    rule = find_rule(used, {_INDEX: k}, declared=_INDEX)
    if rule is None:
        return None
    wrong = np.flatnonzero(used != k)
    if wrong.size <= _NAMED and rule.where:
        return FrequencyMistake(
            "frequency-spacing",
            "; ".join(f"pair {i} has the frequency of pair {used[i]}" for i in wrong),
            measured,
            remedy="Use k in the exponent of pair k for every k.",
        )
    first = int(wrong[0])
    text = f"pair k has the frequency of pair {rule.words}"
    return FrequencyMistake(
        "frequency-spacing",
        f"{text}; so pair {first} has that of pair {used[first]}",
        measured,
        remedy=f"Use k in the exponent{_where(rule.where)}, not {rule.text}.",
    )


def _where(condition: str) -> str:
    return f" also where {condition}" if condition else ""


def rounded_frequencies(d: Schedule) -> Iterator[FrequencyMistake]:
    """Yield frequencies, or what they are made of, that are rounded."""
    target = d.declared
    for name, rounded in half_precision(target):
        yield _in_half("frequencies", name, rounded)
    tf32 = significant(target, SIGNIFICANT_BITS["float16"])
    yield FrequencyMistake(
        "angle-precision",
        "frequencies are rounded to 11 significant bits, as the factors of a product in TF32",
        tf32,
        remedy="Multiply positions and frequencies in float32: switch TF32 off for this product, "
        "or multiply elementwise.",
    )
    with np.errstate(divide="ignore"):
        for name, rounded in half_precision(1 / target):
            yield _in_half("timescales", name, 1 / rounded)
    yield from few_digits(target)
    yield from _rounded_parts(d)


def _rounded_parts(d: Schedule) -> Iterator[FrequencyMistake]:
    """Yield powers of the base with rounded exponents, and rounded products of one ratio."""
    if d.target is not None:
        return
    ratio = np.array([d.base ** (-1 / d.n)])
    k = np.arange(d.pairs)
    for name, rounded in half_precision(k / d.n):
        yield _in_half("exponents of the base", name, d.base**-rounded / d.factor)
    yield from repeated_products(d)
    for name, rounded in half_precision(ratio):
        yield _in_half("ratios of neighbouring frequencies", name, rounded**k / d.factor)
    for name, rounded in half_precision(1 / ratio):
        yield _in_half("ratios of neighbouring timescales", name, rounded**-k / d.factor)


def _in_half(what: str, name: str, predicted: np.ndarray) -> FrequencyMistake:
    remedy = f"Compute and keep the {what} in float32 or float64, not in {name}; cast results only."
    return FrequencyMistake(
        "angle-precision", f"{what} are rounded to {name}", predicted, remedy=remedy
    )


def repeated_products(d: Schedule) -> Iterator[FrequencyMistake]:
    """Yield frequencies that are repeated products of one ratio in float32."""
    if d.target is not None:
        return
    nearest = np.float32(d.base ** (-1 / d.n))
    # The power that gives the ratio may be off by a unit of its last place.
    for start in (nearest, *(np.nextafter(nearest, np.float32(to)) for to in (0, 2))):
        products = np.cumprod(np.r_[np.float32(1), np.full(d.pairs - 1, start)], dtype=np.float32)
        yield FrequencyMistake(
            "angle-precision",
            "each frequency is the one before times the ratio, in float32: the roundings add up",
            products.astype(np.float64) / d.factor,
            remedy="Compute each frequency as a power of the base, or multiply in float64.",
        )


def report(
    run: Run,
    found: list[FrequencyMistake],
    measured: np.ndarray,
    declared: Schedule,
    evidence: str,
) -> None:
    """Report each mistake as a finding."""
    for e in (_unfilled(e, measured, declared.declared) for e in found):
        run.add(
            e.code,
            e.message,
            evidence,
            values=e.values,
            equivalent=e.equivalent,
            remedy=_remedy(e, declared),
        )


def _remedy(e: FrequencyMistake, declared: Schedule) -> str:
    """Return what to change, with the declared frequencies."""
    own = e.remedy
    if e.code == "sign" and not own:
        return ""
    if e.code == "base" and not own:
        if not e.equivalent:
            return ""
        own = "Pass the declared base, and use the declared exponents."
    return f"{own} {declared.formula}".strip()


def _unfilled(
    found: FrequencyMistake, measured: np.ndarray, target: np.ndarray
) -> FrequencyMistake:
    """Return ``found``, with code ``uninitialised`` if the frequencies are 0 or unordered."""
    if found.code != "frequency-spacing" or (np.diff(target) > 0).any():
        return found
    steps = np.diff(np.abs(measured))
    ordered = (steps <= 0).all() or (steps >= 0).all()
    known = np.abs(measured[:, None] / np.where(target != 0, target, 1.0) - 1) <= SAME
    if not measured.any():
        return replace(found, code="uninitialised", message="every frequency is 0")
    if ordered or known.any():
        return found
    return replace(
        found,
        code="uninitialised",
        message=f"frequencies are unordered, and none is a declared one: {found.message}",
        equivalent=("frequency-spacing",),
    )
