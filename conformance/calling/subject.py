"""What is to be bound, with everything that is known about it."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posenc_ref import Encoding, RoPE
from posenc_ref.backends import backend as backend_named
from posenc_ref.conformance.harness.implementation import Implementation

from .facts import Facts
from .instances import ROTATES, Made, MethodOf, made_for, main_call, methods, objects_of
from .libraries import Library
from .roles import Unbound, required_roles
from .signatures import inner, is_function, signature_of
from .trial import SIZES, Refusals


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
    refusals: Refusals = field(default_factory=Refusals)
    #: The tables found for a function, with what failed: several conventions ask for them.
    sources: dict[Any, Any] = field(default_factory=dict)

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
    made: Made | None = None  #: its object, if that was made here

    @functools.cached_property
    def signature(self) -> Mapping[str, inspect.Parameter]:
        """Return the parameters of the function."""
        return signature_of(self.function).parameters

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


def name_of(target: Any) -> str:
    """Return the name of a function, a class or an object's class; for compiled ones, inside."""
    named = inner(target) if is_function(target) else getattr(target, "_orig_mod", target)
    return str(getattr(named, "__qualname__", type(named).__name__))


def subjects_of(request: Request, facts: Facts, dim: int) -> Iterator[Subject]:
    """Yield the functions that a target may mean: itself, its call, or one of its methods."""
    target = request.target
    limit: int | None = None
    text = name_of(target)
    method = target.name if isinstance(target, MethodOf) else None
    cls = target.owner if isinstance(target, MethodOf) else target
    if is_function(target):
        made = [Made(None, text)]
    elif inspect.isclass(cls):
        try:
            made = list(objects_of(cls, facts, request.axes))
            for each in made:
                request.remember(each.owner)
            limit = made_for(cls, facts) if made[0].again is None else None
        except Unbound as error:
            request.tried.append(str(error))
            return
    else:
        made = [Made(target, text)]
    for each in made:
        found = [(target, text)] if each.owner is None else list(_calls(each, method))
        if not found:
            request.tried.append(f"{text} has no forward, call, __call__ or method that rotates")
        for function, words in found:
            try:
                signature_of(function)
            except (TypeError, ValueError):
                request.tried.append(
                    f"{words} has no readable signature; wrap it in def f(x, positions)"
                )
                continue
            owner = each.owner if each.owner is not None else getattr(target, "__self__", None)
            yield Subject(
                function, owner, words, _scope(function, owner), facts, dim, request, limit=limit,
                made=each,
            )  # fmt: skip


def _calls(made: Made, method: str | None) -> Iterator[tuple[Callable[..., Any], str]]:
    """Yield the calls of an object and their descriptions: all that may rotate, or one method."""
    owner, text = made.owner, made.words
    if method is not None:
        yield getattr(owner, method), f"{text}.{method}"
        return
    main = main_call(owner)
    if main is not None:
        yield calling(owner, main), text
    for other in methods(owner, ROTATES):
        needed = required_roles(other)
        if "config" not in needed or needed & {"x", "query"}:  # else it makes parameters
            yield other, f"{text}.{other.__name__}"


def _scope(function: Callable[..., Any], owner: Any) -> Mapping[str, Any]:
    """Return the names of the file that defines a function, or its object's class."""
    plain = inner(getattr(function, "func", function))
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


def same_call(owner: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the call of another object that ``function`` is of its own: its method or its call."""
    main = main_call(owner)
    name = function.__name__
    if main is not None and name == main.__name__:
        return calling(owner, main)
    return getattr(owner, name)  # type: ignore[no-any-return]
