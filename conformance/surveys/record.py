"""One line of `posenc verify`: what was judged, and what came of it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Self

from posenc_ref.backends import backends
from posenc_ref.conformance.harness.report import ERROR, Report

CERTIFICATE = "certificate"  #: the name of the group that recomputes our own values


@dataclass(frozen=True)
class Outcome:
    """The verdict on one surface of one implementation in one dtype."""

    kind: str  #: "backend" and "certificate" are ours, "library" is not
    group: str
    version: str = ""
    label: str = ""
    surface: str = ""
    device: str | None = None
    dtype: str = ""
    verdict: str = "skipped"  #: as of a report, or "skipped"
    reason: str = ""  #: why it was skipped, or what the error was
    codes: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    encoding: str = ""
    worst: float | None = None
    budget: float | None = None
    precision: str = ""
    errors: dict[int, float] = field(default_factory=dict)
    degrades_at: int | None = None
    highest: int = 0
    executed: int = 0
    seconds: float = 0.0

    @property
    def ours(self) -> bool:
        """Whether a deviation would be our own fault."""
        return self.kind != "library"

    @property
    def name(self) -> str:
        """What was judged, in one phrase."""
        parts = (self.group, self.version, self.device, self.label, self.dtype)
        return " ".join(part for part in parts if part)

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready data; infinite numbers become null."""
        body = dataclasses.asdict(self)
        body["errors"] = {str(p): _finite(e) for p, e in self.errors.items()}
        return {key: _finite(value) for key, value in body.items()}


def kind_of(group: str) -> str:
    """Whose a group of checks is."""
    if group == CERTIFICATE:
        return "certificate"
    return "backend" if any(b.name == group for b in backends()) else "library"


def judged(blank: Outcome, report: Report, seconds: float) -> Outcome:
    """The outcome that a report comes to."""
    found = [f for f in report.findings if f.severity == ERROR]
    a = report.accuracy
    reason = ""
    if report.verdict == "error":
        reason = "a perturbed output was accepted: the check is vacuous here"
    elif report.verdict == "inconclusive":
        reason = f"not executed: {', '.join(report.missing)}"
    return blank.replace(
        surface=report.surface,
        verdict=report.verdict,
        reason=reason,
        codes=tuple(f.code for f in found),
        messages=tuple(f.message for f in found),
        limits=tuple(report.limits),
        encoding=report.encoding,
        worst=a.worst if a else None,
        budget=a.budget if a else None,
        precision=a.precision if a else "",
        errors={int(p): float(e) for p, e in a.errors.items()} if a else {},
        degrades_at=None if a is None or a.degrades_at is None else int(a.degrades_at),
        highest=int(a.highest) if a else 0,
        executed=sum(report.executed.values()),
        seconds=seconds,
    )


def skipped(blank: Outcome, reason: str) -> Outcome:
    """Not judged here."""
    return blank.replace(verdict="skipped", reason=reason)


def failed(blank: Outcome, error: BaseException) -> Outcome:
    """The harness or an adapter raised."""
    text = f"{type(error).__name__}: {error}".split("\n")[0]
    return blank.replace(verdict="error", reason=text[:300])


def _finite(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return None
    return value
