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
    group : str
        The kind of mistakes that it belongs to.
    """

    name: str
    meaning: str
    trigger: str
    remedy: str
    group: str


def read(text: str) -> Iterator[Code]:
    """Yield the codes of a text whose blocks are ``name: meaning``, ``trigger:``, ``remedy:``.

    A block ``# title`` begins a group of codes; the same title may occur again.
    """
    group = ""
    for block in text.strip().split("\n\n"):
        if block.startswith("# "):
            group = block.removeprefix("# ")
            continue
        name, rest = block.split(": ", 1)
        meaning, rest = rest.split("\n  trigger: ")
        trigger, remedy = rest.split("\n  remedy: ")
        meaning, trigger, remedy = (" ".join(p.split()) for p in (meaning, trigger, remedy))
        yield Code(name, meaning, trigger, remedy, group)
