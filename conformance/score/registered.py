"""What the modules of this folder know of single scores: formulas in steps, and own mistakes.

A module whose name ends in ``_formula``, ``_formulas`` or ``_mistakes`` is imported by itself: a
new score needs no other list.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from posenc_ref.conformance.diagnosis.steps import Steps
from posenc_ref.conformance.oracle.scores import Scored

from . import __name__ as folder
from . import __path__ as places
from .changed import Change
from .formula_parts import Terms

#: Return the terms of a call, in steps that a wrong implementation may compute differently.
Formula = Callable[[Scored, Steps], Terms]
#: Yield the mistakes that only this encoding allows, given the encoding.
Changes = Callable[[Any], Iterable[Change]]
_FORMULAS: dict[type, tuple[Formula, Callable[[Any], bool]]] = {}
_CHANGES: dict[type, Changes] = {}


def formula(
    cls: type, holds: Callable[[Any], bool] = lambda encoding: True
) -> Callable[[Formula], Formula]:
    """Return a decorator that registers the formula of those of a class for which it holds."""

    def registered(of: Formula) -> Formula:
        _FORMULAS[cls] = of, holds
        return of

    return registered


def mistakes(cls: type) -> Callable[[Changes], Changes]:
    """Return a decorator that registers the own mistakes of a class of encodings."""

    def registered(of: Changes) -> Changes:
        _CHANGES[cls] = of
        return of

    return registered


def formula_of(declared: Any) -> Formula | None:
    """Return the formula of the class of an encoding, or None if there is none here."""
    _load()
    found = (_FORMULAS[cls] for cls in type(declared).__mro__ if cls in _FORMULAS)
    return next((of for of, holds in found if holds(declared)), None)


def changes_of(declared: Any) -> Iterator[Change]:
    """Yield the own mistakes of an encoding, those of its class before those of its bases."""
    _load()
    for cls in type(declared).__mro__:
        if cls in _CHANGES:
            yield from _CHANGES[cls](declared)


def _load() -> None:
    for module in pkgutil.iter_modules(places):
        if module.name.endswith(("_formula", "_formulas", "_mistakes")):
            importlib.import_module(f"{folder}.{module.name}")
