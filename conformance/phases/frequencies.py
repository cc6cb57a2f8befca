"""Find the one change of the declaration that predicts all measured frequencies.

An explanation is reported only if all its predicted frequencies match. Declared and published
constants are tried before fitted numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance.harness.run import Run

from .measure import shown

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
#: Constants are equal if their logarithms differ by less than this.
_SAME = 2.0**-12


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
    plain: np.ndarray | None = None  #: the declared frequencies without their scaling

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


#: Codes of mistakes of which several may give the same frequencies: all are named.
_AMBIGUOUS = ("base", "denominator", "exponent", "scaling-formula", "scaling-parameter")


@dataclass(frozen=True)
class FrequencyMistake:
    """A known mistake in the frequencies, with the frequencies that it predicts."""

    code: str
    message: str
    predicted: np.ndarray
    values: dict[str, float] = field(default_factory=dict)
    equivalent: tuple[str, ...] = ()

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


def explain(
    measured: np.ndarray, sigma: np.ndarray, declared: Schedule, period: Period = None
) -> list[FrequencyMistake]:
    """Explain why ``measured`` frequencies (rad/position) differ from the declared ones.

    The list is empty if they agree. Otherwise it has one explanation, which predicts every
    frequency. If all frequencies are negative, ``sign`` comes first, and then an explanation of
    their sizes if these are wrong too. The code of frequencies without an explanation is
    ``frequency-spacing``. ``period`` is the difference of frequencies (one for each pair, or one
    for all) that the measured positions cannot distinguish.
    """
    target = declared.declared
    if agree(measured, target, sigma, period).all():
        return []
    turned = bool((measured < 0).all()) and bool((target > 0).all())
    if turned or (period is not None and agree(measured, -target, sigma, period).all()):
        rest = explain(-measured, sigma, declared, period)
        sign = FrequencyMistake("sign", "the rotation turns the other way: by -angle", -target)
        return [sign, *rest]
    every = _candidates(measured, sigma, declared)
    found = [c for c in every if agree(measured, c.predicted, sigma, period).all()]
    if found:
        best = found[0]
        others = dict.fromkeys([*best.equivalent, *(c.code for c in found[1:])])
        others.pop(best.code, None)
        scaled = best.code.startswith("scaling")
        also = [c.message for c in found[1:] if (scaled or c.code != best.code) and _likely(c)]
        also = [text for text in dict.fromkeys(also) if text != best.message][:2]
        text = "; or ".join([best.message, *also]) if best.code in _AMBIGUOUS else best.message
        text += ": the same frequencies" * (text != best.message)
        return [replace(best, message=text, equivalent=tuple(others))]
    if declared.plain is not None and _scaled_otherwise(measured, sigma, declared):
        spacing = _spacing(measured, target, sigma)
        text = f"the base is right, but another scaling is applied: {spacing.message}"
        return [FrequencyMistake("scaling-formula", text, measured, {}, ("scaling-parameter",))]
    return [_spacing(measured, target, sigma)]


def _likely(found: FrequencyMistake) -> bool:
    """Return False for a base that nobody chooses: with 5 digits or more, and not published."""
    base = found.values.get("measured", 0.0)
    return found.code != "base" or base in PUBLISHED_BASES or float(f"{base:.3e}") == base


def report(
    run: Run,
    found: list[FrequencyMistake],
    measured: np.ndarray,
    declared: np.ndarray,
    evidence: str,
) -> None:
    """Report each mistake as a finding."""
    for e in (_unfilled(e, measured, declared) for e in found):
        run.add(e.code, e.message, evidence, values=e.values, equivalent=e.equivalent)


def _unfilled(
    found: FrequencyMistake, measured: np.ndarray, target: np.ndarray
) -> FrequencyMistake:
    """Return ``found``, with code ``uninitialised`` if the frequencies are 0 or unordered."""
    if found.code != "frequency-spacing" or (np.diff(target) > 0).any():
        return found
    steps = np.diff(np.abs(measured))
    ordered = (steps <= 0).all() or (steps >= 0).all()
    known = np.abs(measured[:, None] / np.where(target != 0, target, 1.0) - 1) <= _SAME
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


def _scaled_otherwise(measured: np.ndarray, sigma: np.ndarray, d: Schedule) -> bool:
    """Return whether the base is right, and only the scaling is wrong.

    The ratios of measured to unscaled frequencies decide. If an eighth or more of the pairs have
    the smallest or the largest declared ratio (1 / factor or 1), an eighth or more of the measured
    ratios must equal one of these, too. The first pair does not count, because its frequency is 1
    for every base. Otherwise, every measured ratio must be in the range of the declared ratios.
    """
    assert d.plain is not None
    ratio, expected = measured / d.plain, d.declared / d.plain
    low, high = expected.min(), expected.max()
    if low == high:
        return False
    ends = agree(measured, low * d.plain, sigma) | agree(measured, high * d.plain, sigma)
    flat = (np.abs(expected / low - 1) <= _SAME) | (np.abs(expected / high - 1) <= _SAME)
    if 8 * flat[1:].sum() >= flat.size:
        return bool(8 * ends[1:].sum() >= ends.size)
    within = (ratio >= low * (1 - _SAME)) & (ratio <= high * (1 + _SAME))
    return bool(within.all())


def half_precision(values: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name of each half-precision format, and ``values`` rounded to it."""
    yield "bfloat16", round_bfloat16(values)
    with np.errstate(over="ignore"):
        yield "float16", values.astype(np.float16).astype(np.float64)


