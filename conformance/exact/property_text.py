"""The declared properties of an encoding, as text."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping

from .reference import Entry


def declared(entry: Entry) -> dict[str, str]:
    """Return each property that an example declares, with the names of the examples without it."""
    of = {name: example.properties for name, example in entry.examples.items()}  # type: ignore[attr-defined]
    return {
        what: ", ".join(name for name, properties in of.items() if what not in properties)
        for what in sorted(frozenset().union(*of.values()))
    }


def in_a_line(entry: Entry) -> str:
    """Return the declared properties, separated by commas."""
    said = [f"{what} (not {but})" if but else what for what, but in declared(entry).items()]
    return ", ".join(said) or "none declared"


def meanings(entry: Entry) -> Mapping[str, str]:
    """Return the meaning of each property, from the docstring of the family's ``properties``."""
    base = next(c for c in reversed(entry.encoding.__mro__) if "properties" in vars(c))
    doc = inspect.getdoc(vars(base)["properties"]) or ""
    return dict(re.findall(r"^``(\S+)``\s+(.*)$", doc, re.MULTILINE))
