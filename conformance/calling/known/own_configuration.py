"""The configuration that a class takes if nothing is declared: the defaults of its own model."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from posenc_ref.conformance.calling.roles import role_of
from posenc_ref.conformance.calling.signatures import signature_of

from .configuration import annotated_class, entry_of, head_of, made_as
from .model_defaults import model_default


def own_configuration(
    function: Callable[..., Any], parameter: str, given: Mapping[str, Any]
) -> tuple[Any, str] | None:
    """Return the configuration with default values for a parameter, and its words, or None.

    Its class annotates the parameter, or is one of the file.  A part of it, such as
    ``text_config``, is as likely: the first that has most of what the code reads is returned.
    """
    read = _entries_read(function, parameter)
    found = list(_candidates(function, parameter, given))
    lacking = [sum(entry_of(made, name) is None for name in read) for made, _ in found]
    return found[lacking.index(min(lacking))] if found else None


def layer_types_of(made: Any) -> list[str]:
    """Return the types of layers that a configuration has other parameters of a rotation for."""
    found = entry_of(made, "rope_parameters")
    nested = isinstance(found, Mapping) and all(isinstance(v, Mapping) for v in found.values())
    return list(found) if nested and found else []


def head_sizes(function: Any, given: Mapping[str, Any]) -> Iterator[int]:
    """Yield the sizes of heads that the models of a function or of a class have by default."""
    if not callable(function):
        return
    with suppress(TypeError, ValueError):  # no signature
        for name in signature_of(function).parameters:
            if name in given:
                continue
            if role_of(name) == "config" and (own := own_configuration(function, name, given)):
                size = head_of(own[0])
                yield from () if size is None else (size,)
            elif role_of(name) == "head_dim" and (
                known := model_default(function, name, "head_dim")
            ):
                yield known[0]


def _candidates(
    function: Callable[..., Any], parameter: str, given: Mapping[str, Any]
) -> Iterator[tuple[Any, str]]:
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    scope = vars(module) if module is not None else {}
    own = [v for n, v in scope.items() if n.endswith("Config") and inspect.isclass(v)]
    name = getattr(function, "__name__", "")
    own.sort(key=lambda cls: not name.startswith(cls.__name__.removesuffix("Config")))
    annotated = annotated_class(function, parameter)
    text = ", ".join(f"{entry}={value!r}" for entry, value in given.items())
    for cls in dict.fromkeys((annotated, *own) if annotated is not None else own):
        made = made_as(cls, given)
        if made is None:
            continue
        words = f"{cls.__name__}({text})"
        yield made, words
        for part, value in list(vars(made).items()):
            if part.endswith("_config") and hasattr(value, "__dict__"):
                yield value, f"{words}.{part}"


def _entries_read(function: Callable[..., Any], parameter: str) -> set[str]:
    """Return the entries of a configuration that the code of a class or a function reads."""
    try:
        code = inspect.getsource(function)
    except (OSError, TypeError):
        return set()
    return set(re.findall(rf"\b{parameter}\.(\w+)", code))
