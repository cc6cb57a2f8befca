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
    "equal": "the same value",
    "alias": "one of the aliases on the card",
    "relation": "the same map, with parameters that the card says cannot be told apart",
    "measured": "the same frequencies: the card says that no rule of ours gives them",
    "unknown": "no encoding, for the reason that the source gives",
}


def judge_function(function: LibraryFunction) -> Outcome:
    """Return the outcome of identifying a function and comparing the card with the source."""
    begin = time.process_time()
    blank = blank_of(function)
    try:
        found = function.build()
    except Exception as error:
        return blank.replace(reason=f"cannot be built: {type(error).__name__}: {error}")
    declared_nothing = dataclasses.replace(found, encoding=None, name=function.name)
    card = identify(declared_nothing, axes=found.axes)
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
            return "", f"it should be no encoding of ours, and the card says {card.encoding!r}"
        if not any(function.unknown in text for text in card.unknown):
            return "", f"the card should say {function.unknown!r}"
        return "unknown", ""
    if card.encoding is None:
        return "", f"it is {function.expected!r}, and the card finds no encoding"
    if _codes(card) != tuple(sorted(function.deviations)):
        wanted = ", ".join(function.deviations) or "none"
        return "", f"deviations should be {wanted}, and are {', '.join(_codes(card)) or 'none'}"
    right = _same(card, function.expected)
    wrong = f"it is {function.expected!r}, and the card says {card.encoding!r}"
    return right, "" if right else wrong


def _codes(card: Card) -> tuple[str, ...]:
    return tuple(sorted(f.code for f in card.deviations if f.severity == "error"))


def _same(card: Card, expected: Encoding) -> str:
    """Return the key of :data:`RIGHT` for how the card names ``expected``, or ""."""
    found = card.encoding
    assert found is not None
    if isinstance(found, T5Bias) and isinstance(expected, T5Bias):
        # Buckets do not depend on the table; a bias was checked with its own.
        if found.num_buckets != expected.num_buckets:
            return ""
        expected = expected.replace(table=found.table)
    if found == expected:
        return "equal"
    if expected in card.aliases:
        return "alias"
    if type(found) is not type(expected):
        return ""
    free = "measured" if _unspaced(found, expected) else "relation" if card.relations else ""
    return free if free and _one_map(found, expected, card.surface) else ""


def _unspaced(found: Encoding, expected: Encoding) -> bool:
    """Return whether both encodings list their frequencies, which are measured inexactly."""
    lists = (getattr(e, "scaling", None) for e in (found, expected))
    return all(isinstance(scaling, GivenFrequencies) for scaling in lists)


def _one_map(found: Encoding, expected: Encoding, surface: str) -> bool:
    """Return whether ``check`` finds that ``found`` conforms to ``expected``."""
    if surface in ("cos_sin", "frequencies"):
        surface = "apply"
    if surface not in ("apply", "table", "bucket"):
        return False
    one = Implementation(getattr(found, surface), surface, "the card's encoding")
    return check(one, expected).passed
