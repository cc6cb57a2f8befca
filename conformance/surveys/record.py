"""The outcome of judging one function: the record that every survey keeps."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from posenc_ref import SPEC_VERSION, __version__
from posenc_ref.conformance.harness.report import ERROR, NOTE, Report, _finite

#: The names of members in the JSON of ``posenc verify``, each with its field.
VERIFY_KEYS = {
    name: name
    for name in (
        "kind", "group", "version", "label", "surface", "device", "dtype", "verdict", "reason",
        "codes", "messages", "limits", "encoding", "worst", "budget", "precision", "errors",
        "degrades_at", "highest", "executed", "seconds",
    )
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What came of one function, table or surface of one implementation, in one dtype."""

    kind: str = ""  #: "backend", "certificate" or "library"; in a sweep the kind of encoding
    group: str = ""  #: the backend, library or model
    version: str = ""
    label: str = ""  #: what of the group is judged
    surface: str = ""
    device: str | None = None
    dtype: str = ""
    #: As of a report, or ``skipped`` (not judged here).  Sweeps say ``gap`` where the limit is ours
    #: (no encoding, or no judge, for it), ``undrivable`` where it cannot be built or called, and
    #: ``refused`` where the model does not accept what was asked for.
    verdict: str = "skipped"
    reason: str = ""  #: why there is no verdict, or what the error was
    codes: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    encoding: str = ""  #: what it should be, or what it was identified as
    worst: float | None = None
    budget: float | None = None
    precision: str = ""
    errors: dict[int, float] = field(default_factory=dict)
    degrades_at: int | None = None
    highest: int = 0
    executed: int = 0
    seconds: float = 0.0
    case: str = ""  #: the name of what was judged in one go; else made of the fields above
    target: str = ""  #: the module or place in the census of a sweep
    module: str = ""  #: the class that is judged
    rope_type: str = ""
    layer_type: str = ""
    part: str = ""  #: what of the target is judged, where that is not a layer type
    source: str = ""  #: file and line
    settings: str = ""  #: settings of the configuration that are not its defaults, and why
    measured: str = ""  #: what the function was measured to be
    evidence: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tensor_layout: str = ""
    right: str = ""  #: how an identity card agrees with the source
    card: str = ""  #: the identity card as printed

    @property
    def ours(self) -> bool:
        """Whether a deviation would be our own fault."""
        return self.kind != "library"

    @property
    def name(self) -> str:
        """What was judged, in one phrase."""
        parts = (self.group, self.version, self.device, self.label, self.dtype)
        case = self.case or " ".join(part for part in parts if part)
        inside = self.layer_type or self.part
        return case + (f" [{inside}]" if inside else "")

    @property
    def found(self) -> str:
        """What was found, in words: the reason, or every code with its message."""
        said = (f"{code}: {text}" for code, text in zip(self.codes, self.messages, strict=False))
        return self.reason or "; ".join(said)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_dict(self, keys: Mapping[str, str] = VERIFY_KEYS) -> dict[str, Any]:
        """Return JSON-ready data, the fields under their ``keys``; infinite numbers become null."""
        return {key: _finite(getattr(self, name)) for key, name in keys.items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], keys: Mapping[str, str] = VERIFY_KEYS) -> Self:
        """Return the outcome that :meth:`to_dict` wrote with the same keys."""
        known = {f.name for f in dataclasses.fields(cls)}
        body = {name: data[key] for key, name in keys.items() if name in known}
        body |= {name: tuple(value) for name, value in body.items() if isinstance(value, list)}
        return cls(**body)


@dataclass
class Survey:
    """Every outcome of a survey, and how long it took."""

    outcomes: list[Outcome] = field(default_factory=list)
    seconds: float = 0.0

    def count(self, *verdicts: str) -> dict[str, int]:
        """Return how many outcomes have each of the verdicts."""
        return {v: sum(o.verdict == v for o in self.outcomes) for v in verdicts}

    @property
    def cpu_seconds(self) -> float:
        """Processor time of everything that was judged."""
        return sum(o.seconds for o in self.outcomes)


def judged(blank: Outcome, report: Report) -> Outcome:
    """Return ``blank`` with what a report says."""
    errors = [f for f in report.findings if f.severity == ERROR]
    a = report.accuracy
    reasons = {
        "error": "a perturbed output was accepted: the check is vacuous here",
        "inconclusive": f"not executed: {', '.join(report.missing)}",
    }
    return blank.replace(
        verdict=report.verdict,
        reason=reasons.get(report.verdict, ""),
        codes=tuple(f.code for f in errors),
        messages=tuple(f.message for f in errors),
        evidence=tuple(f.evidence for f in errors),
        notes=tuple(f"{f.code}: {f.message}" for f in report.findings if f.severity == NOTE),
        limits=tuple(report.limits),
        measured=report.measured,
        worst=float(a.worst) if a else None,
        budget=float(a.budget) if a else None,
        precision=a.precision if a else "",
        errors={int(p): float(e) for p, e in a.errors.items()} if a else {},
        degrades_at=None if a is None or a.degrades_at is None else int(a.degrades_at),
        highest=int(a.highest) if a else 0,
        executed=sum(report.executed.values()),
    )


def versions() -> dict[str, str]:
    """Return the versions that every outcome depends on."""
    return {
        "posenc_ref": __version__,
        "specification": SPEC_VERSION,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def one_line(error: BaseException, limit: int = 300) -> str:
    """Return the type and message of an exception in one short line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:limit]
