"""Find the one change of the declaration that predicts all measured frequencies.

An explanation is reported only if all its predicted frequencies match. Declared and published
constants are tried before fitted numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.plural import ranges

from .fitted_parameters import base_and_denominator, denominator, not_raised
from .frequencies import (
    PUBLISHED_BASES,
    SAME,
    FrequencyMistake,
    Period,
    Schedule,
    agree,
    base_mistake,
    other_logarithms,
    other_pairs,
    rounded_frequencies,
    scaled,
    shorter,
    written_pi,
)
from .measure import shown

#: The fewest pairs in which a mistake is made, or is not made, if it is made in some only.
_FEWEST = 3
#: Codes of mistakes of which several may give the same frequencies: all are named.
_AMBIGUOUS = ("base", "denominator", "exponent", "scaling-formula", "scaling-parameter")


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
        also = [c.message for c in found[1:] if (scaled or c.code != best.code) and likely(c)]
        also = [text for text in dict.fromkeys(also) if not _says(best.message, text)][:2]
        if best.code == "denominator" and "a base of" in best.message:
            also = []  # it names the base already
        text = "; or ".join([best.message, *also]) if best.code in _AMBIGUOUS else best.message
        text += ": the same frequencies" * (text != best.message)
        return [replace(best, message=text, equivalent=tuple(others))]
    for base in _measured_base(measured, declared):
        if agree(measured, base.predicted, sigma, period).all():
            return [_or_two(base, measured, sigma, declared, period)]
    if period is None and (two := _rounded(measured, sigma, declared)):
        return two
    rare = (c for c in declared.seldom() if agree(measured, c.predicted, sigma, period).all())
    if (one := next(rare, None)) is not None:
        return [one]
    if two := _two(measured, sigma, declared, period):
        return two
    if declared.plain is not None and _scaled_otherwise(measured, sigma, declared):
        spacing = _spacing(measured, target, sigma)
        text = f"the base is right, but another scaling is applied: {spacing.message}"
        return [FrequencyMistake("scaling-formula", text, measured, {}, ("scaling-parameter",))]
    neighbours = other_pairs(measured, sigma, declared) if period is None else None
    if neighbours is None and period is None:
        neighbours = _of_some(measured, sigma, declared)
    return [neighbours or _spacing(measured, target, sigma)]


def near(measured: np.ndarray, declared: Schedule, within: float) -> Iterator[FrequencyMistake]:
    """Yield the known mistakes, none with a fitted number, that give the frequencies so nearly."""
    for c in _known(declared):
        if (np.abs(measured - c.predicted) <= within * np.abs(c.predicted)).all():
            yield c


def _rounded(measured: np.ndarray, sigma: np.ndarray, declared: Schedule) -> list[FrequencyMistake]:
    """Return a known mistake, and that its frequencies are rounded to half precision as well."""
    for c in near(measured, declared, 2 * ROUNDOFF["bfloat16"]):
        for e in rounded_frequencies(replace(declared, target=c.predicted)):
            if agree(measured, e.predicted, sigma).all():
                return [c, e]
    return []


def _two(
    measured: np.ndarray, sigma: np.ndarray, declared: Schedule, period: Period
) -> list[FrequencyMistake]:
    """Return two mistakes that together give all frequencies; of one code, they are one finding.

    Coarse measurements would not tell so many pairs apart.
    """
    if (sigma > SAME * np.abs(measured)).any():
        return []
    for one, other in declared.together():
        if not agree(measured, other.predicted, sigma, period).all():
            continue
        if one.code != other.code:
            return [one, other]
        message = f"{one.message}; and {other.message}"
        remedy = f"{one.remedy} {other.remedy}".strip()
        return [replace(other, message=message, remedy=remedy, values={})]
    return []


def _or_two(
    base: FrequencyMistake,
    measured: np.ndarray,
    sigma: np.ndarray,
    declared: Schedule,
    period: Period,
) -> FrequencyMistake:
    """Return a measured base, with a published one and another mistake that give the same.

    Where the declared formula scales the frequencies, a measured base is named alone.
    """
    if declared.plain is not None:
        return base
    two = _two(measured, sigma, declared, period)
    if len(two) != 2:
        return base
    known = two[0].message.removeprefix("the base is ").split(",")[0]
    text = f"{base.message}; or it is {known}, and {two[1].message}: the same frequencies"
    return replace(base, message=text, equivalent=(*base.equivalent, two[1].code))


def _of_some(
    measured: np.ndarray, sigma: np.ndarray, declared: Schedule
) -> FrequencyMistake | None:
    """Return a mistake that is made in the pairs of one range, or in every other pair, only."""
    target = declared.declared
    right = agree(measured, target, sigma)
    wrong = np.flatnonzero(~right)
    if wrong.size < _FEWEST or right.sum() < _FEWEST:
        return None
    k = np.arange(target.size)
    first, last = int(wrong[0]), int(wrong[-1])
    places = (
        (f"from {first} on", k >= first), (f"up to {last}", k <= last),
        (f"from {first} to {last}", (k >= first) & (k <= last)),
        ("of odd index", k % 2 == 1), ("of even index", k % 2 == 0),
    )  # fmt: skip
    remedy = "Turn these pairs by +angle, as the others."
    sign = FrequencyMistake("sign", "pairs turn the other way, by -angle", -target, remedy=remedy)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = float(np.median(measured[wrong] / target[wrong]))
    times = [_times(target, short) for short in shorter(ratio, 7)] if np.isfinite(ratio) else []
    for found in (sign, *_candidates(measured, sigma, declared), *times):
        here = agree(measured, found.predicted, sigma)
        if not here[wrong].all():
            continue
        for words, place in places:
            if (here | ~place).all() and (right | place).all():
                text = f"{found.message}, only in the pairs {words}"
                remedy = f"{found.remedy} The other pairs are right."
                return replace(found, message=text, predicted=measured, remedy=remedy.strip())
    return None


def _times(target: np.ndarray, ratio: float) -> FrequencyMistake:
    """Return the mistake of a factor on the angles of some pairs."""
    text = f"the angle is {ratio:.7g} times the declared one"
    text += ", as if these pairs were rotated twice" if ratio == 2 else ""
    remedy = f"Divide the angle of these pairs by {ratio:.7g}."
    remedy = "Rotate these pairs once." if ratio == 2 else remedy
    remedy = "Rotate these pairs too." if ratio == 0 else remedy
    return FrequencyMistake("position-scale", text, ratio * target, remedy=remedy)


def _says(message: str, other: str) -> bool:
    """Return whether a message says what another one does, or the rule behind its bare ratio."""
    return other in message or other.startswith("every frequency is ")


def likely(found: FrequencyMistake) -> bool:
    """Return False for a base that nobody chooses: with 5 digits or more, and not published."""
    base = found.values.get("measured", 0.0)
    return found.code != "base" or base in PUBLISHED_BASES or float(f"{base:.3e}") == base


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
    flat = (np.abs(expected / low - 1) <= SAME) | (np.abs(expected / high - 1) <= SAME)
    if 8 * flat[1:].sum() >= flat.size:
        return bool(8 * ends[1:].sum() >= ends.size)
    within = (ratio >= low * (1 - SAME)) & (ratio <= high * (1 + SAME))
    return bool(within.all())


def _candidates(measured: np.ndarray, sigma: np.ndarray, d: Schedule) -> Iterator[FrequencyMistake]:
    yield from _known(d)
    yield from rounded_frequencies(d)
    yield from d.late()
    yield from _fitted(measured, sigma, d)


def _known(d: Schedule) -> Iterator[FrequencyMistake]:
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


def _geometric(d: Schedule) -> Iterator[FrequencyMistake]:
    if d.factor != 1.0:
        said = f"scaling by {d.factor:g}" if d.factor > 1 else f"factor {1 / d.factor:g}"
        scaling = f"the declared {said} is"
        product = f"positions are multiplied by the scaling factor {d.factor:g}, not divided"
        if d.factor < 1:
            product = f"positions are divided by the factor {1 / d.factor:g}, not multiplied"
        for code, text, factor in (
            ("scaling-missing", f"{scaling} missing", 1.0),
            ("position-scale", f"{scaling} applied twice", d.factor**2),
            ("position-scale", product, 1 / d.factor),
        ):
            values = {"declared": d.factor, "measured": factor}
            by = f"Divide the frequencies, or the positions, by {d.factor:g}"
            if d.factor < 1:
                by = f"Multiply the positions by {1 / d.factor:g}"
            remedy = f"{by} exactly once."
            yield FrequencyMistake(code, text, d.values(factor=factor), values, remedy=remedy)
    for name, n in d.denominators.items():
        if n > 0 and n != d.n:
            yield FrequencyMistake(
                "denominator",
                f"the exponent of pair k is k/{n:g} ({name}), not k/{d.n:g}",
                d.values(n=n),
                {"declared": d.n, "measured": n},
                remedy=f"Divide the index k of the pair by {d.n:g}, not by {n:g} ({name}).",
            )
    for base in PUBLISHED_BASES:
        if base != d.base:
            yield base_mistake(d, base)
    yield from other_logarithms(d)
    for name, shape, remedy in (
        ("doubled", d.values(n=d.n / 2),
         "Do not double the exponent: arange(0, d, 2) / d is already 2k/d."),
        ("halved, as by one floor division (// 2) too many", d.values(n=d.n * 2),
         "Double the exponent."),
        ("counted from 1", d.values(shift=1), "Count pairs from 0: use k in place of k + 1."),
        ("counted from -1", d.values(shift=-1), "Count pairs from 0: use k in place of k - 1."),
        ("0 for every pair, as by a floor division (//)", np.ones(d.pairs) / d.factor,
         "Divide k as floating point numbers (/), not as integers (//)."),
        ("of the wrong sign (positions are multiplied by the timescale)", d.values(n=-d.n),
         "Negate the exponent, or divide positions by base ** (2k/d)."),
    ):  # fmt: skip
        text = f"the exponent of the frequencies is {name}"
        yield FrequencyMistake("exponent", text, shape, remedy=remedy)


def _fitted(measured: np.ndarray, sigma: np.ndarray, d: Schedule) -> Iterator[FrequencyMistake]:
    if not (measured > 0).all() or not (d.declared > 0).all():
        return
    # In coarse results, the frequencies of fast pairs are measured more accurately.
    weight = 1 / (ROUNDOFF["float32"] + sigma / measured)
    ratio = float(np.exp(np.average(np.log(measured / d.declared), weights=weight**2)))
    yield from written_pi(d.declared)
    yield from (scaled(d.declared, short) for short in shorter(ratio, 7))
    if d.plain is not None:  # a factor divides the slowest pairs
        for factor in shorter(float(d.plain[-1] / measured[-1]), 6):
            yield from d.with_factor(factor)
    k = np.arange(d.pairs)
    if d.pairs > 1 and d.plain is not None and np.array_equal(d.plain, d.declared) and d.base > 1:
        power = np.log(measured[1:]) / np.log(d.plain[1:])
        base = float(d.base ** np.average(power, weights=weight[1:] ** 2))
        if 0 < base < d.base:  # a length below the trained one makes it smaller
            yield not_raised(d, base)
    if d.pairs < 2 or d.target is not None:
        return
    slope, start = np.polyfit(k, np.log(measured), 1, w=weight)
    # A fit with the first frequency as declared: only the base differs.
    log = np.log(measured) + np.log(d.factor)
    through = float(np.sum(weight**2 * k * log) / np.sum(weight**2 * k * k))
    if through < 0:
        base = float(np.exp(-through * d.n))
        yield from denominator(d, base)
        yield from base_and_denominator(d, base)
        yield from (base_mistake(d, short) for short in shorter(base, 7))
    if slope < 0:
        scale = float(np.exp(start)) * d.factor
        base = float(np.exp(-slope * d.n))
        if abs(np.log(base / d.base)) < SAME or abs(np.log(scale)) < SAME:
            return  # a single change, which was tried before
        yield FrequencyMistake(
            "base",
            f"the base is {base:.6g}, declared {d.base:.7g}, and positions are multiplied by "
            f"{scale:.6g}",
            np.exp(start + slope * k),
            {"declared": d.base, "measured": base},
            ("position-scale",),
        )


def _measured_base(measured: np.ndarray, d: Schedule) -> Iterator[FrequencyMistake]:
    """Yield a base that the second pair shows: how a scaling changes it depends on no base."""
    if d.rebased is None or d.pairs < 2 or not (measured > 0).all():
        return
    if d.plain is None:  # the pair whose declared frequency depends most on the base
        k = int(np.argmin(d.declared))
        power = np.log(measured[k]) / np.log(d.declared[k]) if d.declared[k] < 1 else 0.0
        for base in shorter(float(d.base**power), 6) if 0 < power < 5 else ():
            if base > 1:
                yield base_mistake(d, base)
        return
    second = float(measured[1] * d.plain[1] / d.declared[1])
    for base in shorter(second**-d.n, 6) if second < 1 else ():
        if base > 1:
            yield base_mistake(d, base)


def _spacing(measured: np.ndarray, target: np.ndarray, sigma: np.ndarray) -> FrequencyMistake:
    wrong = np.flatnonzero(~agree(measured, target, sigma))
    pairs = (
        f"pair {k} has {shown(measured[k], sigma[k])}, declared {target[k]:.6g}" for k in wrong[:4]
    )
    text = f"{wrong.size} of {target.size} frequencies are wrong: {'; '.join(pairs)}"
    if agree(np.sort(measured), np.sort(target), sigma.max(keepdims=True)).all():
        order = "descending" if (np.diff(measured) <= 0).all() else "another"
        text = f"the frequencies are the declared ones in {order} order: {text}"
    remedy = f"Correct the frequencies of pairs {ranges(wrong.tolist())}"
    remedy += "; those of the others are right." if wrong.size < target.size else "."
    return FrequencyMistake("frequency-spacing", text, measured, remedy=remedy)
