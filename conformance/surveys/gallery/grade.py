"""Grade how well ``identify`` describes a function of a library whose encoding is declared."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from posenc_ref import Bias, Encoding, GivenFrequencies, MixedRoPE
from posenc_ref.conformance.adapters.library import LibraryFunction, functions, version
from posenc_ref.conformance.check import check
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.harness.report import Report
from posenc_ref.conformance.harness.signatures import SURFACES
from posenc_ref.conformance.identify.card import Card
from posenc_ref.conformance.identify.function import identify
from posenc_ref.conformance.surveys.record import Outcome

#: The grades, best first; the first three count as right.
GRADES = {
    "exact": "the card has the declared encoding, and says that the function conforms to it",
    "same": "the card has another encoding with the same numbers, and says that the function "
    "conforms to it",
    "described": "the function deviates from its declaration: it conforms to the encoding of the "
    "card, or the card has the declared encoding and the deviations that `check` finds",
    "wrong": "the card says something else",
    "none": "the card has no encoding",
}
RIGHT = ("exact", "same", "described")
#: The keys in the NDJSON, each with the field of :class:`Outcome`.
KEYS = {
    "function": "case", "library": "group", "version": "version", "surface": "surface",
    "declared": "encoding", "identified": "measured", "grade": "right", "same_numbers": "verdict",
    "deviations": "codes", "reason": "reason", "seconds": "seconds",
}  # fmt: skip


def grade_named(name: str) -> list[Outcome]:
    """Return the outcome of a function of the adapters; only its name goes to the process."""
    (function,) = [one for one in functions() if one.name == name]
    return [grade_function(function)]


def blank_of(name: str, reason: str = "") -> Outcome:
    """Return an outcome without a card: that of a function that could not be identified."""
    libraries = [one.library for one in functions() if one.name == name]
    installed = version(libraries[0]) if libraries else None
    return Outcome("library", case=name, version=installed or "", right="none", reason=reason)


def grade_function(function: LibraryFunction) -> Outcome:
    """Identify a function without its declaration, and grade the card."""
    built = function.make()
    declared: Any = function.expected if built.encoding is None else built.encoding
    undeclared = dataclasses.replace(built, encoding=None, name=function.name)
    begin = time.process_time()
    card = identify(undeclared, axes=built.axes)
    seconds = time.process_time() - begin
    judged = card.report  # the check against the declaration, if the card has the same encoding
    coarser = "precision" in card.facts
    if declared is not None and (judged is None or coarser or card.encoding != declared):
        judged = check(undeclared, declared)
    numbers = _same_numbers(card, declared, undeclared)
    grade, reason = graded(card, declared, judged, numbers)
    return blank_of(function.name, reason).replace(
        group=function.library,
        version=version(function.library) or "",
        surface=built.surface,
        encoding="" if declared is None else repr(declared),
        measured="" if not card.found else card.function or repr(card.encoding),
        right=grade,
        verdict=numbers,
        codes=() if judged is None else tuple(judged.codes),
        card=str(card),
        seconds=round(seconds, 1),
    )


def graded(card: Card, declared: Any, judged: Report | None, numbers: str) -> tuple[str, str]:
    """Return a grade, and why it is not right.

    ``judged`` is the check of the function against its declaration, and ``numbers`` the verdict on
    the card's encoding against the declared one.
    """
    if not card.found:
        return "none", "; ".join([*card.broken, *card.unknown])
    if declared is None or judged is None:
        return "wrong", f"nothing is declared, and the card has {card.verdict}"
    same = numbers == "conforms"
    if same and not card.rule and not _without_rule(declared):
        return "wrong", f"the card has no rule, but {declared!r} gives the frequencies"
    if judged.passed:
        if not card.exact:
            found = ", ".join(sorted({f.code for f in card.deviations}))
            return "wrong", f"the function conforms to its declaration; the card has: {found}"
        if card.encoding == declared:
            return "exact", ""
        if same or _alike(card.encoding, declared):  # both fit, up to the accuracy of the function
            return "same", ""
        return "wrong", "other numbers than those of the declaration"
    if card.exact and card.rule:
        return "described", ""
    found_codes = {f.code for f in card.deviations}
    found_codes |= {"dtype"} if "precision" in card.facts else set()  # it says the dtype of results
    if same and set(judged.codes) <= found_codes:
        return "described", ""
    return "wrong", f"the function deviates: {', '.join(judged.codes)}; the card: {card.verdict}"


def _alike(one: Any, other: Any) -> bool:
    """Return whether two encodings are of one class, and so are their scalings."""
    scalings = (type(getattr(e, "scaling", None)) for e in (one, other))
    return type(one) is type(other) and len(set(scalings)) == 1


def _without_rule(declared: Encoding) -> bool:
    """Return whether the declaration itself lists its frequencies."""
    scaling = getattr(declared, "scaling", None)
    return isinstance(declared, MixedRoPE) or isinstance(scaling, GivenFrequencies)


def _same_numbers(card: Card, declared: Any, fn: Implementation) -> str:
    """Return the verdict on the card's encoding in the place of the function.

    It takes the calls that the function takes, so that both are compared where the function is
    judged.
    """
    if card.encoding is None or declared is None:
        return "skipped"
    if card.encoding == declared:
        return "conforms"
    own = SURFACES[fn.surface].own(card.encoding, "float32")

    def call(*arguments: Any) -> Any:
        fn.call(*arguments)  # raises outside of its domain
        return own(*arguments)

    heads = card.encoding.num_heads if isinstance(card.encoding, Bias) else fn.num_heads
    stand_in = dataclasses.replace(fn, call=call, factory=None, num_heads=heads)
    try:
        return check(stand_in, declared).verdict
    except (TypeError, ValueError):  # the encodings are of different families
        return "deviates"
