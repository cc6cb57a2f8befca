"""The configuration that a class takes if nothing is declared: the defaults of its own model."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from posenc_ref.conformance.calling.roles import role_of
from posenc_ref.conformance.calling.signatures import signature_of

from .configuration import annotated_class, entry_of, head_of, made_as
from .model_defaults import model_default

#: Configurations by their classes: making one may take long, or write a line.
_MADE: dict[type, Any] = {}


def own_configuration(
    function: Callable[..., Any], parameter: str, given: Mapping[str, Any]
) -> tuple[Any, str] | None:
    """Return the configuration with default values for a parameter, and its words, or None.

    Its class annotates the parameter, or has the longest beginning of the name in the same file.
    A part of it, such as ``text_config``, is as likely: the first one with most of what the code
    reads is returned.
    """
    try:
        read = _entries_read(function, parameter)
    except TypeError:  # it cannot be hashed
        read = frozenset()
    found = list(_candidates(function, parameter, given))
    lacking = [sum(not _has(made, name) for name in read) for made, _ in found]
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
    name = getattr(function, "__name__", "")
    own = {
        value: len(known)
        for known, value in scope.items()
        if known.endswith("Config")
        and inspect.isclass(value)
        and name.startswith(known.removesuffix("Config"))
    }
    annotated = annotated_class(function, parameter)
    every = sorted(own, key=own.__getitem__, reverse=True)
    for cls in dict.fromkeys((annotated, *every) if annotated is not None else every):
        made, taken = _default(cls, given)
        if made is None:
            continue
        words = f"{cls.__name__}({', '.join(f'{entry}={taken[entry]!r}' for entry in taken)})"
        yield made, words
        for part, value in list(getattr(made, "__dict__", {}).items()):
            if part.endswith("_config") and hasattr(value, "__dict__"):
                yield value, f"{words}.{part}"


def _default(cls: type, given: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """Return an object with default values, or None, and the given entries that it takes."""
    try:
        takes = signature_of(cls).parameters
    except (TypeError, ValueError):
        return None, {}
    taken = {name: value for name, value in given.items() if name in takes}
    if taken:
        return made_as(cls, taken), taken
    if cls not in _MADE:
        _MADE[cls] = made_as(cls, {})
    try:
        return copy.deepcopy(_MADE[cls]), taken
    except Exception:  # it cannot be copied
        return made_as(cls, {}), taken


def _has(made: Any, name: str) -> bool:
    try:
        return hasattr(made, name)
    except Exception:  # a property may raise anything
        return False


@functools.lru_cache(maxsize=64)
def _entries_read(function: Callable[..., Any], parameter: str) -> frozenset[str]:
    """Return the entries of a configuration that the code of a class or a function reads."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return frozenset()
    return frozenset(
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == parameter
    )
