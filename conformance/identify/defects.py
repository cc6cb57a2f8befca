"""Prefer a published encoding with one named defect to an exact fit that no model has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref import MultiAxisRoPE, RoPE
from posenc_ref.conformance.harness.report import ERROR, Report
from posenc_ref.conformance.phases.frequencies import PUBLISHED_BASES
from posenc_ref.conformance.phases.schedule_mistakes import BETAS, FACTORS, LENGTHS, LOW_HIGH

from . import names
from .card import Card
from .fit.measurement import PLAIN, Measurement

#: Codes of defects in frequencies, positions and tables; other codes state other parameters, or
#: that no cause is known.
_DEFECTS = (
    "angle-precision", "position-precision", "table-precision", "overflow", "mixed-layout",
    "position-origin", "position-scale", "position-range", "denominator", "exponent",
    "frequency-spacing", "phase-order",
)  # fmt: skip
#: The largest logarithm of the ratio of a frequency to that of a rule with a defect.
_FAR = 2.0
#: The same for a scaling with published parameters, and how many of these are checked.
_SIMILAR, _TRIED = 0.25, 3
#: The most significant digits of the parameters of a scaling.
_DIGITS = 5
#: The lengths that models are trained for.
_LENGTHS = (64, 2**24)

#: Returns the report of the check against an encoding.
Check = Callable[[RoPE | MultiAxisRoPE], Report]


def prefer_defect(card: Card, *checks: Check) -> bool:
    """Replace an unknown or implausible rule by a published one with one defect.

    The defect must be the only finding of one of the checks, which means that the output it
    predicts is that of every call. Return whether the encoding was replaced.
    """
    e = card.encoding if isinstance(card.encoding, RoPE | MultiAxisRoPE) else card.shell
    if e is None or card.frequencies.size < 4 or card.by_length:
        return False
    doubtful = implausible(card.encoding) if card.rule else ""
    odd = card.encoding is not None and odd_base(card)
    if card.encoding is not None and card.rule and not (doubtful or odd or card.exchanged):
        return False
    for tried, judged in product(_candidates(card, e), checks):
        with suppress(AssertionError, ArithmeticError, LookupError, ValueError):
            report = judged(tried)
            defect = only_defect(report, tried)
            if defect:
                _replace(card, tried, report)
                return True
    if doubtful:
        card.unknown.append(doubtful)
    return False


def _candidates(card: Card, e: RoPE | MultiAxisRoPE) -> Iterator[RoPE | MultiAxisRoPE]:
    """Yield the rule of most frequencies, also of multiples of them, and 10000 without scaling."""
    w = np.abs(card.frequencies)
    if card.exchanged and e.sign < 0:
        yield e.replace(sign=1)
    if isinstance(e, MultiAxisRoPE):
        if not card.rule:
            yield from _of_axes(w, e)
        return
    if w.size != (e.rotary_dim or e.head_dim) // 2:
        return
    m = Measurement(w, card.uncertainty)
    plain = e.replace(scaling=None, base=10000.0)
    if card.rule and implausible(card.encoding):
        yield from (known for known in _published(card.encoding) if _near(m, known, _SIMILAR))
    if card.encoding is None or not card.rule:
        fit = names.nearest_fit(m)
        found = None if fit is None else plain.replace(base=fit.base, scaling=fit.scaling)
        if found is not None and found != plain and _near(m, found):
            yield found
        each = names.nearest_fit(Measurement(w / w[0], card.uncertainty / w[0])) if w[0] else None
        if each is not None and each.named and each.scaling is None and w[0] != 1.0:
            yield plain.replace(base=each.base)
    if _near(m, plain) or not card.linear:
        yield plain


def _of_axes(w: np.ndarray, e: MultiAxisRoPE) -> Iterator[MultiAxisRoPE]:
    """Yield encodings of several axes without scaling, those of similar frequencies first."""
    bases = sorted({10000.0, *PUBLISHED_BASES})
    every = [e.replace(scaling=None, spacing=spacing, base=base)
             for spacing, base in product(("restart", "global"), bases)]  # fmt: skip
    off = {one: np.abs(np.log(w / one.frequencies())).max() for one in every if (w > 0).all()}
    near = sorted((one for one in off if off[one] < _SIMILAR), key=off.__getitem__)
    yield from near[:_TRIED]


def _published(e: Any) -> Iterator[RoPE]:
    """Yield the same kind of scaling with published parameters, those of similar lengths first."""
    s = e.scaling
    factor = min(FACTORS, key=lambda f: abs(np.log(f / s.factor)))
    every: list[Any] = []
    if isinstance(s, pr.Llama3Scaling):
        each = product(LOW_HIGH, LENGTHS)
        every = [s.replace(factor=factor, low_freq_factor=low, high_freq_factor=high,
                           original_max_position=n) for (low, high), n in each]  # fmt: skip
    else:
        every = [s.replace(factor=factor, original_max_position=n) for n in LENGTHS]
        if isinstance(s, pr.YaRN):
            every = [made.replace(beta_fast=fast, beta_slow=slow)
                     for made, (fast, slow) in product(every, BETAS)]  # fmt: skip
    here = e.frequencies()
    made = [e.replace(scaling=scaling) for scaling in every]
    yield from sorted(made, key=lambda x: np.abs(np.log(x.frequencies() / here)).max())[:_TRIED]


def _near(m: Measurement, e: RoPE, most: float = _FAR) -> bool:
    """Return whether frequencies are similar enough to be those of ``e`` with a defect."""
    if not (m.w > 0).any():
        return False
    live = m.w > 0
    return bool(np.abs(np.log(m.w[live] / e.frequencies()[live])).max() < most)


def only_defect(report: Report, tried: Any) -> bool:
    """Return whether one defect is the only error of a report."""
    errors = [f for f in report.findings if f.severity == ERROR]
    if len(errors) != 1:
        return False
    # A wrong step of the formula is a defect, another formula is not.
    if errors[0].message.startswith(f"{type(getattr(tried, 'scaling', None)).__name__}: "):
        return errors[0].code == "scaling-formula"
    if errors[0].code not in _DEFECTS:
        return False
    if errors[0].code == "frequency-spacing":  # a list of wrong frequencies explains few of them
        share = errors[0].message.split(" ")
        if share[1:2] == ["of"]:
            return 4 * int(share[0]) <= int(share[2])
    return True


def _replace(card: Card, found: RoPE | MultiAxisRoPE, report: Report) -> None:
    """Put the encoding with its defect on the card; the exact fit becomes an alias."""
    if card.encoding is not None and card.rule and not card.exchanged:
        card.aliases = (card.encoding,)
    else:
        card.aliases = ()
    rules = ("no known rule", "the angles are not linear in the position, and")
    card.unknown = [t for t in card.unknown if not t.startswith(rules)]
    card.relations, card.nearest = (), ""
    if card.exchanged:
        card.facts["sign"] = "rotates by a right angle minus the angle"
    card.encoding, card.rule, card.report = found, True, report
    card.deviations = list(report.findings)


def odd_base(card: Card) -> bool:
    """Return whether the base has many digits, and no known scaling of a usual base gives it."""
    e = card.encoding
    if not isinstance(e, RoPE) or e.scaling is not None or card.aliases:
        return False
    return e.base not in PUBLISHED_BASES and float(f"{e.base:.2g}") != e.base


def implausible(encoding: Any) -> str:
    """Return a sentence if a scaling has parameters that no model states, or an empty string."""
    s = getattr(encoding, "scaling", None)
    if not isinstance(s, pr.Llama3Scaling | pr.YaRN | pr.NTKByParts):
        return ""
    odd = []
    for name in ("factor", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow"):
        value = getattr(s, name, None)
        if isinstance(value, float | int) and value not in PLAIN and not _short(float(value)):
            odd.append(f"{name}={value:g}")
    length = getattr(s, "original_max_position", None)
    if length is not None and not _LENGTHS[0] <= length <= _LENGTHS[1]:
        odd.append(f"original_max_position={length}")
    if not odd:
        return ""
    return (
        f"whether {type(s).__name__} is meant: it gives the frequencies, but with "
        f"{', '.join(odd)}, which no known model has"
    )


def _short(value: float) -> bool:
    return float(f"{value:.{_DIGITS - 1}g}") == value
