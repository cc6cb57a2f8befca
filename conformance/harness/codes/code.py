"""The record of a code of findings."""

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
        The measured quantity that raises it.
    remedy : str
        What to do about it.
    """

    name: str
    meaning: str
    trigger: str
    remedy: str


def code(name: str, meaning: str, trigger: str, remedy: str) -> tuple[str, Code]:
    """Return an entry of a table of codes."""
    return name, Code(name, meaning, trigger, remedy)
