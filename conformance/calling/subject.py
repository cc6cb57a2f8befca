"""What is to be bound, with everything that is known about it."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref import Encoding, RoPE
from posenc_ref.backends import backend as backend_named
from posenc_ref.conformance.harness.implementation import Implementation

from .facts import Facts
from .instances import ROTATES, MethodOf, made_for, main_call, make, methods
from .libraries import Library
from .roles import Unbound
from .trial import SIZES


@dataclass(frozen=True)
class Request:
    """The arguments of :func:`bind`, and what failed so far."""

    target: Any
    encoding: Encoding | None
    surface: str | None
    table: Any
    init: Mapping[str, Any]
    config: Mapping[str, Any]
    signature: str | None
    tensor_layout: str | None
    backend: str | None
    dtype: str
    axes: int
    tried: list[str]
    #: The objects that were made for trials, with copies of their state before any call.
    made: list[tuple[Any, dict[str, Any]]]

    @property
    def part(self) -> tuple[int, int] | None:
        """Return the rotated channels if they are a part of the head."""
        e = self.encoding
        if not isinstance(e, RoPE) or e.rotary_dim in (None, e.head_dim):
            return None
        return e.rotary_start, e.rotary_start + (e.rotary_dim or 0)

    def remember(self, owner: Any) -> None:
        """Keep the state of an object that no call has changed yet, if it can be copied."""
        with suppress(Exception):  # whatever a copy of the user's values raises
            self.made.append((owner, copy.deepcopy(vars(owner), {id(owner): owner})))

    def restore(self) -> None:
        """Put the objects of all trials back to the state before their first call."""
        for owner, before in self.made:
            vars(owner).clear()
            vars(owner).update(before)


@dataclass(frozen=True)
class Subject:
    """A function to be bound."""

    function: Callable[..., Any]
    owner: Any  #: the object that it is a method of, or None
    words: str  #: its name, with the arguments of its object's constructor
    scope: Mapping[str, Any]  #: the names of its file
    facts: Facts
    dim: int  #: the size of a head, or of a row
    request: Request
    sizes: tuple[int, int, int] = SIZES[0]  #: batch, heads and tokens of trial inputs
    limit: int | None = None  #: the number of positions that its object was made for

    @functools.cached_property
    def signature(self) -> Mapping[str, inspect.Parameter]:
        """Return the parameters of the function."""
        return inspect.signature(self.function).parameters

    def like_x(self, library: Library) -> Any:
        """Return an array of the library, such as x, for calls that need one."""
        made = backend_named(library.backend)
        return made.asarray(np.zeros((1, 1, 1, self.dim)), self.request.dtype, None)

    def implementation(
        self, library: Library, call: Callable[..., Any], surface: str, layout: str, how: str
    ) -> Implementation:
        """Return a bound call as an implementation; ``how`` says how it is called."""
        return Implementation(
            call,
            surface,
            self.words,
            self.request.encoding,
            backend=library.backend,
            tensor_layout=layout,
            head_dim=self.dim if surface in ("apply", "apply_qk") else None,
            axes=self.request.axes,
            how=how,
        )


def subjects_of(request: Request, facts: Facts, dim: int) -> Iterator[Subject]:
    """Yield the functions that a target may mean: itself, its call, or one of its methods."""
    target = request.target
    owner: Any = None
    limit: int | None = None
    text = getattr(target, "__qualname__", type(target).__name__)
    method = target.name if isinstance(target, MethodOf) else None
    cls = target.owner if isinstance(target, MethodOf) else target
    if inspect.isclass(cls):
        try:
            owner, text = make(cls, facts), f"{cls.__name__}({facts.described(cls)})"
            request.remember(owner)
            limit = made_for(cls, facts)
        except Unbound as error:
            request.tried.append(str(error))
            return
    elif not inspect.isroutine(target) and not isinstance(target, functools.partial):
        owner = target
    found: list[tuple[Callable[..., Any], str]]
    if method is not None:
        found = [(getattr(owner, method), f"{text}.{method}")]
    elif owner is None:
        found, owner = [(target, text)], getattr(target, "__self__", None)
    else:
        main = main_call(owner)
        found = [] if main is None else [(calling(owner, main), text)]
        found += [(m, f"{text}.{m.__name__}") for m in methods(owner, ROTATES)]
        if not found:
            request.tried.append(f"{text} has no forward, call, __call__ or method that rotates")
    for function, words in found:
        try:
            inspect.signature(function)
        except (TypeError, ValueError):
            request.tried.append(
                f"{words} has no readable signature; wrap it in def f(x, positions)"
            )
            continue
        yield Subject(
            function, owner, words, _scope(function, owner), facts, dim, request, limit=limit
        )


def _scope(function: Callable[..., Any], owner: Any) -> Mapping[str, Any]:
    """Return the names of the file that defines a function, or its object's class."""
    plain = inspect.unwrap(getattr(function, "func", function))
    plain = getattr(plain, "__func__", plain)
    if hasattr(plain, "__globals__"):
        return plain.__globals__  # type: ignore[no-any-return]
    module = sys.modules.get(type(owner).__module__ if owner is not None else plain.__module__)
    return vars(module) if module is not None else {}


def calling(owner: Any, main: Callable[..., Any]) -> Callable[..., Any]:
    """Return the object itself, which may do more than its ``forward``, with that signature."""
    if not callable(owner) or main.__name__ == "__call__":
        return main

    @functools.wraps(main)
    def call(*args: Any, **kwargs: Any) -> Any:
        return owner(*args, **kwargs)

    return call
