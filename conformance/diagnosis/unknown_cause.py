"""Report failures of unknown cause by their place: which rows, heads, tokens and calls."""

from __future__ import annotations

from collections.abc import Sequence

from posenc_ref.conformance.harness.located.locate import Place
from posenc_ref.conformance.harness.located.remedy import where_to_look
from posenc_ref.conformance.harness.run import Run

from .match import failed
from .mistake import JudgedCall

#: The code of a failure whose rule is about elements along one axis only.
_CODES = {"batch row": "row-offset", "head": "position-axis", "token": "wrong-row"}


def name_place(run: Run, seen: Sequence[JudgedCall], otherwise: str, message: str) -> None:
    """Report where the calls are wrong; the code is ``otherwise`` unless the place tells it."""
    wrong = failed(run, seen)
    if wrong:
        code = code_of(run.located()) or otherwise
        evidence = f"{len(wrong)} of {len(seen)} calls, {wrong[0].case} first"
        remedy = where_to_look(run.located())
        run.add(code, f"{message}{run.where(extent=True)}", evidence, remedy=remedy)


def code_of(place: Place | None) -> str:
    """Return the code of a place with one rule, about one axis; empty otherwise."""
    if place is None or len(place.rules) != 1:
        return ""
    axes = {atom.name[1] for atom in place.rules[0].atoms if not atom.of_call}
    return _CODES.get(axes.pop(), "") if len(axes) == 1 else ""
