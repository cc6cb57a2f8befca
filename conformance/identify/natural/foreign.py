"""Call a function of any library by the roles of its parameters, with NumPy arrays."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import GeneratorType
from typing import Any

import numpy as np

from posenc_ref._namespace import to_host
from posenc_ref.backends import backend as backend_named
from posenc_ref.conformance.calling.facts import Facts
from posenc_ref.conformance.calling.instances import main_call
from posenc_ref.conformance.calling.libraries import Library, libraries_of
from posenc_ref.conformance.calling.roles import required_roles, role_of
from posenc_ref.conformance.calling.signatures import is_function, signature_of
from posenc_ref.conformance.calling.size_order import stated_channels
from posenc_ref.conformance.calling.subject import calling, name_of
from posenc_ref.conformance.harness.foreign import Refused, refusals
from posenc_ref.conformance.harness.implementation import Implementation

from .owners import Owner

#: The parameters that get a value only if they have no default.
_OPTIONAL = ("dtype", "device", "scale", "factor", "base", "num_heads", "length")
#: The most arrays of a result.
_MOST = 4


@dataclass(frozen=True)
class Foreign:
    """A function with the library whose arrays it takes."""

    function: Callable[..., Any]
    library: Library
    facts: Facts
    name: str
    patch: int = 1  #: the side of a patch in pixels, if the object of the function states it
    least: int = 2  #: the fewest axes of an array that is part of a result
    turned: bool = False  #: whether a pair of sizes gets the other order than its names say
    words: str = ""  #: how its object was made
    channels: tuple[int, ...] = ()  #: the numbers of channels that its object states

    @property
    def roles(self) -> set[str | None]:
        """The roles of the parameters."""
        return {role_of(name) for name in signature_of(self.function).parameters}

    @property
    def required(self) -> set[str | None]:
        """The roles of the parameters without a default."""
        return required_roles(self.function)

    def __call__(self, spare: Any = None, /, **by_role: Any) -> tuple[np.ndarray, ...]:
        """Return the arrays of the result; ``spare`` is for the only unknown parameter.

        Raises
        ------
        Refused
            The function has other parameters, raises, or returns no arrays.
        """
        also = {role: self._given(value) for role, value in by_role.items()}
        only = tuple(role for role in _OPTIONAL if role not in also)
        like = self._given(np.zeros(1))
        also = {"dtype": like.dtype, "device": getattr(like, "device", "cpu"), **also}
        with refusals():
            arguments = self.facts.arguments(self.function, also, only, spare=self._given(spare))
            found = tuple(_arrays(self.function(**arguments), self.least))
            if not found or len(found) > _MOST:
                raise ValueError(f"expected 1 to {_MOST} arrays, got {len(found)}")
        return found

    def _given(self, value: Any) -> Any:
        """Return an array of the library; other values are passed as they are."""
        if not isinstance(value, np.ndarray):
            return value
        kind = "int64" if value.dtype.kind in "iu" else "float32"
        return self.library.array(value.astype(kind), kind)


def made_from(found: Implementation) -> Any:
    """Return what a bound function was made from, with the arguments given for it, or None."""
    bound = found.bound or {}
    if "target" not in bound or bound.get("table") is not None:
        return None
    return started(bound["target"], bound.get("init") or {})


def started(target: Any, init: Mapping[str, Any]) -> Any:
    """Return a function, or a class, with arguments."""
    return functools.partial(target, **init) if init else target


def copied(target: Any) -> Any:
    """Return a copy of an object, so that no call changes what later calls see, if it has one."""
    if is_function(target) or inspect.isclass(target):
        return target
    found = accepted(lambda: copy.deepcopy(target))
    return target if found is None else found


def foreigners(owner: Owner) -> Iterator[Foreign]:
    """Yield the call of a copy of what an owner has for each library that it may take."""
    target = copied(owner.value)
    name = name_of(target)
    if isinstance(target, functools.partial):
        function, near, name = _bare(target), target, name_of(target.func)
    elif is_function(target):
        function, near = target, getattr(target, "__self__", target)
    else:
        main, near = main_call(target), target
        if main is None:
            return
        function = calling(target, main)
    for library in libraries_of(near if near is not None else function):
        if backend_named(library.backend).missing() is None:
            patch = getattr(target, "patch_size", 1)
            if isinstance(patch, tuple | list) and len(set(patch[-2:])) == 1:
                patch = patch[-1]  # of frames, height and width
            known = patch if isinstance(patch, int) and patch > 0 else 1
            yield Foreign(
                function, library, owner.facts, name, known,
                words=owner.words, channels=tuple(stated_channels(target)),
            )  # fmt: skip


def _bare(given: functools.partial[Any]) -> Callable[..., Any]:
    """Return a function without the parameters that were given by name."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return given(*args, **kwargs)

    left = [p for n, p in signature_of(given).parameters.items() if n not in given.keywords]
    call.__signature__ = inspect.Signature(left)  # type: ignore[attr-defined]
    return call


def _arrays(raw: Any, least: int) -> Iterator[np.ndarray]:
    """Yield the arrays of a result, those of tuples, lists and generators one by one."""
    if isinstance(raw, tuple | list | GeneratorType):
        for part in raw:
            yield from _arrays(part, least)
    elif hasattr(raw, "shape") and len(raw.shape) >= least:
        yield np.asarray(to_host(raw.detach() if hasattr(raw, "detach") else raw))


def accepted(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or None if it is refused."""
    try:
        with refusals():
            return call()
    except Refused:
        return None
