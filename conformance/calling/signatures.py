"""The signatures of functions, also of those that a compiler or a wrapper hides."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

_OPEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
#: Where ``functools.wraps``, ``torch.jit.script`` and ``np.vectorize`` keep the function inside.
_INSIDE = ("__wrapped__", "_torchdynamo_inline", "pyfunc")


def inner(function: Any, *outside: Any) -> Any:
    """Return the function that a wrapper or a compiled function has inside, or the function itself.

    A wrapper ``f(*args, **kwargs)`` that does not name it has it in its closure, as the only
    function there.  ``outside`` are the wrappers around ``function``; a loop of them ends here.
    """
    if any(function is wrapper for wrapper in outside):
        return function
    if inspect.isclass(function) or hasattr(function, "__signature__"):
        return function
    if inspect.ismethod(function):
        inside = inner(function.__func__, *outside, function)
        changed = inspect.isfunction(inside) and inside is not function.__func__
        return types.MethodType(inside, function.__self__) if changed else function
    for name in _INSIDE:
        if callable(inside := getattr(function, name, None)):
            return inner(inside, *outside, function)
    if not inspect.isfunction(function) or _named(inspect.signature(function)):
        return function
    held = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
    inside = [value for value in held if is_function(value)]
    return inner(inside[0], *outside, function) if len(inside) == 1 else function


def is_function(target: Any) -> bool:
    """Return whether ``target`` is called as a function; objects with a ``forward`` are not."""
    plain = inspect.isroutine(target) or isinstance(target, functools.partial)
    if plain or inspect.isclass(target) or not callable(target):
        return bool(plain)
    return hasattr(target, "schema") or any(callable(getattr(target, n, None)) for n in _INSIDE)


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function, or that of the function inside.

    A wrapper ``f(*args)`` without keywords takes the parameters of the function inside by position
    alone.

    Raises
    ------
    TypeError, ValueError
        The function has no readable signature.
    """
    if isinstance(function, functools.partial):

        def whole(*args: Any) -> None:
            """Stand for the function, with its signature."""

        whole.__signature__ = signature_of(function.func)  # type: ignore[attr-defined]
        return inspect.signature(functools.partial(whole, *function.args, **function.keywords))
    if (schema := getattr(function, "schema", None)) is not None and inner(function) is function:
        return _of_schema(schema)
    inside = inner(function)
    found = inspect.signature(inside)
    if inside is function or inspect.isclass(function):
        return found
    try:
        outside = inspect.signature(function, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):
        return found
    kinds = {p.kind for p in outside}
    if kinds != {inspect.Parameter.VAR_POSITIONAL}:
        return found
    placed = [
        p.replace(kind=inspect.Parameter.POSITIONAL_ONLY)
        for p in found.parameters.values()
        if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    return found.replace(parameters=placed)


def takes_anything(function: Callable[..., Any]) -> bool:
    """Return whether nothing is known about the parameters: they are ``*args`` alone."""
    signature = signature_of(function)
    return not _named(signature) and any(
        p.kind is inspect.Parameter.VAR_POSITIONAL for p in signature.parameters.values()
    )


def with_parameters(function: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """Return a function ``f(*args)`` with required parameters of these names, by position."""

    def call(*args: Any) -> Any:
        return function(*args)

    kind = inspect.Parameter.POSITIONAL_ONLY
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, kind) for name in names]
    )
    return call


def _named(signature: inspect.Signature) -> bool:
    return any(p.kind not in _OPEN for p in signature.parameters.values()) or not (
        signature.parameters
    )


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _of_schema(schema: Any) -> inspect.Signature:
    """Return the signature that a compiled TorchScript function or method states."""
    found = []
    for argument in schema.arguments:
        if argument.name == "self":
            continue
        default = inspect.Parameter.empty
        if argument.has_default_value():
            default = argument.default_value
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        found.append(inspect.Parameter(argument.name, kind, default=default))
    return inspect.Signature(found)
