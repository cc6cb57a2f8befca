"""What came of one rotary module: a line of the sweep's file, and of its table."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from posenc_ref.conformance.harness.report import ERROR, NOTE, Report

from .census import Target

#: ``deviates``: the module is not what its configuration says, by our reading of both.
#: ``gap``: ours; the configuration or the function is beyond what we can express or judge.
#: ``undrivable``: no way was found to build the module, or to call it.
#: ``refused``: the model does not take the rope type that was asked for; nothing is wrong with it.
OUTCOMES = ("conforms", "deviates", "gap", "undrivable", "refused")
#: What a sweep judges unless asked otherwise.
AS_CONFIGURED, FLOAT32, APPLY = "default", "float32", "apply"
#: The function that rotates, or the logits of the attention class that calls it.
SURFACES = (APPLY, "scores")


@dataclass(frozen=True)
class Case:
    """One target, in one dtype, with one rope type, at one surface."""

    target: Target
    rope_type: str = AS_CONFIGURED
    dtype: str = FLOAT32
    surface: str = APPLY

    @property
    def name(self) -> str:
        """The target, and how it is judged where that is not the ordinary way."""
        parts = [self.target.name]
        parts += [self.rope_type] if self.rope_type != AS_CONFIGURED else []
        parts += [self.dtype] if self.dtype != FLOAT32 else []
        parts += [self.surface] if self.surface != APPLY else []
        return " ".join(parts)

    def blank(self) -> Judged:
        """A line about it, to be filled in."""
        target = self.target
        names = (self.name, target.name, target.model, target.module)
        return Judged(*names, self.rope_type, self.dtype, self.surface)

    def judge(self) -> Iterator[Judged]:
        """One line per table, in this process."""
        from .judge import judge_case

        return judge_case(self)


@dataclass(frozen=True)
class Judged:
    """The outcome of one table of one rotary module."""

    case: str  #: the name of the :class:`Case`
    target: str  #: the name of the census
    model: str
    module: str
    rope_type: str = AS_CONFIGURED
    dtype: str = FLOAT32
    surface: str = APPLY
    layer_type: str = ""
    part: str = ""  #: what of the target is judged, where that is not a layer type
    kind: str = ""  #: of encoding, where it is no rotation
    source: str = ""  #: file and line
    outcome: str = "gap"
    reason: str = ""  #: why it is a gap, or cannot be driven
    settings: str = ""  #: what the configuration was built with, other than its defaults, and why
    encoding: str = ""  #: what the configuration declares, in our terms
    measured: str = ""  #: what the function was measured to be
    score: float | None = None
    budget: float | None = None
    precision: str = ""
    codes: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    highest: int = 0
    degrades_at: int | None = None
    executed: int = 0
    tensor_layout: str = ""
    seconds: float = 0.0  #: of processor time, building included

    @property
    def name(self) -> str:
        """The case, and the layer type or the part where there are several."""
        inside = self.layer_type or self.part
        return self.case + (f" [{inside}]" if inside else "")

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready data; infinite numbers become null."""
        body = dataclasses.asdict(self)
        if self.score is not None and not math.isfinite(self.score):
            body["score"] = None
        return {"name": self.name, **body}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """What :meth:`to_dict` wrote."""
        names = {f.name for f in dataclasses.fields(cls)}
        body: dict[str, Any] = {key: value for key, value in data.items() if key in names}
        body |= {key: tuple(value) for key, value in body.items() if isinstance(value, list)}
        return cls(**body)


def judged(blank: Judged, report: Report) -> Judged:
    """The line that a report comes to."""
    errors = [f for f in report.findings if f.severity == ERROR]
    a = report.accuracy
    outcome = report.verdict if report.verdict in ("conforms", "deviates") else "gap"
    reason = ""
    if report.verdict == "inconclusive":
        reason = f"inconclusive: not executed: {', '.join(report.missing)}"
    elif report.verdict == "error":
        reason = "a perturbed output was accepted: the check is vacuous here"
    return blank.replace(
        outcome=outcome,
        reason=reason,
        measured=report.measured,
        score=float(a.worst) if a else None,
        budget=float(a.budget) if a else None,
        precision=a.precision if a else "",
        codes=tuple(f.code for f in errors),
        messages=tuple(f.message for f in errors),
        evidence=tuple(f.evidence for f in errors),
        notes=tuple(f"{f.code}: {f.message}" for f in report.findings if f.severity == NOTE),
        limits=tuple(report.limits),
        highest=int(a.highest) if a else 0,
        degrades_at=None if a is None or a.degrades_at is None else int(a.degrades_at),
        executed=sum(report.executed.values()),
    )
