"""A declared rotary encoding as numbers, for the diagnosis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import GivenFrequencies, LinearScaling, MixedRoPE, MultiAxisRoPE, RoPE, Rotary
from posenc_ref.conformance.exact.schedules import schedules
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.oracle.transforms import Leading

from .factor_mistakes import factors
from .factor_mistakes import remedy as factor_remedy
from .frequencies import FrequencyMistake, Schedule
from .measure import Phases, Tables, tables_of
from .multi_axis_mistakes import (
    base_and_another,
    mixed_mistakes,
    multi_axis_exponents,
    multi_axis_mistakes,
)
from .schedule_mistakes import scaling_mistakes, two_mistakes, unusual_turns, with_factor
from .schedule_steps import step_mistakes


@dataclass(frozen=True)
class Declaration:
    """A declared encoding as numbers: angle_k(p) = sign (p + origin) theta_k, and an amplitude."""

    schedule: Schedule
    frequencies: np.ndarray
    exact: Tables  #: exact cos and sin, of amplitude 1
    amplitude: float = 1.0
    amplitude_code: str = "amplitude"
    sign: int = 1
    origin: float = 0.0
    by_length: Callable[[int], np.ndarray] | None = None  #: returns the frequencies at a length
    #: amplitudes that known mistakes give, by message
    other_factors: dict[str, float] = field(default_factory=dict)
    factor_remedy: str = ""  #: what to do about a wrong amplitude
    #: returns the angles of positions and frequencies, if they are rounded
    angles: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None

    def frequencies_in(self, positions: np.ndarray) -> np.ndarray:
        """Return the frequencies of a call with these positions."""
        if self.by_length is None or not positions.size:
            return self.frequencies
        return self.by_length(max(int(positions.max()) + 1, 1))


def unit_size(
    tables: Tables, at: np.ndarray, declared: Declaration
) -> tuple[np.ndarray, np.ndarray]:
    """Return measured cos and sin, divided by the declared amplitude and sign."""
    cos, sin = tables(at)
    return cos / declared.amplitude, declared.sign * sin / declared.amplitude


def substituted(
    declared: Declaration, phases: Phases | None, found: list[FrequencyMistake], origin: float
) -> Declaration:
    """Return the declaration with the measured frequencies, sign, amplitude and origin.

    Without phases, the amplitude is the declared one.
    """
    others = [e for e in found if e.code != "sign"]
    w = others[-1].predicted if others else declared.frequencies
    sign = -declared.sign if len(others) < len(found) else declared.sign

    def exact(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        angle = (positions + origin)[:, None] * w
        return np.cos(angle), sign * np.sin(angle)

    return replace(
        declared,
        frequencies=w,
        exact=exact,
        amplitude=declared.amplitude if phases is None else float(np.median(phases.amplitude)),
        sign=sign,
        origin=origin,
    )


def declared_tables(access: Access, encoding: Rotary) -> Tables:
    """Return a function that measures cos and sin, from inputs (1, 0) in every declared pair."""
    first, _ = live(encoding, encoding.pairs())
    return tables_of(access, first, *live(encoding, encoding.output_pairs()))


def live(encoding: Rotary, columns: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Return the entries of arrays (pairs,) for the pairs with a nonzero frequency."""
    turning = encoding.frequencies() != 0
    return tuple(c[turning] for c in columns)


def nonzero_frequencies(encoding: Rotary, length: int | None = None) -> np.ndarray:
    """Return the declared frequencies that are not 0, in a call of ``length`` tokens."""
    return live(encoding, (encoding.frequencies(length),))[0]


