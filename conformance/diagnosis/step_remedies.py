"""What to do about a step of a formula that is computed differently (see :mod:`.steps`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .rounding import SIGNIFICANT_BITS

#: For each kind of step, by the words of its change: what to do. ``{name}`` is the name of the
#: step, ``{is_}`` its declared value where that is one number.
_BY_WORDS = {
    "number": {
        "has the opposite sign": "Reverse the sign of {name}.",
        "is replaced by its absolute value": "Keep the sign of {name}: take no absolute value.",
        "is taken as 0 where it is negative": "Use {name} where it is negative too, not 0.",
        "is taken as 0 where it is positive": "Use {name} where it is positive too, not 0.",
        "is 1 too large": "Subtract 1 from {name}{is_}.",
        "is 1 too small": "Add 1 to {name}{is_}.",
        "is 1 too large, except for 0": "Use {name} itself, without 1 more.",
        "is 1 too small, except for 0": "Use {name} itself, without 1 less.",
        "is doubled": "Divide {name} by 2{is_}.",
        "is halved": "Multiply {name} by 2{is_}.",
        "is left out": "Use {name}{is_}, not 0.",
        "is everywhere that of the first": "Compute {name} for each element, not for the first.",
        "is everywhere that of the last": "Compute {name} for each element, not for the last.",
        "is squared": "Use {name} itself, not its square.",
        "counts queries from 0, not from the number of earlier keys": "Count queries from K - Q "
        "on in {name}: the last query has the position of the last key.",
    }
    | {
        f"is {how} {kind}": "Keep {name} in an integer type or in float32, not in " + f"{kind}."
        for kind in SIGNIFICANT_BITS
        for how in ("rounded to", "cut, not rounded, to")
    },
    "factor": {
        "is left out": "Include {name}{is_}.",
        "is inverted": "Use {name} itself{is_}, not its reciprocal.",
        "is squared": "Use {name} itself{is_}, not its square.",
        "is replaced by its square root": "Use {name} itself{is_}, not its square root.",
        "is doubled": "Divide {name} by 2{is_}.",
        "is halved": "Multiply {name} by 2{is_}.",
        "is 1 too large": "Subtract 1 from {name}{is_}.",
        "is 1 too small": "Add 1 to {name}{is_}.",
        "has the opposite sign": "Reverse the sign of {name}{is_}.",
        "is at most 1": "Use {name} where it is above 1 too, not 1.",
        "is at least 1": "Use {name} where it is below 1 too, not 1.",
    },
    "term": {
        "is left out": "Add {name}{is_}.",
        "is subtracted": "Add {name}{is_}; do not subtract it.",
        "is added twice": "Add {name} once{is_}.",
    },
    "array": {
        "has the opposite sign": "Reverse the sign of {name}.",
        "is left out": "Use {name}, not 0.",
    },
}


def remedy_for(kind: str, name: str, words: str, value: Any, right: str) -> str:
    """Return what to do about one change of a step; empty if nothing is known.

    ``right`` says what to do about every change of this step; it may contain ``{name}``.
    """
    number = isinstance(value, int | float | np.number | np.ndarray) and np.ndim(value) == 0
    is_ = f" (declared: {float(value):.6g})" if number else ""
    text = _BY_WORDS.get(kind, {}).get(words) or right
    if not text and number:
        text = "Use {name} = " + f"{float(value):.6g}."
    return text.format(name=name, is_=is_)


def remedy_for_exchange(one: str, two: str) -> str:
    """Return what to do about two values that are exchanged."""
    return f"Exchange {one} and {two}: each is used in place of the other."
