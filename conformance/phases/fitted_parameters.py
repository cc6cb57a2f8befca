"""Parameters fitted over many elements, for results coarser than float32.

A base or a factor that is 1 % off stays within the tolerance of each bfloat16 element; the fit over
all elements reveals it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import FACTOR_SLACK, ROUNDOFF
from posenc_ref.conformance.harness.run import Run

from .declaration import Declaration, unit_size
from .frequencies import (
    PUBLISHED_BASES,
    SAME,
    SIGMAS,
    FrequencyMistake,
    Schedule,
    agree,
    shorter,
)
from .measure import Phases, Tables
from .schedule_mistakes import trained_field

#: The relative difference of a denominator from a whole or half number.
_WHOLE = 1.5e-7
#: The most digits of a base that somebody chooses.
_DIGITS = 3

_POSITIONS = np.arange(1, 129)


def is_coarse(run: Run) -> bool:
    """Return whether results are coarser than float32."""
    return ROUNDOFF[run.coarse] > ROUNDOFF["float32"]


def judge_fitted(run: Run, tables: Tables, phases: Phases, declared: Declaration) -> None:
    """Judge fitted frequencies and the mean amplitude, each within its standard error.

    The amplitude may be off by 0.1 % in addition to its standard error.
    """
    if not is_coarse(run) or phases.frequencies.size != declared.frequencies.size:
        return
    if run.ledger.highest < _POSITIONS[-1]:
        return
    run.count("fitted parameters", 2)
    w, expected = declared.sign * phases.frequencies, declared.frequencies
    if declared.by_length is not None:
        expected = declared.by_length(phases.length)
    # At whole positions a pair turns alike by w and by w + 2 pi.
    w = w + 2 * np.pi * np.round((expected - w) / (2 * np.pi))
    fits = agree(w, expected, phases.sigma)
    if not fits.all():
        k = int(np.argmin(fits))
        text = f"pair {k}: {w[k]:.6g}, declared {expected[k]:.6g}"
        run.failed("fitted parameters", "frequencies", np.inf, text)
    off = amplitude_error(run, tables, declared)
    if off:
        run.failed("fitted parameters", "amplitude", np.inf, f"off by {off:+.4%}")


def amplitude_error(run: Run, tables: Tables, declared: Declaration) -> float:
    """Return the relative error of the mean amplitude, or 0 if it is within the uncertainty."""
    size = np.hypot(*unit_size(tables, _POSITIONS, declared))
    off = float(np.mean(size)) - 1.0
    error = (SIGMAS + 1) * ROUNDOFF[run.coarse] / np.sqrt(size.size)
    return off if abs(off) > error + FACTOR_SLACK else 0.0


def cut_short(run: Run, tables: Tables, declared: Declaration) -> bool:
    """Return whether all values look truncated: at most one step below the exact values."""
    unit = ROUNDOFF[run.coarse]
    for got, true in zip(unit_size(tables, _POSITIONS, declared), declared.exact(_POSITIONS),
                         strict=True):  # fmt: skip
        size, whole = np.abs(got), np.abs(true)
        grain = ROUNDOFF["float32"] * (1 + _POSITIONS[:, None] * np.abs(declared.frequencies))
        if ((size > whole + grain) | (size < whole * (1 - 2 * unit) - grain)).any():
            return False
    return True


def of_long_calls(run: Run, tables: Tables, declared: Declaration, factor: float) -> str:
    """Return what is known of the factor in calls longer than the trained length, if they differ.

    The numbers are those of positions around the length.
    """
    scaling = getattr(run.encoding, "scaling", None)
    start = getattr(scaling, trained_field(scaling) or "", None)
    if not start or not isinstance(run.encoding, Rotary) or run.ledger.highest < start + 1:
        return ""
    sizes = [np.hypot(*tables(np.array([n - 1]))) for n in (start, start + 2)]
    short, long = (float(np.median(s)) for s in sizes)
    m = run.encoding.attention_factor(start + 2)
    if abs(short - factor) > FACTOR_SLACK * factor or abs(long - m) > FACTOR_SLACK * abs(m):
        return ""
    return f", in calls of up to {start} tokens; right ({m:.6g}) in a call of {start + 2}"


def diagnose_amplitude(run: Run, tables: Tables, phases: Phases, declared: Declaration) -> None:
    """Report an amplitude that differs from the declared one."""
    m = declared.amplitude
    if is_coarse(run) and run.ledger.highest > 128:
        off = amplitude_error(run, tables, declared)
        factor, where = m * (1 + off), "mean norm of (cos, sin) at positions 1..128"
        if off and cut_short(run, tables, declared):
            run.add(
                "table-precision",
                f"values are cut to {run.coarse}, not rounded: none is larger than the exact one, "
                f"on average they are {-off:.2%} too small",
                "cos and sin at positions 1..128",
                remedy="Convert by rounding to nearest (a cast does): dropping the lower bits "
                "makes every value smaller.",
                values={"declared": m, "measured": factor},
            )
            return
    else:
        grain = run.budget * ROUNDOFF[run.coarse]
        off = bool((np.abs(phases.amplitude - m) > grain * abs(m)).any())
        factor = float(np.median(phases.amplitude))
        least, most = phases.amplitude.min(), phases.amplitude.max()
        where = f"norm of every (cos, sin) pair, {least:.6g} to {most:.6g}"
    if off and declared.by_length is not None:
        where += of_long_calls(run, tables, declared, factor)
    if off:
        report_amplitude(run, declared, factor, where)


def _power_of_width(run: Run, factor: float) -> str:
    """Return the power of the head's or table's width that a factor is, as code, or nothing."""
    width = getattr(run.encoding, "head_dim", None) or getattr(run.encoding, "dim", None)
    if not isinstance(width, int) or width < 2:
        return ""
    powers = (
        (-0.5, "1/sqrt({})"), (0.5, "sqrt({})"), (-0.25, "1/sqrt(sqrt({}))"), (-1.0, "1/{}"),
    )  # fmt: skip
    for power, words in powers:
        if abs(factor / width**power - 1) <= FACTOR_SLACK:
            return words.format(width)
    return ""


def report_amplitude(run: Run, declared: Declaration, factor: float, where: str) -> None:
    """Report the measured factor on cos and sin, and what is known to give it."""
    m = declared.amplitude
    text = f"cos and sin are multiplied by {factor:.6g}, declared {m:.6g}"
    for what, value in declared.other_factors.items():
        if abs(factor - value) <= FACTOR_SLACK * abs(value):
            text += f": {what}"
            break
    else:
        if m == 1.0 and (power := _power_of_width(run, factor)):
            text = f"cos and sin are multiplied by {factor:.6g} = {power}, declared 1"
    remedy = declared.factor_remedy
    if declared.amplitude_code != "attention-factor":
        rotary = isinstance(run.encoding, Rotary)
        what = "cos and sin, or the rotated channels," if rotary else "the sines and cosines"
        remedy = f"Divide {what} by {factor / m:.9g}."
    values = {"declared": m, "measured": factor}
    run.add(declared.amplitude_code, text, where, values=values, remedy=remedy)


def other_exponents(base: float, n: float) -> Iterator[tuple[float, float]]:
    """Yield published bases b and denominators q with ``b ** (-k/q) = base ** (-k/n)``.

    Denominators near n come first. There are none for a base that is published itself, or that has
    few digits.
    """
    if base <= 1 or abs(float(f"{base:.{_DIGITS}g}") / base - 1) < _WHOLE:
        return
    if any(abs(known / base - 1) < _WHOLE for known in PUBLISHED_BASES):
        return
    for known in sorted(PUBLISHED_BASES, key=lambda b: abs(np.log(np.log(b) / np.log(base)))):
        other = n * np.log(known) / np.log(base)
        whole = float(np.rint(2 * other)) / 2
        if 0 < whole != n and abs(other / whole - 1) < _WHOLE:
            yield known, whole


def is_rounded(base: float, n: float) -> bool:
    """Return whether a fitted base has all the digits that were measured, and no rule gives it.

    Its last digits are then not those of the function.
    """
    if base in PUBLISHED_BASES or float(f"{base:.5g}") == base:
        return False
    return all(known ** (n / whole) != base for known, whole in other_exponents(base, n))


def not_raised(d: Schedule, base: float) -> FrequencyMistake:
    """Return the mistake of a base that a scaling changes at a length where it should not."""
    assert d.plain is not None
    return FrequencyMistake(
        "scaling-formula",
        f"at this length the base is {base:.6g}, declared {d.base:.7g}, not scaled; consistent "
        "with a length that is not raised to the trained one before it enters the scaling",
        d.plain ** (np.log(base) / np.log(d.base)),
        {"declared": d.base, "measured": base},
        ("base", "scaling-parameter"),
        remedy="Take the larger of the length of the call and the trained length.",
    )


def denominator(d: Schedule, base: float) -> Iterator[FrequencyMistake]:
    """Yield another denominator of the exponents, if a base that nobody chooses is one."""
    n = d.n * np.log(d.base) / np.log(base)
    whole = float(np.rint(2 * n)) / 2
    if whole <= 0 or whole == d.n or abs(n / whole - 1) > SAME or d.base == 1:
        return
    if base in PUBLISHED_BASES or any(abs(base / b - 1) < SAME for b in shorter(base, 2)):
        return
    yield FrequencyMistake(
        "denominator",
        f"the exponent of pair k is k/{whole:g} (2k/{2 * whole:g}), not k/{d.n:g}; a base of "
        f"{base:.6g} in place of {d.base:.7g} gives the same frequencies",
        d.values(n=whole),
        {"declared": d.n, "measured": whole},
        ("base",),
        remedy=f"Divide the index k of the pair by {d.n:g}, not by {whole:g}; or, if the exponents "
        f"are right, pass the base {d.base:.7g}.",
    )


def base_and_denominator(d: Schedule, base: float) -> Iterator[FrequencyMistake]:
    """Yield a base that nobody chooses, with the published one that has other exponents."""
    for known, whole in other_exponents(base, d.n):
        if known != d.base:
            yield FrequencyMistake(
                "base",
                f"the base is {base:.6g}, declared {d.base:.7g}; or it is {known:.7g}, and the "
                f"exponent of pair k is k/{whole:g}, not k/{d.n:g}: the same frequencies",
                d.values(base=known, n=whole),
                {"declared": d.base, "measured": base},
                ("denominator",),
            )
