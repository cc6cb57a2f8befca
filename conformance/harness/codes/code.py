"""The record of one code of findings."""

from __future__ import annotations

from collections.abc import Iterator
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


def read(text: str) -> Iterator[Code]:
    """Yield the codes of a text whose blocks are ``name: meaning``, ``trigger:``, ``remedy:``."""
    for block in text.strip().split("\n\n"):
        name, rest = block.split(": ", 1)
        meaning, rest = rest.split("\n  trigger: ")
        trigger, remedy = rest.split("\n  remedy: ")
        yield Code(name, *(" ".join(part.split()) for part in (meaning, trigger, remedy)))
