"""What is known not to conform, and why: ``sweep_expected.json``, read and compared.

Every entry names the modules it speaks for (a pattern), what comes of them, and the evidence.
A claim about somebody's work is either a ``bug`` or a ``convention`` of its own.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .record import APPLY, OUTCOMES, Judged

FILE = Path(__file__).with_name("sweep_expected.json")
CLAIMS = ("bug", "convention", "")


@dataclass(frozen=True)
class Expected:
    """An explanation of what does not conform."""

    patterns: tuple[str, ...]  #: of names; only * and ? are wildcards, as names have brackets
    title: str
    outcome: str
    reason: str
    codes: tuple[str, ...] = ()  #: the codes of a deviation, exactly
    claim: str = ""
    evidence: str = ""
    script: str = ""  #: under docs/sweep-deviations, where it is a deviation

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES[1:]:
            raise ValueError(f"{self.title}: outcome must be one of {', '.join(OUTCOMES[1:])}")
        if self.claim not in CLAIMS:
            raise ValueError(f"{self.title}: claim must be bug, convention or nothing")
        if not self.reason:
            raise ValueError(f"{self.title}: a reason is needed")
        if self.outcome == "deviates" and not (self.claim and self.evidence and self.script):
            raise ValueError(f"{self.title}: a deviation needs a claim, evidence and a script")

    def explains(self, line: Judged) -> bool:
        """Whether this is what came of ``line``."""
        return self.covers(line) and self.outcome == line.outcome and self.codes == line.codes

    def covers(self, line: Judged) -> bool:
        """Whether this speaks for ``line``."""
        return any(_fits(pattern, line) for pattern in self.patterns)


def _fits(pattern: str, line: Judged) -> bool:
    return fnmatch.fnmatchcase(line.name, pattern.replace("[", "[[]"))


def expected(file: Path = FILE) -> tuple[Expected, ...]:
    """The entries of a data file."""
    entries: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    for entry in entries:
        entry |= {key: tuple(entry[key]) for key in ("patterns", "codes") if key in entry}
    return tuple(Expected(**entry) for entry in entries)


def explanation(line: Judged, known: Sequence[Expected]) -> Expected | None:
    """The entry that explains what came of ``line``."""
    return next((entry for entry in known if entry.explains(line)), None)


def stale(lines: Sequence[Judged], known: Sequence[Expected]) -> list[str]:
    """Patterns that speak for judged lines, and are true of none of them."""
    found = []
    for entry in known:
        for pattern in entry.patterns:
            own = [line for line in lines if _fits(pattern, line) and line.outcome != "refused"]
            own = [line for line in own if line.surface == APPLY or line.outcome == "conforms"]
            if own and not any(entry.explains(line) for line in own):
                found.append(f"{pattern}: {entry.outcome} {' '.join(entry.codes)}".rstrip())
    return found
