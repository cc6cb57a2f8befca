"""``sweep``: judge every rotary module of the installed ``transformers``.

A module that hangs is ended at the time limit, and one that crashes does not stop the others.
Every outcome is written as soon as it is known, so that an interrupted sweep can be continued.
"""

from __future__ import annotations

import datetime
import functools
import importlib.metadata
import json
import platform
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from posenc_ref import SPEC_VERSION, __version__
from posenc_ref.conformance.surveys.expected import Expected, expected, explanation, stale
from posenc_ref.conformance.surveys.record import Outcome, Survey
from posenc_ref.conformance.surveys.runner import Progress, run
from posenc_ref.conformance.surveys.worker import Judge

from .case import APPLY, AS_CONFIGURED, FLOAT32, Case
from .census import census, version
from .judge import judge_case

EXPECTED = Path(__file__).with_name("sweep_expected.json")
TIME_LIMIT = 300.0
VERDICTS = ("conforms", "deviates", "gap", "undrivable", "refused")
#: Verdicts that need no explanation.
GOOD = ("conforms", "refused")
#: Verdicts on tables that were driven and compared.
JUDGED = ("conforms", "deviates")
#: The names of members in the JSON of a sweep, each with its field of an outcome.
KEYS = {
    "name": "name", "case": "case", "target": "target", "model": "group",
    **{name: name for name in (
        "module", "rope_type", "dtype", "surface", "layer_type", "part", "kind", "source",
    )},
    "outcome": "verdict",
    **{name: name for name in ("reason", "settings", "encoding", "measured")},
    "score": "worst",
    **{name: name for name in (
        "budget", "precision", "codes", "messages", "evidence", "notes", "limits", "highest",
        "degrades_at", "executed", "tensor_layout", "seconds",
    )},
}  # fmt: skip


class Resumed(ValueError):
    """The file to be continued is of another sweep."""


@dataclass
class Sweep(Survey):
    """Every outcome, with what explains those that do not conform."""

    versions: dict[str, str] = field(default_factory=dict)
    known: tuple[Expected, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many tables came to each verdict."""
        return self.count(*VERDICTS)

    @property
    def unexplained(self) -> list[Outcome]:
        """Outcomes that do not conform, and that no expectation explains.

        Logits are judged where an attention class can be asked for them, and nowhere else.
        """
        return [line for line in self.outcomes if self.is_open(line)]

    def is_open(self, line: Outcome) -> bool:
        """Return whether an outcome does not conform where it should, and nothing explains it."""
        wanted = line.surface == APPLY or line.verdict == "deviates"
        return line.verdict not in GOOD and wanted and explanation(line, self.known) is None

    @property
    def stale(self) -> list[str]:
        """Expectations that are no longer true."""
        return stale(self.outcomes, self.known)

    @property
    def exit_code(self) -> int:
        """0 where everything conforms or is explained, and every explanation is still true.

        3 if nothing was judged at all, else 1.
        """
        if self.unexplained or self.stale:
            return 1
        return 0 if any(line.verdict in JUDGED for line in self.outcomes) else 3

    def footer(self) -> dict[str, Any]:
        """Return the last line of the file."""
        return {
            "footer": True,
            "date": datetime.date.today().isoformat(),
            "versions": self.versions,
            "models": len({line.group for line in self.outcomes}),
            "modules": len({(line.group, line.module) for line in self.outcomes}),
            "counts": self.counts,
            "unexplained": [line.name for line in self.unexplained],
            "stale": self.stale,
            "seconds": round(self.seconds, 1),
            "cpu_seconds": round(self.cpu_seconds, 1),
        }


def versions() -> dict[str, str]:
    """Return the versions that the outcome depends on."""
    return {
        "transformers": version(),
        "torch": importlib.metadata.version("torch"),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "posenc_ref": __version__,
        "specification": SPEC_VERSION,
    }


def sweep(
    only: Sequence[str] = (),
    *,
    rope_types: Sequence[str] = (AS_CONFIGURED,),
    dtypes: Sequence[str] = (FLOAT32,),
    surfaces: Sequence[str] = (APPLY,),
    **settings: Any,
) -> Sweep:
    """Judge every target that ``only`` names, or all of them.

    Every rope type is judged in the first of ``dtypes``, the configured one in all.  The other
    ``settings`` are those of :func:`sweep_cases`.
    """
    targets = census(only)
    cases = [
        Case(target, rope_type, dtype, surface)
        for surface in surfaces
        for rope_type in rope_types
        for dtype in dtypes
        if dtype == dtypes[0] or (rope_type == AS_CONFIGURED and surface == APPLY)
        for target in targets
    ]
    return sweep_cases(cases, judge_case, expected(EXPECTED), **settings)


def sweep_cases(
    cases: Sequence[Any],
    judge: Judge,
    known: tuple[Expected, ...],
    *,
    file: Path | None = None,
    resume: bool = False,
    time_limit: float = TIME_LIMIT,
    processes: int = 2,
    progress: Progress | None = None,
) -> Sweep:
    """Judge cases, each with a name and a blank outcome.

    ``file`` gets one line of JSON per judged table, and a last one with versions and counts.  With
    ``resume`` what it already has is kept, and not judged again.
    """
    begin = time.perf_counter()
    found = versions()
    old = _read(file, found) if resume and file is not None else []
    names = {case.name for case in cases}
    lines = [line for line in old if line.case in names]
    done = {line.case for line in lines}
    if file is not None:
        file.write_text(json.dumps({"header": True, "versions": found}) + "\n", encoding="utf-8")
        _append(file, old)
    lines += run(
        [case for case in cases if case.name not in done],
        judge,
        _gap,
        processes=processes,
        time_limit=time_limit,
        keep=None if file is None else functools.partial(_append, file),
        progress=progress,
    )
    lines.sort(key=lambda line: (line.surface, line.rope_type != AS_CONFIGURED, line.name))
    result = Sweep(lines, time.perf_counter() - begin, found, known)
    if file is not None:
        _write(file, [result.footer()])
    return result


def _gap(case: Any, reason: str) -> Outcome:
    blank: Outcome = case.blank()
    return blank.replace(verdict="gap", reason=reason)


def _read(file: Path, found: dict[str, str]) -> list[Outcome]:
    """Return the outcomes of an earlier sweep with the same versions."""
    if not file.exists():
        return []
    lines = [json.loads(text) for text in file.read_text(encoding="utf-8").splitlines() if text]
    head = next((line for line in lines if "header" in line), None)
    if head is None:
        raise Resumed(f"{file} is no sweep: its first line has no versions")
    if head["versions"] != found:
        changed = [name for name in found if head["versions"].get(name) != found[name]]
        was = ", ".join(f"{name} {head['versions'].get(name)}" for name in changed)
        raise Resumed(f"{file} was written with {was}: begin a new file")
    return [Outcome.from_dict(line, KEYS) for line in lines if "case" in line]


def _append(file: Path, outcomes: Iterable[Outcome]) -> None:
    _write(file, [outcome.to_dict(KEYS) for outcome in outcomes])


def _write(file: Path, lines: Iterable[dict[str, Any]]) -> None:
    with file.open("a", encoding="utf-8") as out:
        for line in lines:
            out.write(json.dumps(line) + "\n")
