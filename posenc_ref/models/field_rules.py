"""Rules for one value of a document that others wrote: its type and its bounds.

A rule is called with the name of the value, for its message, and the value; it raises TypeError or
ValueError if the value is not allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from posenc_ref import _validate as validate
from posenc_ref._text import shown
from posenc_ref.limits import LAYERS, LENGTH

Rule = Callable[[str, Any], object]


def count(name: str, value: Any, minimum: int, maximum: int) -> int:
    """Return an integer within bounds."""
    found = validate.integer(name, value, minimum=minimum)
    if found > maximum:
        raise ValueError(f"{name} must be at most {maximum}, got {shown(value)}")
    return found


def between(minimum: int, maximum: int) -> Rule:
    """Return the rule for integers from ``minimum`` to ``maximum``."""
    return lambda name, value: count(name, value, minimum, maximum)


def length(name: str, value: Any) -> None:
    """Check a number of tokens; some configurations write 4096.0, and some -1 for none."""
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        value = int(value)
    if abs(validate.integer(name, value)) > LENGTH:
        raise ValueError(f"{name} must be at most {LENGTH}, got {shown(value)}")


def number(name: str, value: Any) -> None:
    """Check a finite number."""
    validate.real(name, value)


def flag(name: str, value: Any) -> None:
    """Check true or false."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be true or false, got {shown(value)}")


def switch(name: str, value: Any) -> None:
    """Check a flag that early files write as a number: ``attn_temperature_tuning: 4``."""
    if not isinstance(value, bool | int):
        raise TypeError(f"{name} must be true or false, got {shown(value)}")


def mapping(name: str, value: Any) -> None:
    """Check a mapping."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping, got {shown(value)}")


def text(name: str, value: Any) -> None:
    """Check a string."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {shown(value)}")


def list_of(of: Rule, what: str, longest: int = LAYERS) -> Rule:
    """Return the rule for lists whose entries follow the rule ``of``."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, list | tuple | np.ndarray):
            raise TypeError(f"{name} must list {what}, got {shown(value)}")
        if len(value) > longest:
            raise ValueError(f"{name} must have at most {longest} entries, got {len(value)}")
        for i, one in enumerate(value):
            of(f"{name}[{i}]", one)

    return check


def or_list(of: Rule, what: str, longest: int = LAYERS) -> Rule:
    """Return the rule for one value that follows ``of``, or a list of such values."""
    several = list_of(of, what, longest)
    return lambda name, value: (several if isinstance(value, list | tuple | np.ndarray) else of)(
        name, value
    )


def pattern(name: str, value: Any) -> None:
    """Check a period, or letters such as "LLLG"."""
    if not isinstance(value, str):
        count(name, value, 1, LAYERS)
    elif len(value) > LAYERS:
        raise ValueError(f"{name} must have at most {LAYERS} letters, got {len(value)}")
