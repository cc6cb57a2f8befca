"""Truths from the registry: the formula of every table, bias and score is written there, once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc_ref import from_dict
from posenc_ref.conformance.exact.fixed_point import DIGITS
from posenc_ref.conformance.exact.numbers import Json, Real


def registered(e: Json, inputs: Mapping[str, Any], digits: int = DIGITS) -> Real:
    """The output of the entry's own surface, from the JSON form."""
    from posenc_ref.conformance.registry import entry_of  # it is made of recipes, as vectors are

    encoding = from_dict(e)
    entry = entry_of(encoding)
    if entry is None:
        raise ValueError(f"{e['encoding']} has no entry in conformance/registry")
    return entry.truth(encoding, inputs, digits)
