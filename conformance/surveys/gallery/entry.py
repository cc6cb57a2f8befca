"""What the gallery holds: a function of a library, and what the library's source says it is."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass

from posenc_ref import Encoding
from posenc_ref.conformance.harness.implementation import Implementation


@dataclass(frozen=True)
class Entry:
    """One function.  Everything but ``build`` is read in the source, nothing on the card."""

    name: str  #: unique: the library, then the function
    library: str  #: the distribution to install
    source: str  #: file and functions, inside the library
    build: Callable[[], Implementation]  #: its ``encoding`` is not looked at
    #: What the source says it is; None where no encoding of ours is that.
    expected: Encoding | None
    says: str = ""  #: what the source does, where the encoding does not tell
    unknown: str = ""  #: what the card has to say where ``expected`` is None
    deviations: tuple[str, ...] = ()  #: codes that the card has to find, and no others
    remark: str = ""  #: what is surprising about it, for the document
    fast: bool = False  #: judged in every run of the tests

    def __post_init__(self) -> None:
        if (self.expected is None) != bool(self.unknown):
            raise ValueError(f"{self.name}: one of expected and unknown must be given, not both")

    def wanted(self, patterns: tuple[str, ...]) -> bool:
        """Whether one of ``patterns`` matches the name, or there are none."""
        return not patterns or any(
            fnmatch.fnmatchcase(self.name.lower(), f"*{pattern.lower()}*") for pattern in patterns
        )