def round_bfloat16(values: np.ndarray) -> np.ndarray:
    """Return ``values`` rounded to bfloat16 (8 significant bits, ties to even), as float64."""
    mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    return np.asarray(np.ldexp(np.rint(mantissa * 256.0), exponent - 8))


def _candidates(measured: np.ndarray, sigma: np.ndarray, d: Schedule) -> Iterator[FrequencyMistake]:
    yield from d.variants()
    if d.target is None:
        yield from _geometric(d)
    else:
        for base in PUBLISHED_BASES:
            if base != d.base and d.rebased is not None:
                yield base_mistake(d, base)
            if base != d.base and d.plain is not None:
                yield FrequencyMistake(
                    "base",
                    f"the base is {base:.7g}, declared {d.base:.7g}, and the declared scaling is "
                    "missing",
                    d.plain ** (np.log(base) / np.log(d.base)),
                    {"declared": d.base, "measured": base},
                    ("scaling-missing",),
                )
    yield from _rounded(d.declared)
    yield from d.late()
    yield from _fitted(measured, sigma, d)


def _rounded(target: np.ndarray) -> Iterator[FrequencyMistake]:
    for name, rounded in half_precision(target):
        yield FrequencyMistake("angle-precision", f"frequencies are rounded to {name}", rounded)
    with np.errstate(divide="ignore"):
        for name, rounded in half_precision(1 / target):
            yield FrequencyMistake(
                "angle-precision", f"timescales are rounded to {name}", 1 / rounded
            )
    yield from few_digits(target)


def few_digits(target: np.ndarray) -> Iterator[FrequencyMistake]:
    """Yield frequencies written with few digits, from few to many: up to seven, as in float32."""
    for n in range(2, 8):
        for name, written in (
            (f"rounded to {n} significant digits", [float(f"{w:.{n - 1}e}") for w in target]),
            (f"rounded to {n} decimals", np.round(target, n)),
        ):
            yield FrequencyMistake("angle-precision", f"frequencies are {name}", np.array(written))


