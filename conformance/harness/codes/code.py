"""The record of one code of findings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Code:
    """The meaning of a code of findings.

    Attributes
    ----------
    name : str
        The code itself.
    meaning : str
        One defining sentence.
    trigger : str
        The measurement that triggers the finding.
    remedy : str
        What to do about it.
    """

    name: str
    meaning: str
    trigger: str
    remedy: str


def code(name: str, meaning: str, trigger: str, remedy: str) -> tuple[str, Code]:
    """Return one entry (name, code) for a dict of codes."""
    return name, Code(name, meaning, trigger, remedy)
