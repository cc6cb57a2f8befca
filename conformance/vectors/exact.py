"""The first route to the truth of every surface: 50-digit mpmath from the JSON form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import exact_rotary as rotary
from .exact_numbers import Json, Real, Whole

Truths = dict[str, Real | Whole]


def truths(surface: str, declared: Json, inputs: Mapping[str, Any]) -> Truths:
    """The truth of every output of a case."""
    return ROUTES[surface](declared, inputs)


ROUTES: dict[str, Callable[[Json, Mapping[str, Any]], Truths]] = {
    "apply": lambda e, i: {"y": rotary.rotate(e, i["x"], i["positions"])},
    "cos_sin": lambda e, i: rotary.cos_sin(e, i["positions"]),
    "frequencies": rotary.frequency_truths,
}
