"""The definition of a flag: why a case is there.  Flags are recomputed, never trusted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .view import View


@dataclass(frozen=True)
class Flag:
    """The definition of a flag, as files carry it, and its test."""

    bug_type: tuple[str, ...]  #: codes of findings (``posenc explain CODE``)
    catches: str
    test: Callable[[View], bool]
    level: str = "required"  #: one of LEVELS

    def to_json(self) -> dict[str, Any]:
        """The definition without its test."""
        return {
            "bug_type": list(self.bug_type),
            "catches": self.catches,
            "level": self.level,
        }


#: What is asked of an implementation: the right answer; the right answer or a refusal; or, where
#: tables of every language wrap around and nobody relies on it, nothing but a note.
LEVELS = ("required", "optional", "note")

#: The flag of a case that kills nothing, which is what justifies it.
PINS = "PinsDefinition"
