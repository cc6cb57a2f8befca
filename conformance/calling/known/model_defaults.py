"""Values that a model in the same file has for parameters which nothing states."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable
from typing import Any

from posenc_ref.conformance.calling.roles import role_of
from posenc_ref.conformance.calling.signatures import signature_of


def model_default(
    function: Callable[..., Any], name: str, role: str | None
) -> tuple[Any, str] | None:
    """Return the default of a parameter in the model that uses a function, and its name, or None.

    The model is a class of the same file whose code calls the function; of several, that whose
    constructor has the most parameters.  In it, a parameter of the same name comes before one of
    the same role.
    """
    try:
        models = _models(function)
    except TypeError:  # it cannot be hashed
        return None
    for own, known in models:
        if name in known:
            return known[name], own
        for other, value in known.items():
            if role is not None and role_of(other) == role:
                return value, own
    return None


@functools.lru_cache(maxsize=64)
def _models(function: Callable[..., Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the classes of the file that call a function, with their defaults, largest first."""
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    called = getattr(function, "__name__", "")
    found: list[tuple[int, str, dict[str, Any]]] = []
    if module is None or not called:
        return []
    for own, value in vars(module).items():
        if not inspect.isclass(value) or value is function or value.__module__ != module.__name__:
            continue
        try:
            every, code = signature_of(value).parameters, inspect.getsource(value)
        except (OSError, TypeError, ValueError):
            continue
        if not re.search(rf"\b{re.escape(called)}\(", code):
            continue
        known = {
            n: p.default
            for n, p in every.items()
            if p.default is not p.empty and p.default is not None
        }
        found.append((-len(every), own, known))
    return [model[1:] for model in sorted(found, key=lambda model: model[:2])]
