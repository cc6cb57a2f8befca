"""Expected deviations and their reasons, read from the ``*_expected.json`` of a sweep.

Every entry has patterns of module names, the expected verdict, and the evidence.  Its claim about a
library is either ``bug`` or ``convention``.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .record import Outcome

#: The verdicts that an entry can explain.
OUTCOMES = ("deviates", "gap", "undrivable", "refused")


@dataclass(frozen=True)
class Expected:
    """The reason why some modules do not conform."""

    patterns: tuple[str, ...]  #: patterns of names; the wildcards are * and ?
    title: str
    outcome: str
    reason: str
    codes: tuple[str, ...] = ()  #: all codes of the deviation
    claim: str = ""
    evidence: str = ""
    script: str = ""  #: the file name of the deviation's script

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES:
            raise ValueError(f"{self.title}: outcome must be one of {', '.join(OUTCOMES)}")
        if self.claim not in ("bug", "convention", ""):
            raise ValueError(f'{self.title}: claim must be "bug", "convention" or ""')
        if not self.reason:
            raise ValueError(f"{self.title}: a reason is needed")
        if self.outcome == "deviates" and not (self.claim and self.evidence and self.script):
            raise ValueError(f"{self.title}: a deviation needs a claim, evidence and a script")

    def explains(self, line: Outcome) -> bool:
        """Return whether the name, verdict and codes of an outcome match this entry."""
        return self.covers(line) and self.outcome == line.verdict and self.codes == line.codes

    def covers(self, line: Outcome) -> bool:
        """Return whether the name of an outcome matches one of the patterns."""
        return any(_fits(pattern, line) for pattern in self.patterns)


def _fits(pattern: str, line: Outcome) -> bool:
    return fnmatch.fnmatchcase(line.name, pattern.replace("[", "[[]"))


def expected(file: Path) -> tuple[Expected, ...]:
    """Return the entries of a data file."""
    entries: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    for entry in entries:
        entry |= {key: tuple(entry[key]) for key in ("patterns", "codes") if key in entry}
    return tuple(Expected(**entry) for entry in entries)


def explanation(line: Outcome, known: Sequence[Expected]) -> Expected | None:
    """Return the entry that explains the verdict of an outcome, or None."""
    return next((entry for entry in known if entry.explains(line)), None)


def stale(lines: Sequence[Outcome], known: Sequence[Expected]) -> list[str]:
    """Return the patterns that match judged outcomes but explain none of them."""
    found = []
    for entry in known:
        for pattern in entry.patterns:
            own = [line for line in lines if _fits(pattern, line) and line.verdict != "refused"]
            own = [line for line in own if line.surface == "apply" or line.verdict == "conforms"]
            if own and not any(entry.explains(line) for line in own):
                found.append(f"{pattern}: {entry.outcome} {' '.join(entry.codes)}".rstrip())
    return found
