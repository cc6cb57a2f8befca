"""The identity card: the measured properties of a function, as specification parameters."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from posenc_ref import Encoding, RoPE
from posenc_ref._text import one_line
from posenc_ref.conformance.harness.foreign import said, where
from posenc_ref.conformance.harness.report import Finding, Report
from posenc_ref.encoding import Value
from posenc_ref.limits import LONG_TEXT

_INDENT = 13
#: Facts at the end of a card, in this order; all other facts come before them.
_LAST = "pairs axes columns frequencies amplitude sign origin length angles accuracy judged"
_RANK = {name: i for i, name in enumerate(_LAST.split(), start=1)}


def listed(values: np.ndarray) -> str:
    """Return the first numbers of a list as text."""
    shown = ", ".join(f"{v:.6g}" for v in values[:8])
    return f"{shown}{', ...' if values.size > 8 else ''}"


class Unidentified(Exception):
    """Raised to stop an identification; the message says what could not be determined."""


def require_same(first: np.ndarray, again: Any) -> None:
    """Raise Unidentified if the repeated call failed (``again`` is None) or gave another result."""
    if again is None or not np.array_equal(first, again, equal_nan=True):
        raise Unidentified("a repeated call returns other values: the function has no encoding")


def require_finite(values: np.ndarray) -> None:
    """Raise Unidentified if a result contains NaN or infinity, or complex numbers."""
    if values.dtype.kind == "c":
        raise Unidentified("the result contains complex numbers")
    if not np.isfinite(values).all():
        raise Unidentified("the result contains NaN or infinity")


@dataclass
class Card:
    """The result of :func:`identify`; print it to read it.

    Attributes
    ----------
    subject, surface, backend, dtype : str
        The name of the function, its surface, and the array library and dtype of its inputs.
    encoding : Encoding, optional
        The identified encoding, or None.
    function : str
        The function of ``posenc_ref`` with the same results, as code, on surfaces without an
        encoding.
    facts : dict[str, str]
        The measured properties by name.
    rule, nearest : bool, str
        Whether a rule such as a base gives the frequencies of ``encoding``; if not, the nearest
        rule.
    softmax_scale : float, optional
        The factor on q . k, for ``scores``.
    frequencies, uncertainty : np.ndarray
        Signed, in radians per position, (pairs,), and their standard errors.
    aliases, relations : tuple[Encoding, ...], tuple[str, ...]
        Other encodings with the same results; changes of parameters without any effect.
    used_by, closest : tuple[str, ...]
        Presets with the same encoding; presets that differ in one or two fields, which are named.
    by_length : dict[int, np.ndarray]
        Frequencies by the length of the call, if they depend on it.
    linear : bool
        Whether angles grow linearly with the position.
    residual, deviations : float, list[Finding]
        The check against ``encoding``: the largest error in units of rounding, and the findings.
    limits, unknown : list[str]
        Refused calls; undetermined properties.
    origin : float
        The position at which the encoding gives the function's result for position 0.
    conversion, converted : list[str], str
        The steps that convert the function to the encoding ``to``, in words; the Python code of
        these steps, which defines ``converted``, a function that calls ``fn``.
    report : Report, optional
        The check against ``encoding``.
    exchanged : bool
        Whether every pair turns back from a right angle, as if sin and cos were exchanged.
    shell : RoPE, optional
        The measured layout with any base, also if no rule gives the frequencies.
    broken : list[str]
        The steps of :func:`identify` that failed, with the exception and its line.
    answered : bool
        Whether any call returned a result.
    """

    subject: str
    surface: str
    backend: str
    dtype: str
    encoding: Encoding | None = None
    function: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    rule: bool = True
    nearest: str = ""
    softmax_scale: float | None = None
    frequencies: np.ndarray = field(default_factory=lambda: np.zeros(0))
    uncertainty: np.ndarray = field(default_factory=lambda: np.zeros(0))
    aliases: tuple[Encoding, ...] = ()
    relations: tuple[str, ...] = ()
    used_by: tuple[str, ...] = ()
    closest: tuple[str, ...] = ()
    by_length: dict[int, np.ndarray] = field(default_factory=dict)
    linear: bool = True
    residual: float = float("nan")
    deviations: list[Finding] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    origin: float = 0.0
    conversion: list[str] = field(default_factory=list)
    converted: str = ""
    report: Report | None = None
    exchanged: bool = False
    shell: RoPE | None = None
    broken: list[str] = field(default_factory=list)
    answered: bool = False

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field; the name, which may be foreign, becomes one printable line."""
        super().__setattr__(name, one_line(value) if name == "subject" else value)

    @property
    def found(self) -> bool:
        """Whether an encoding or a function of the specification was found."""
        return self.encoding is not None or bool(self.function)

    @property
    def exact(self) -> bool:
        """Whether the function passes the check against ``encoding``, or equals ``function``."""
        return bool(self.function) if self.report is None else self.report.passed

    @property
    def unsure(self) -> bool:
        """Whether the check could not be completed, and what it compared agrees."""
        cut = self.report is not None and self.report.verdict == "inconclusive"
        return cut and not self.deviations

    def broke(self, what: str, error: Exception) -> None:
        """Note that a step of ``identify`` itself failed, and where."""
        self.broken.append(f"{what} broke off at {where(error)} ({said(error)}); please report")

    def fill(self, identify: Callable[..., None], *measured: Any) -> None:
        """Call ``identify(*measured, self)``; add the message of Unidentified to ``unknown``."""
        try:
            identify(*measured, self)
        except Unidentified as reason:
            self.unknown.append(str(reason))

    def __str__(self) -> str:
        users = ", ".join(self.used_by[:6])
        users += f" and {len(self.used_by) - 6} more presets" if len(self.used_by) > 6 else ""
        users += "" if self.exact else " (without the deviations)"
        facts = sorted(self.facts, key=lambda name: _RANK.get(name, 0))
        rows: list[tuple[str, Iterable[str]]] = [
            ("is", [self.verdict]),
            ("as measured", [] if self.encoding is None or self.rule else [self._described()]),
            ("same as", map(repr, self.aliases)),
            ("relation", self.relations),
            ("used by", [users] if self.used_by else []),
            ("near", self.closest),
            *((name, [self.facts[name]]) for name in facts),
            ("but", (f"{f.code}: {f.message}" for f in self.deviations)),
            ("limit", self.limits),
            ("unknown", self.unknown),
            ("broken", self.broken),
            ("convert", self.conversion),
        ]
        lines = [f"IDENTITY  {self.subject}  ({self.surface}, {self.backend}, {self.dtype})"]
        for label, texts in rows:
            first = f"{label:<{_INDENT - 1}} "
            for text in texts:
                text = one_line(text, LONG_TEXT)
                wrapped = textwrap.wrap(
                    text, 100, initial_indent=first, subsequent_indent=" " * _INDENT
                )
                lines += wrapped or [first.rstrip()]
        lines += [f"{'':<{_INDENT}}{line}" for line in self.converted.splitlines()]
        return "\n".join(lines)

    @property
    def verdict(self) -> str:
        """The encoding and how well it describes the function, in words."""
        if not self.found:
            return "no known encoding"
        if not self.rule:
            return f"no known rule{'; nearest is ' if self.nearest else ''}{self.nearest}"
        return self._described()

    def _described(self) -> str:
        found = self.function or repr(self.encoding)
        if self.unsure:
            return f"{found}, as far as calls were made"
        if not self.exact:
            return f"nearest to {found}, with the deviations below"
        units = " of ".join(["units", *self.facts.get("precision", "").split()[-1:]])
        worst = "" if np.isnan(self.residual) else f" (worst {self.residual:.3g} {units})"
        return f"{found}{worst}"

    def to_json(self) -> str:
        """Return the card as JSON."""
        data: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        del data["origin"], data["report"], data["shell"], data["answered"], data["exchanged"]
        data["exact"] = self.exact
        data["residual"] = self.residual if np.isfinite(self.residual) else None
        return json.dumps(data, indent=2, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Value):
        return value.to_dict()
    if isinstance(value, Finding):
        return {"code": value.code, "message": value.message, "evidence": value.evidence}
    return value.tolist()
