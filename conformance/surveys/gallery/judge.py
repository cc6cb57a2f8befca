"""Identify a function without a declared encoding, and compare the card with the source."""

from __future__ import annotations

import dataclasses
import time

import numpy as np

from posenc_ref import Encoding, GivenFrequencies, T5Bias
from posenc_ref.conformance.adapters.library import LibraryFunction
from posenc_ref.conformance.check import check
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.identify.card import Card
from posenc_ref.conformance.identify.function import identify
from posenc_ref.conformance.surveys.record import Outcome

#: The ways in which a card can be right, strongest first.
RIGHT = {
    "equal": "the card has the encoding of the source",
    "alias": "the encoding of the source is an alias on the card",
    "relation": "parameters differ, but outputs are equal; the card says how the parameters relate",
    "measured": "card and source have equal frequencies; the card names no rule for them",
    "unknown": "the card has no encoding, and gives the reason that the source shows",
}


def judge_function(function: LibraryFunction) -> Outcome:
    """Return the outcome of identifying a function and comparing the card with the source."""
    begin = time.process_time()
    blank = blank_of(function)
    try:
        found = function.make()
    except Exception as error:
        return blank.replace(reason=f"cannot be built: {type(error).__name__}: {error}")
    undeclared = dataclasses.replace(found, encoding=None, name=function.name)
    card = identify(undeclared, axes=found.axes)
    right, wrong = compare(card, function)
    return blank.replace(
        verdict="conforms" if right else "deviates",
        reason=wrong,
        right=right,
        encoding="" if card.encoding is None else repr(card.encoding),
        worst=card.residual if np.isfinite(card.residual) else None,
        codes=_codes(card),
        card=str(card),
        seconds=round(time.process_time() - begin, 2),
    )


def blank_of(function: LibraryFunction) -> Outcome:
    """Return an outcome with verdict "deviates" and no reason, to be completed."""
    return Outcome("library", function.library, case=function.name, verdict="deviates")


def compare(card: Card, function: LibraryFunction) -> tuple[str, str]:
    """Return (key of :data:`RIGHT`, "") for a right card, or ("", reason) for a wrong one."""
    if function.expected is None:
        if card.exact:
            return "", f"the card must have no encoding, got {card.encoding!r}"
        if not any(function.unknown in text for text in card.unknown):
            return "", f'the card must list "{function.unknown}" as unknown, got {card.unknown}'
        return "unknown", ""
    right = _same(card, function.expected)
    if not right:
        return "", f"the card must have the encoding {function.expected!r}, got {card.encoding!r}"
    if _codes(card) != tuple(sorted(function.deviations)):
        wanted, got = (", ".join(codes) or "none" for codes in (function.deviations, _codes(card)))
        return "", f"the card must have the deviations {wanted}, got {got}"
    return right, ""


def _codes(card: Card) -> tuple[str, ...]:
    return tuple(sorted(f.code for f in card.deviations if f.severity == "error"))


def _same(card: Card, expected: Encoding) -> str:
    """Return the key of :data:`RIGHT` if the card has the ``expected`` encoding, else ""."""
    found = card.encoding
    if found is None:
        return ""
    if isinstance(found, T5Bias) and isinstance(expected, T5Bias):
        # Buckets do not depend on the table, and a bias was identified with its own table.
        if found.num_buckets != expected.num_buckets:
            return ""
        expected = expected.replace(table=found.table)
    if found == expected:
        return "equal"
    if expected in card.aliases:
        return "alias"
    if type(found) is not type(expected):
        return ""
    # Measured frequencies differ from the source's by the error of the measurement.
    scalings = (getattr(e, "scaling", None) for e in (found, expected))
    measured = all(isinstance(scaling, GivenFrequencies) for scaling in scalings)
    surface = "apply" if card.surface in ("cos_sin", "frequencies") else card.surface
    if not (measured or card.relations) or surface not in ("apply", "table", "bucket"):
        return ""
    one = Implementation(getattr(found, surface), surface, "the card's encoding")
    return ("measured" if measured else "relation") if check(one, expected).passed else ""