def declare(encoding: Rotary) -> Declaration:
    """Return the declared encoding as numbers."""

    def exact(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        m = encoding.attention_factor()
        cos, sin = (t.T for t in live(encoding, tuple(t.T for t in encoding.cos_sin(positions))))
        return cos / m, encoding.sign * sin / m

    m = encoding.attention_factor()
    return Declaration(
        schedule_of(encoding),
        nonzero_frequencies(encoding),
        exact,
        m,
        "amplitude" if getattr(encoding, "scaling", None) is None else "attention-factor",
        encoding.sign,
        encoding.offset,
        partial(nonzero_frequencies, encoding) if encoding.depends_on_length else None,
        factors(encoding),
        factor_remedy(encoding),
    )


def schedule_of(encoding: Rotary) -> Schedule:
    """Return the declared frequencies, and the known mistakes in computing them."""
    if isinstance(encoding, Leading):
        return _leading(schedule_of(encoding.of), encoding.count)
    target = nonzero_frequencies(encoding)
    if isinstance(encoding, MultiAxisRoPE):
        return Schedule(
            max(encoding.base) if isinstance(encoding.base, tuple) else encoding.base,
            1.0,
            target.size,
            target=target,
            rebased=None
            if isinstance(encoding.base, tuple)
            else lambda b: encoding.replace(base=b).frequencies(),
            variants=lambda: multi_axis_mistakes(encoding),
            late=lambda: multi_axis_exponents(encoding),
            together=lambda: base_and_another(encoding),
            formula=formula(encoding),
        )
    if isinstance(encoding, MixedRoPE):
        turning = encoding.frequencies() != 0
        variants = lambda: [e.at(turning) for e in mixed_mistakes(encoding)]  # noqa: E731
        return Schedule(1.0, 1.0, target.size, target=target, variants=variants)
    if not isinstance(encoding, RoPE):
        return Schedule(1.0, 1.0, target.size, target=target)
    assert encoding.rotary_dim is not None
    d = encoding.rotary_dim
    scaling = encoding.scaling
    if scaling is not None and not isinstance(scaling, LinearScaling):
        turning = encoding.frequencies() != 0
        return Schedule(
            encoding.base,
            d / 2,
            target.size,
            target=target,
            rebased=lambda b: encoding.replace(base=b).frequencies()[turning],
            variants=lambda: [
                e.at(turning)
                for e in scaling_mistakes(encoding)
                if e.predicted.size == turning.size
            ],
            late=lambda: [
                e.at(turning) for e in step_mistakes(encoding) if e.predicted.size == turning.size
            ],
            together=lambda: _turning(two_mistakes(encoding), turning),
            with_factor=lambda factor: [
                e.at(turning)
                for e in with_factor(encoding, factor)
                if e.predicted.size == turning.size
            ],
            seldom=lambda: [
                e.at(turning) for e in unusual_turns(encoding) if e.predicted.size == turning.size
            ],
            # Given frequencies have no base to which a scaling could be missing.
            plain=None
            if isinstance(scaling, GivenFrequencies)
            else encoding.replace(scaling=None).frequencies()[turning],
            formula=formula(encoding),
        )
    factor = scaling.factor if scaling is not None else 1.0
    others = {
        "head_dim/2": encoding.head_dim / 2,
        "rotary_dim/2 - 1": d / 2 - 1,
        "(rotary_dim - 1)/2": (d - 1) / 2,
        "rotary_dim/2 + 1": d / 2 + 1,
    }
    late = lambda: scaling_mistakes(encoding)  # noqa: E731
    return Schedule(
        encoding.base, d / 2, d // 2, factor, others, late=late, formula=formula(encoding)
    )


def _turning(
    pairs: Iterable[tuple[FrequencyMistake, FrequencyMistake]], turning: np.ndarray
) -> Iterator[tuple[FrequencyMistake, FrequencyMistake]]:
    """Yield pairs of mistakes with the predictions of the pairs of channels that turn."""
    for one, other in pairs:
        if other.predicted.size == turning.size:
            yield one, other.at(turning)


def _leading(s: Schedule, count: int) -> Schedule:
    """Return the schedule of the first pairs."""

    def cut(mistakes: Callable[[], Iterable[FrequencyMistake]]) -> Any:
        return lambda: [e.at(np.arange(count)) for e in mistakes()]

    rebased = s.rebased
    return replace(
        s,
        pairs=count,
        target=None if s.target is None else s.target[:count],
        rebased=None if rebased is None else lambda b: rebased(b)[:count],
        variants=cut(s.variants),
        late=cut(s.late),
        seldom=cut(s.seldom),
        together=lambda: ((a, b.at(np.arange(count))) for a, b in s.together()),
        with_factor=lambda factor: [e.at(np.arange(count)) for e in s.with_factor(factor)],
        plain=None if s.plain is None else s.plain[:count],
    )


def formula(encoding: Rotary) -> str:
    """Return the declared frequencies in a sentence; empty for encodings that are given by arrays.

    Examples
    --------
    >>> formula(pr.RoPE(64, layout="half"))
    'Declared: pair k turns by theta_k = 10000 ** (-2k/64), k = 0 .. 31.'
    """
    if isinstance(encoding, MultiAxisRoPE):
        return (
            f"Declared: base {_numbers(encoding.base)}, {encoding.spacing!r} spacing over sections "
            f"{encoding.sections}"
            + (f", positions times {_numbers(encoding.position_scale)}."
               if encoding.position_scale != 1.0 else ".")
        )  # fmt: skip
    if not isinstance(encoding, RoPE):
        return ""
    d: Any = encoding.rotary_dim
    plain = f"{encoding.base:.10g} ** (-2k/{d})"
    pairs = f", k = 0 .. {d // 2 - 1}."
    s: Any = encoding.scaling
    if s is None:
        return f"Declared: pair k turns by theta_k = {plain}{pairs}"
    entry = schedules().get(type(s))
    if entry is None:
        return ""
    words = entry.words if isinstance(entry.words, str) else entry.words(encoding)
    said = words.format(s=s, d=d, d1=d - 1, d2=d - 2, base=encoding.base)
    given = "" if "f_k" not in words else f", f_k = {plain}"
    return f"Declared: pair k turns by theta_k = {said}{given}{pairs}"


def _numbers(value: Any) -> str:
    each = value if isinstance(value, tuple) else (value,)
    text = ", ".join(f"{v:g}" if isinstance(v, int | float) else str(v) for v in each)
    return f"({text})" if isinstance(value, tuple) else text
