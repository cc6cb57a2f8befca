"""Truths from the registry: the formula of every encoding is written there, once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from posenc_ref.conformance.exact.digits import DIGITS
from posenc_ref.conformance.exact.numbers import Real
from posenc_ref.conformance.exact.reference import Entry
from posenc_ref.conformance.exact.rotation import Formula, rotate
from posenc_ref.conformance.registry import entry_of


def registered(e: Any, inputs: Mapping[str, Any], digits: int = DIGITS) -> Real:
    """The output of an encoding on the surface of its entry."""
    return _entry(e).truth(e, inputs, digits)


def formula(e: Any) -> Formula:
    """The formula of a rotary encoding."""
    return _entry(e).exact


def rotated(e: Any, x: np.ndarray, positions: np.ndarray, **how: Any) -> Real:
    """:func:`rotate` with the formula of the encoding."""
    return rotate(formula(e), e, x, positions, **how)


def _entry(e: Any) -> Entry:
    entry = entry_of(e)
    if entry is None:
        raise ValueError(f"{type(e).__name__} has no entry in conformance/registry")
    return entry
