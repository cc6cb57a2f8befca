"""Expected deviations and their reasons, read from the ``*_expected.json`` of a sweep.

Every entry has patterns of module names, the expected verdict, and the evidence.  What it claims of
a library is one of :data:`CLAIMS`.
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
#: What a deviation can be, and when it is called so.
CLAIMS = {
    "bug": "a shipped configuration or a documented setting reaches it, and it contradicts the "
    "library's own source, its paper, or code beside it; a number is wrong by more than rounding, "
    "or a call raises",
    "latent": "wrong like a bug, but no shipped configuration and no documented setting reaches it",
    "convention": "a choice that the released weights were trained with, or that its makers "
    "defend; whoever ports the model must know it",
    "precision": "the formula is right, the numbers are rounded more than their dtype demands, "
    "also by a table kept from an earlier call or by positions counted in half precision",
}


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
    reach: str = ""  #: which checkpoints or settings meet it
    effect: str = ""  #: what it changes, and from which position on
    upstream: str = ""  #: the public issue, or that there is none
    library: str = ""  #: the library that is wrong, if it is another than the one that is surveyed

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES:
            raise ValueError(f"{self.title}: outcome must be one of {', '.join(OUTCOMES)}")
        if self.claim not in (*CLAIMS, ""):
            raise ValueError(f'{self.title}: claim must be one of {", ".join(CLAIMS)}, or ""')
        if not self.reason:
            raise ValueError(f"{self.title}: a reason is needed")
        needed = (self.claim, self.evidence, self.script, self.reach, self.effect, self.upstream)
        if self.outcome == "deviates" and not all(needed):
            raise ValueError(
                f"{self.title}: a deviation needs a claim, evidence, a script, "
                "its reach, its effect and upstream"
            )

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