def _geometric(d: Schedule) -> Iterator[FrequencyMistake]:
    if d.factor != 1.0:
        scaling = f"the declared scaling by {d.factor:g} is"
        product = f"positions are multiplied by the scaling factor {d.factor:g}, not divided"
        for code, text, factor in (
            ("scaling-missing", f"{scaling} missing", 1.0),
            ("position-scale", f"{scaling} applied twice", d.factor**2),
            ("position-scale", product, 1 / d.factor),
        ):
            values = {"declared": d.factor, "measured": factor}
            yield FrequencyMistake(code, text, d.values(factor=factor), values)
    for name, n in d.denominators.items():
        if n > 0 and n != d.n:
            yield FrequencyMistake(
                "denominator",
                f"the exponent of pair k is k/{n:g} ({name}), not k/{d.n:g}",
                d.values(n=n),
                {"declared": d.n, "measured": n},
            )
    for base in PUBLISHED_BASES:
        if base != d.base:
            yield base_mistake(d, base)
    for name, shape in (
        ("doubled", d.values(n=d.n / 2)),
        ("halved, as by one floor division (// 2) too many", d.values(n=d.n * 2)),
        ("counted from 1", d.values(shift=1)),
        ("counted from -1", d.values(shift=-1)),
        ("0 for every pair, as by a floor division (//)", np.ones(d.pairs) / d.factor),
        ("of the wrong sign (positions are multiplied by the timescale)", d.values(n=-d.n)),
    ):
        yield FrequencyMistake("exponent", f"the exponent of the frequencies is {name}", shape)


def base_mistake(d: Schedule, base: float, also: str = "") -> FrequencyMistake:
    """Return the mistake of another base."""
    return FrequencyMistake(
        "base",
        f"the base is {base:.10g}, declared {d.base:.10g}{also}",
        d.with_base(base),
        {"declared": d.base, "measured": base},
    )


def scaled(target: np.ndarray, ratio: float) -> FrequencyMistake:
    """Return the mistake of a factor on all positions."""
    return FrequencyMistake(
        "position-scale",
        f"every frequency is {ratio:.10g} times the declared one",
        ratio * target,
        {"declared": 1.0, "measured": ratio},
    )


def shorter(value: float, most: int) -> Iterator[float]:
    """Yield a fitted number with 2 to ``most`` digits: those that fit have no digit too many."""
    for digits in range(2, most + 1):
        yield float(f"{value:.{digits - 1}e}")


def _fitted(measured: np.ndarray, sigma: np.ndarray, d: Schedule) -> Iterator[FrequencyMistake]:
    if not (measured > 0).all() or not (d.declared > 0).all():
        return
    # In coarse results, the frequencies of fast pairs are measured more accurately.
    weight = 1 / (ROUNDOFF["float32"] + sigma / measured)
    ratio = float(np.exp(np.average(np.log(measured / d.declared), weights=weight**2)))
    yield from (scaled(d.declared, short) for short in shorter(ratio, 7))
    if d.pairs < 2 or d.target is not None:
        return
    k = np.arange(d.pairs)
    slope, start = np.polyfit(k, np.log(measured), 1, w=weight)
    # A fit with the first frequency as declared: only the base differs.
    log = np.log(measured) + np.log(d.factor)
    through = float(np.sum(weight**2 * k * log) / np.sum(weight**2 * k * k))
    if through < 0:
        base = float(np.exp(-through * d.n))
        yield from (base_mistake(d, short) for short in shorter(base, 7))
    if slope < 0:
        scale = float(np.exp(start)) * d.factor
        base = float(np.exp(-slope * d.n))
        if abs(np.log(base / d.base)) < _SAME or abs(np.log(scale)) < _SAME:
            return  # a single change, which was tried before
        yield FrequencyMistake(
            "base",
            f"the base is {base:.6g}, declared {d.base:.7g}, and positions are multiplied by "
            f"{scale:.6g}",
            np.exp(start + slope * k),
            {"declared": d.base, "measured": base},
            ("position-scale",),
        )


def _spacing(measured: np.ndarray, target: np.ndarray, sigma: np.ndarray) -> FrequencyMistake:
    wrong = np.flatnonzero(~agree(measured, target, sigma))
    pairs = (
        f"pair {k} has {shown(measured[k], sigma[k])}, declared {target[k]:.6g}" for k in wrong[:4]
    )
    text = f"{wrong.size} of {target.size} frequencies are wrong: {'; '.join(pairs)}"
    return FrequencyMistake("frequency-spacing", text, measured)
