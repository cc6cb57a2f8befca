"""The identity card: what a function was measured to be, in the words of the specification."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posenc_ref import Encoding

from .report import Finding, Report

_WIDTH = 100
_INDENT = 13
#: Facts that are found in another order than they are read in; others come first.
_ORDER = (
    "", "pairs", "axes", "columns", "frequencies", "amplitude", "sign", "origin", "length",
    "angles", "accuracy", "judged",
)  # fmt: skip


@dataclass
class Card:
    """What :func:`identify` found; print it to read it."""

    subject: str
    surface: str
    backend: str
    dtype: str
    encoding: Encoding | None = None  #: what it is, or None where no encoding describes it
    facts: dict[str, str] = field(default_factory=dict)  #: what was measured, by name
    rule: bool = True  #: False: ``encoding`` lists numbers as measured, no rule gives them
    nearest: str = ""  #: where there is no rule, the one that is nearest, and how far it is
    softmax_scale: float | None = None  #: the factor on q . k, where logits were measured
    frequencies: np.ndarray = field(default_factory=lambda: np.zeros(0))  #: signed, rad/position
    uncertainty: np.ndarray = field(default_factory=lambda: np.zeros(0))  #: one standard error
    aliases: tuple[Encoding, ...] = ()  #: other values that are the same map
    relations: tuple[str, ...] = ()  #: changes of parameters that no measurement tells apart
    used_by: tuple[str, ...] = ()  #: presets with the same encoding
    closest: tuple[str, ...] = ()  #: presets that differ in one or two fields, and in which
    by_length: dict[int, np.ndarray] = field(default_factory=dict)  #: where the length matters
    linear: bool = True  #: angles grow linearly with the position
    residual: float = float("nan")  #: worst score against ``encoding``, in units
    deviations: list[Finding] = field(default_factory=list)  #: findings against ``encoding``
    limits: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)  #: what could not be determined
    origin: float = 0.0  #: the position that position 0 is treated like
    conversion: list[str] = field(default_factory=list)  #: how to use it as ``to``
    converted: str = ""  #: lines of a function ``converted``, which calls ``fn`` and is ``to``
    report: Report | None = None  #: the check against ``encoding``

    @property
    def exact(self) -> bool:
        """Whether ``encoding`` describes the function with nothing left over."""
        return self.report is not None and self.report.passed

    def __str__(self) -> str:
        lines = [f"IDENTITY  {self.subject}  ({self.surface}, {self.backend}, {self.dtype})"]
        rows: list[tuple[str, str]] = [("is", self._verdict())]
        if self.encoding is not None and not self.rule:
            rows.append(("as measured", self._described()))
        rows += [("same as", repr(a)) for a in self.aliases]
        rows += [("relation", text) for text in self.relations]
        if self.used_by:
            shown = ", ".join(self.used_by[:6])
            more = f" and {len(self.used_by) - 6} more presets" if len(self.used_by) > 6 else ""
            but = "" if self.exact else " (without the deviations)"
            rows.append(("used by", shown + more + but))
        rows += [("near", text) for text in self.closest]
        rank = {name: i for i, name in enumerate(_ORDER)}
        rows += sorted(self.facts.items(), key=lambda row: rank.get(row[0], 0))
        for f in self.deviations:
            rows.append(("but", f"{f.code}: {f.message}"))
        rows += [("limit", text) for text in self.limits]
        rows += [("unknown", text) for text in self.unknown]
        rows += [("convert", text) for text in self.conversion]
        for label, text in rows:
            first = f"{label:<{_INDENT - 1}} "
            lines += textwrap.wrap(
                text, _WIDTH, initial_indent=first, subsequent_indent=" " * _INDENT
            ) or [first.rstrip()]
        lines += [f"{'':<{_INDENT}}{line}" for line in self.converted.splitlines()]
        return "\n".join(lines)

    def _verdict(self) -> str:
        if self.encoding is None:
            return "no encoding that is described here"
        if not self.rule:
            return f"no known rule{'; nearest is ' if self.nearest else ''}{self.nearest}"
        return self._described()

    def _described(self) -> str:
        if self.exact:
            return f"{self.encoding!r} (worst {self.residual:.3g} units)"
        return f"nearest to {self.encoding!r}, with the deviations below"

    def to_json(self) -> str:
        """The card as JSON."""
        data: dict[str, Any] = {
            "subject": self.subject,
            "surface": self.surface,
            "backend": self.backend,
            "dtype": self.dtype,
            "encoding": None if self.encoding is None else self.encoding.to_dict(),
            "exact": self.exact,
            "rule": self.rule,
            "nearest": self.nearest,
            "facts": self.facts,
            "softmax_scale": self.softmax_scale,
            "frequencies": self.frequencies.tolist(),
            "uncertainty": self.uncertainty.tolist(),
            "aliases": [a.to_dict() for a in self.aliases],
            "relations": list(self.relations),
            "used_by": list(self.used_by),
            "closest": list(self.closest),
            "by_length": {str(n): w.tolist() for n, w in self.by_length.items()},
            "linear": self.linear,
            "residual": self.residual if np.isfinite(self.residual) else None,
            "deviations": [
                {"code": f.code, "message": f.message, "evidence": f.evidence}
                for f in self.deviations
            ],
            "limits": self.limits,
            "unknown": self.unknown,
            "conversion": self.conversion,
            "converted": self.converted,
        }
        return json.dumps(data, indent=2)
