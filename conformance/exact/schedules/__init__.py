"""The registry of frequency schedules: an entry for each, with examples and a second formula.

To add an entry, add a module to this folder; all modules here are imported.  The formula is in
50-digit mpmath, and uses only the fields of the class.  Write it from the paper or the model's
code, and differently from ``posenc_ref``: a power instead of a quotient, a logarithm instead of a
power::

    @schedule(
        LinearScaling,
        words="f_k / {s.factor:g}",
        examples=(LinearScaling(4.0),),
        row=("LinearScaling(s)", "`f_k / s`", "1", "what implementations confuse", "who uses it"),
    )
    def linear(s, base, d, seq_len):
        return [w / s.factor for w in powers(base, d)]

From the entry follow the tests of all schedules, the formula and the mistakes that ``posenc check``
names, and the row of ``docs/schedules.md`` (``python tools/schedules_table.py``).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref import FrequencySchedule, RoPE
from posenc_ref.conformance.exact.digits import mpmath
from posenc_ref.conformance.exact.numbers import Number

#: Return the frequency of each of d/2 pairs, given the schedule, the base, d and the length.
Formula = Callable[[Any, Any, int, int | None], list[Number]]


@dataclass(frozen=True)
class Change:
    """A likely mistake in a schedule: the frequencies that it gives, or fields that it changes."""

    code: str = "scaling-formula"
    message: str = ""
    frequencies: np.ndarray | None = None
    fields: tuple[tuple[str, Any], ...] = ()
    remedy: str = ""
    alternatives: tuple[str, ...] = ()
    #: The declared and the wrong number, for the report.
    declared: float | None = None
    measured: float | None = None


@dataclass(frozen=True)
class Entry:
    """What is known of a schedule besides its class; :func:`schedule` describes the fields."""

    cls: type[FrequencySchedule]
    frequencies: Formula
    words: str | Callable[[RoPE], str]
    examples: tuple[FrequencySchedule, ...]
    rows: tuple[tuple[str, ...], ...]
    mistakes: Callable[[RoPE], Iterable[Change]]
    magnitude: Callable[[Any, int | None], Number] | None
    depends_on_length: Callable[[Any], bool]


#: The entries by class, in the order of registration.
SCHEDULES: dict[type[FrequencySchedule], Entry] = {}


def schedule(
    cls: type[FrequencySchedule],
    *,
    words: str | Callable[[RoPE], str],
    examples: Iterable[FrequencySchedule],
    row: tuple[str, ...] | tuple[tuple[str, ...], ...],
    mistakes: Callable[[RoPE], Iterable[Change]] = lambda encoding: (),
    magnitude: Callable[[Any, int | None], Number] | None = None,
    depends_on_length: Callable[[Any], bool] = lambda s: False,
) -> Callable[[Formula], Formula]:
    """Return a decorator that registers a formula of the frequencies with examples.

    Parameters
    ----------
    cls : type
        The class of the schedule.
    words : str or callable
        theta_k as a reader needs it in a report, in which ``{s.factor:g}``, ``{d}``, ``{d1}``
        (d - 1), ``{d2}`` (d - 2) and ``{base:g}`` are filled in; f_k is the frequency without the
        schedule.  A function gets the RoPE.
    examples : schedules
        One for each option, valid with 16 channels.
    row : five strings, or several such rows
        The cells of the table in ``docs/schedules.md``: the call, the frequency, m, where
        implementations differ, and who uses it.
    mistakes : callable, optional
        Given a RoPE with this schedule, likely mistakes that are its own.  Wrong values of fields
        with common names (``factor``, ``original_max_position``, ``beta_fast``) are tried anyway.
    magnitude : callable, optional
        m, given the schedule and the sequence length; by default ``attention_factor``, or 1.
    depends_on_length : callable, optional
        Whether the sequence length changes the frequencies or m.
    """
    found = tuple(examples)
    if not found or any(type(e) is not cls for e in found):
        raise ValueError(f"examples must be {cls.__name__} objects, got {list(found) or 'none'}")
    if cls in SCHEDULES:
        raise ValueError(f"{cls.__name__} has an entry already")
    rows: Any = row if isinstance(row[0], tuple) else (row,)

    def decorated(formula: Formula) -> Formula:
        SCHEDULES[cls] = Entry(
            cls, formula, words, found, rows, mistakes, magnitude, depends_on_length
        )
        return formula

    return decorated


def schedules() -> dict[type[FrequencySchedule], Entry]:
    """Return all entries by class."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return SCHEDULES


def examples() -> list[FrequencySchedule]:
    """Return the examples of all schedules, for 16 channels."""
    return [one for entry in schedules().values() for one in entry.examples]


def frequencies(s: Any, base: float, d: int, seq_len: int | None) -> list[Number]:
    """Return the frequency of each of d/2 pairs in radians per position.

    ``s`` is the schedule, or None without frequency scaling.
    """
    exact = mpmath().mp.mpf(base)
    if s is None:
        return powers(exact, d)
    entry = schedules().get(type(s))
    if entry is None:
        raise ValueError(f"{type(s).__name__} has no entry in conformance/exact/schedules/")
    return entry.frequencies(s, exact, d, seq_len)


def depends_on_length(s: Any) -> bool:
    """Return whether the sequence length changes the frequencies or m."""
    entry = schedules().get(type(s))
    return entry is not None and entry.depends_on_length(s)


def magnitude(s: Any, seq_len: int | None) -> Number:
    """Return the attention factor m, which multiplies cos and sin."""
    mp, entry = mpmath().mp, schedules().get(type(s))
    if entry is not None and entry.magnitude is not None:
        return entry.magnitude(s, seq_len)
    given = getattr(s, "attention_factor", None)
    return mp.mpf(1 if given is None else given)


def powers(base: Number, d: int) -> list[Number]:
    """Return the frequencies without scaling."""
    mp = mpmath().mp
    return [mp.exp(-mp.mpf(2 * k) / d * mp.log(base)) for k in range(d // 2)]
