"""Identify one entry with nothing declared, and compare its card with its library's source."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref import Encoding, GivenFrequencies, T5Bias
from posenc_ref.conformance.check import check
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.identify.card import Card
from posenc_ref.conformance.identify.function import identify

from .entry import Entry

#: How a card can be right, in the order of strength.
RIGHT = {
    "equal": "the same value",
    "alias": "one of the aliases on the card",
    "relation": "the same map, with parameters that the card says cannot be told apart",
    "measured": "the same frequencies: the card says that no rule of ours gives them",
    "unknown": "no encoding, for the reason that the source gives",
}


@dataclass(frozen=True)
class Shown:
    """The outcome of one entry."""

    name: str
    right: str = ""  #: a key of :data:`RIGHT`; empty where the card is wrong
    wrong: str = ""  #: why it is
    encoding: str = ""  #: what the card says
    score: float | None = None
    deviations: tuple[str, ...] = ()
    card: str = ""  #: as printed
    seconds: float = 0.0  #: of processor time

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready data."""
        return dataclasses.asdict(self)


def show(entry: Entry) -> Shown:
    """Build, identify and compare one entry."""
    begin = time.process_time()
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = entry.build()
        except Exception as error:
            return Shown(entry.name, wrong=f"cannot be built: {type(error).__name__}: {error}")
        card = identify(dataclasses.replace(found, encoding=None, name=entry.name), axes=found.axes)
        right, wrong = compare(card, entry)
    return Shown(
        entry.name,
        right,
        wrong,
        "" if card.encoding is None else repr(card.encoding),
        card.residual if np.isfinite(card.residual) else None,
        _codes(card),
        str(card),
        round(time.process_time() - begin, 2),
    )


def compare(card: Card, entry: Entry) -> tuple[str, str]:
    """How the card is right, or else why it is wrong."""
    if entry.expected is None:
        if card.exact:
            return "", f"it should be no encoding of ours, and the card says {card.encoding!r}"
        if not any(entry.unknown in text for text in card.unknown):
            return "", f"the card should say {entry.unknown!r}"
        return "unknown", ""
    if card.encoding is None:
        return "", f"it is {entry.expected!r}, and the card finds no encoding"
    if _codes(card) != tuple(sorted(entry.deviations)):
        told = ", ".join(entry.deviations) or "none"
        return "", f"deviations should be {told}, and are {', '.join(_codes(card)) or 'none'}"
    right = _same(card, entry.expected)
    return right, "" if right else f"it is {entry.expected!r}, and the card says {card.encoding!r}"


def _codes(card: Card) -> tuple[str, ...]:
    return tuple(sorted(f.code for f in card.deviations if f.severity == "error"))


def _same(card: Card, expected: Encoding) -> str:
    """How the card names ``expected``, or "" if it does not."""
    found = card.encoding
    assert found is not None
    if isinstance(found, T5Bias) and isinstance(expected, T5Bias):
        # Buckets show no table; a bias was checked against the one that it was built with.
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
    """Whether both are lists of frequencies, which a measurement gives up to its uncertainty."""
    lists = (getattr(e, "scaling", None) for e in (found, expected))
    return all(isinstance(scaling, GivenFrequencies) for scaling in lists)


def _one_map(found: Encoding, expected: Encoding, surface: str) -> bool:
    """Whether one value conforms to the other, by the judge of everybody else's functions."""
    call: Any
    if surface in ("apply", "cos_sin", "frequencies"):
        call, surface = found.apply, "apply"  # type: ignore[attr-defined]
    elif surface == "table":
        call = found.table  # type: ignore[attr-defined]
    elif surface == "bucket":
        call = found.bucket  # type: ignore[attr-defined]
    else:
        return False
    one = Implementation(call=call, surface=surface, name="the card's encoding")
    return check(one, expected).passed
