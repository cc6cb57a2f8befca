"""Values that a model in the same file has for parameters which nothing states."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

from posenc_ref.conformance.calling.roles import role_of
from posenc_ref.conformance.calling.signatures import signature_of


def model_default(
    function: Callable[..., Any], name: str, role: str | None
) -> tuple[Any, str] | None:
    """Return the default of a parameter in the model of the file, and the model's name, or None.

    The model is the class whose constructor has the most parameters.  A parameter of the same name
    comes before one of the same role.
    """
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    models: list[tuple[int, str, dict[str, Any]]] = []
    if module is None:
        return None
    for own, value in vars(module).items():
        if not inspect.isclass(value) or value is function or value.__module__ != module.__name__:
            continue
        try:
            every = signature_of(value).parameters
        except (TypeError, ValueError):
            continue
        known = {
            n: p.default
            for n, p in every.items()
            if p.default is not p.empty and p.default is not None
        }
        models.append((-len(every), own, known))
    for _, own, known in sorted(models, key=lambda model: model[:2]):
        if name in known:
            return known[name], own
    for _, own, known in sorted(models, key=lambda model: model[:2]) if role else ():
        for other, value in known.items():
            if role_of(other) == role:
                return value, own
    return None
