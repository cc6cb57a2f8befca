"""A function to be bound, with everything that is known about it."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref import Encoding, RoPE, Rotary, XPos
from posenc_ref.backends import backend as backend_named
from posenc_ref.conformance.harness.implementation import Implementation

from .facts import Facts
from .instances import ROTATES, MethodOf, main_call, make, methods
from .libraries import Library
from .roles import Unbound


@dataclass(frozen=True)
class Subject:
    """A function to be bound, and everything that is known about it."""

    function: Callable[..., Any]
    owner: Any  #: the object that it is a method of, or None
    facts: Facts
    words: str
    encoding: Encoding | None
    scope: dict[str, Any]  #: the names of its file
    table: Any  #: the object that the user names for its tables, or None
    head_dims: tuple[int, ...]
    part: tuple[int, int] | None
    axes: int
    dtype: str
    layout: str | None

    @property
    def rotary(self) -> Rotary | None:
        """Return the declared rotation, or None."""
        found = self.encoding
        return found if isinstance(found, Rotary) and not isinstance(found, XPos) else None

    @functools.cached_property
    def signature(self) -> Mapping[str, inspect.Parameter]:
        """Return the parameters of the function."""
        return inspect.signature(self.function).parameters


def subjects_of(
    target: Any, facts: Facts, encoding: Encoding | None, table: Any, sizes: tuple[int, ...],
    axes: int, dtype: str, layout: str | None, tried: list[str],
) -> Iterator[Subject]:  # fmt: skip
    """Yield the functions that ``target`` may mean: itself, its call, or one of its methods."""
    part = None
    if isinstance(encoding, RoPE) and encoding.rotary_dim not in (None, encoding.head_dim):
        part = (encoding.rotary_start, encoding.rotary_start + (encoding.rotary_dim or 0))
    owner: Any = None
    text = getattr(target, "__qualname__", type(target).__name__)
    found: list[tuple[Callable[..., Any], str]] = []
    method = target.name if isinstance(target, MethodOf) else None
    cls = target.owner if isinstance(target, MethodOf) else target
    if inspect.isclass(cls):
        try:
            owner, text = make(cls, facts), f"{cls.__name__}({facts.described(cls)})"
        except Unbound as error:
            tried.append(str(error))
            return
    elif not inspect.isroutine(target) and not isinstance(target, functools.partial):
        owner = target
    if method is not None:
        found = [(getattr(owner, method), f"{text}.{method}")]
    elif owner is None:
        found = [(target, text)]
        owner = getattr(target, "__self__", None)
    else:
        main = main_call(owner)
        found = [] if main is None else [(calling(owner, main), text)]
        found += [
            (m, f"{text}.{m.__name__}") for m in methods(owner, ROTATES) if m.__name__ != "forward"
        ]
        if not found:
            tried.append(f"{text} has no forward, call, __call__ or method that rotates")
    for function, words in found:
        plain = inspect.unwrap(getattr(function, "func", function))
        scope = getattr(plain, "__globals__", None) or getattr(
            sys.modules.get(getattr(plain, "__module__", "") or ""), "__dict__", {}
        )
        if owner is not None and not scope:
            scope = vars(sys.modules[type(owner).__module__])
        try:
            inspect.signature(function)
        except (TypeError, ValueError):
            tried.append(f"{words} has no signature that Python can read")
            continue
        yield Subject(
            function, owner, facts, words, encoding, scope, table, sizes, part, axes, dtype, layout
        )


def calling(owner: Any, main: Callable[..., Any]) -> Callable[..., Any]:
    """Return the object itself, which may do more than its ``forward``, with that signature."""
    if not callable(owner) or main.__name__ == "__call__":
        return main

    @functools.wraps(main)
    def call(*args: Any, **kwargs: Any) -> Any:
        return owner(*args, **kwargs)

    return call


def like_x(library: Library, dtype: str, dim: int) -> Any:
    """Return an array of the library, such as x, for calls that need one."""
    made = backend_named(library.backend)
    return made.asarray(np.zeros((1, 1, 1, dim)), dtype, None)


def implementation(
    subject: Subject, library: Library, call: Callable[..., Any], surface: str, layout: str,
    dim: int, words: str,
) -> Implementation:  # fmt: skip
    """Return a bound call as an implementation; ``words`` say how it is called."""
    return Implementation(
        call,
        surface,
        subject.words,
        subject.encoding,
        backend=library.backend,
        tensor_layout=layout,
        head_dim=dim if surface in ("apply", "apply_qk") else None,
        axes=subject.axes,
        how=words,
    )
