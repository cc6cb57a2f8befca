"""What a finding's code is made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Code:
    """The meaning of a finding's code."""

    name: str
    meaning: str  #: one defining sentence
    trigger: str  #: the measured quantity that raises it
    remedy: str  #: what to do about it


def code(name: str, meaning: str, trigger: str, remedy: str) -> tuple[str, Code]:
    """An entry of a table of codes."""
    return name, Code(name, meaning, trigger, remedy)
