"""The outcome of judging one function: the record that every survey keeps."""

from __future__ import annotations

import dataclasses
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from posenc_ref import SPEC_VERSION, __version__
from posenc_ref import _text as foreign
from posenc_ref.conformance.harness.received import position
from posenc_ref.conformance.harness.report import ERROR, NOTE, Report, _finite
from posenc_ref.limits import LONG_TEXT

#: Fields that are shown as they are, with their line breaks.
_SEVERAL_LINES = ("card", "reason")
#: The keys in the JSON of ``posenc verify``, each with the field of :class:`Outcome`.
VERIFY_KEYS = {
    name: name
    for name in (
        "kind", "group", "version", "label", "surface", "device", "dtype", "verdict", "reason",
        "codes", "messages", "limits", "encoding", "worst", "budget", "precision", "errors",
        "degrades_at", "degrades_first", "highest", "executed", "seconds", "source",
    )
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """The result of judging one function, table or surface in one dtype."""

    #: "backend", "certificate", "vectors", "library" or "script" (of a claim about a library); in a
    #: sweep the kind of encoding.
    kind: str = ""
    group: str = ""  #: the backend, library or model
    version: str = ""
    label: str = ""  #: the function, table or surface
    surface: str = ""
    device: str | None = None
    dtype: str = ""
    #: The verdict of a report, or ``skipped`` (not judged).  Sweeps add ``gap`` (posenc_ref has no
    #: encoding or no judge for it), ``undrivable`` (it cannot be built or called) and ``refused``
    #: (the model does not accept the setting).
    verdict: str = "skipped"
    reason: str = ""  #: why there is no verdict, or the error
    codes: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    encoding: str = ""  #: the expected encoding, or the identified one
    worst: float | None = None
    budget: float | None = None
    precision: str = ""
    errors: dict[int, float] = field(default_factory=dict)
    degrades_at: int | None = None
    degrades_first: bool = False
    highest: int = 0
    executed: int = 0
    seconds: float = 0.0
    case: str = ""  #: the name of the case; by default made of the fields above
    target: str = ""  #: the module or place in the census of a sweep
    module: str = ""  #: the class that is judged
    rope_type: str = ""
    layer_type: str = ""
    part: str = ""  #: the part of the target, if it is not a layer type
    source: str = ""  #: file and line
    settings: str = ""  #: settings that differ from the configuration's defaults, and why
    measured: str = ""  #: the measured encoding
    evidence: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tensor_layout: str = ""
    right: str = ""  #: the way in which the identity card agrees with the source
    card: str = ""  #: the identity card as printed

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if isinstance(value, str):
                several = f.name in _SEVERAL_LINES
                safe = foreign.printable(value) if several else foreign.one_line(value, LONG_TEXT)
                object.__setattr__(self, f.name, safe)
            elif isinstance(value, tuple):
                safe_parts = tuple(foreign.one_line(v) if isinstance(v, str) else v for v in value)
                object.__setattr__(self, f.name, safe_parts)

    @property
    def ours(self) -> bool:
        """Return whether the outcome is about ``posenc_ref`` itself."""
        return self.kind not in ("library", "script")

    @property
    def name(self) -> str:
        """Return the name of the case, or its group, label, surface and dtype."""
        parts = (self.group, self.version, self.device, self.label, self.dtype)
        case = self.case or " ".join(part for part in parts if part)
        inside = self.layer_type or self.part
        return case + (f" [{inside}]" if inside else "")

    @property
    def found(self) -> str:
        """Return why there is no verdict, or else the code and message of every error."""
        said = (f"{code}: {text}" for code, text in zip(self.codes, self.messages, strict=False))
        return self.reason or "; ".join(said)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with changed fields."""
        return dataclasses.replace(self, **changes)

    def to_dict(self, keys: Mapping[str, str] = VERIFY_KEYS) -> dict[str, Any]:
        """Return JSON-ready data with the names in ``keys``; infinite numbers become null."""
        return {key: _finite(getattr(self, name)) for key, name in keys.items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], keys: Mapping[str, str] = VERIFY_KEYS) -> Self:
        """Return the outcome that :meth:`to_dict` wrote with the same keys."""
        known = {f.name for f in dataclasses.fields(cls)}
        body = {name: data[key] for key, name in keys.items() if name in known}
        body |= {name: tuple(value) for name, value in body.items() if isinstance(value, list)}
        if "errors" in body:  # the keys of JSON are texts
            body["errors"] = {position(p): error for p, error in body["errors"].items()}
        return cls(**body)


@dataclass
class Survey:
    """The outcomes of a survey, and its duration."""

    outcomes: list[Outcome] = field(default_factory=list)
    seconds: float = 0.0

    verdicts: ClassVar[tuple[str, ...]] = ()  #: the verdicts that the survey gives

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of outcomes with each verdict."""
        return {v: sum(o.verdict == v for o in self.outcomes) for v in self.verdicts}

    def head(self, exit_code: int) -> dict[str, Any]:
        """Return what JSON-ready data of a survey begins with."""
        return {
            "version": __version__,
            "spec_version": SPEC_VERSION,
            "counts": self.counts,
            "exit_code": exit_code,
            "seconds": round(self.seconds, 1),
        }

    @property
    def cpu_seconds(self) -> float:
        """Return the total processor time of the outcomes."""
        return sum(o.seconds for o in self.outcomes)


def judged(blank: Outcome, report: Report) -> Outcome:
    """Return the outcome ``blank`` completed with the verdict, score and findings of a report."""
    errors = [f for f in report.findings if f.severity == ERROR]
    measures = {} if report.accuracy is None else dict(vars(report.accuracy))
    measures.pop("where", None)
    reasons = {
        "error": "the check accepted an output that was made wrong on purpose",
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
        executed=sum(report.executed.values()),
        **measures,
    )


def versions() -> dict[str, str]:
    """Return the versions of the packages that every outcome depends on."""
    return {
        "posenc_ref": __version__,
        "specification": SPEC_VERSION,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def one_line(error: BaseException, limit: int = 300) -> str:
    """Return the type and message of an exception in one short line.

    The names in a printed set are sorted, because their order differs from process to process.
    """
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return _SET.sub(lambda found: "{" + ", ".join(sorted(found[1].split(", "))) + "}", text)[:limit]


#: A set of strings as Python prints it.
_SET = re.compile(r"\{('[^'{}:]*'(?:, '[^'{}:]*')*)\}")
