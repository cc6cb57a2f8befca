"""Find out which arrays a function takes, and convert those that no backend has."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from posenc_ref.backends import backend as backend_named
from posenc_ref.conformance.harness.foreign import Refused, refusals

from .signatures import inner


@dataclass(frozen=True)
class Library:
    """The arrays that a function takes, and the backend that makes them for the judge."""

    name: str
    backend: str
    convert: str = ""  #: "module:function" from NumPy; empty: the backend makes the arrays itself

    def array(self, values: np.ndarray, dtype: str = "float32") -> Any:
        """Return ``values`` as an array of the library."""
        if not self.convert:
            return backend_named(self.backend).asarray(values, dtype, None)
        module, _, name = self.convert.partition(":")
        return getattr(importlib.import_module(module), name)(np.array(values, order="C"))

    def wrapped(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``call`` for the backend's arrays, with converted arguments and results."""
        if not self.convert:
            return call

        def made(value: Any) -> Any:
            return self.array(value) if isinstance(value, np.ndarray) else value

        @functools.wraps(call)
        def converted(*args: Any, **named: Any) -> Any:
            return _host(call(*map(made, args), **{n: made(v) for n, v in named.items()}))

        return converted


#: Every library by the name of its module; the second is tried where the first cannot be used.
LIBRARIES = {
    "numpy": Library("numpy", "numpy"),
    "torch": Library("torch", "torch"),
    "jax": Library("jax", "jax"),
    "cupy": Library("cupy", "cupy"),
    "mlx": Library("mlx", "numpy", "mlx.core:array"),
    "keras": Library("keras", "numpy", "keras.ops:convert_to_tensor"),
    "tensorflow": Library("tensorflow", "numpy", "tensorflow:convert_to_tensor"),
}
_ALSO = {"flax": "jax", "equinox": "jax", "jaxtyping": "jax"}


def libraries_of(target: Any) -> list[Library]:
    """Return the libraries whose arrays ``target`` may take, the most likely first."""
    found: dict[str, None] = {}
    with suppress(Refused), refusals():  # attributes of foreign objects may raise anything
        for root in _roots(target):
            found[root] = None
    every = [
        LIBRARIES[_ALSO.get(root, root)] for root in found if _ALSO.get(root, root) in LIBRARIES
    ]
    return list(dict.fromkeys([*every, LIBRARIES["numpy"]]))


def _roots(target: Any) -> Iterator[str]:
    """Yield the modules of a class, those that the code names, then those of its file."""
    owner = target if inspect.isclass(target) else getattr(target, "__self__", target)
    kind = owner if inspect.isclass(owner) else type(owner)
    for base in kind.__mro__ if not inspect.isroutine(owner) else ():
        yield base.__module__.partition(".")[0]
    function = getattr(target, "func", target)  # functools.partial
    function = inner(function) if callable(function) else function
    for cell in getattr(function, "__closure__", None) or ():
        if isinstance(cell.cell_contents, ModuleType):
            yield cell.cell_contents.__name__.partition(".")[0]
    scope = getattr(function, "__globals__", None)
    if scope is None:
        scope = vars(sys.modules.get(kind.__module__, ModuleType("none")))
    codes = [getattr(f, "__code__", None) for f in (function, *vars(kind).values())]
    used = [name for code in codes if isinstance(code, CodeType) for name in _names(code)]
    named = [scope[name] for name in used if name in scope]
    modules = [value for value in scope.values() if isinstance(value, ModuleType)]
    for value in [*named, *modules, *scope.values()]:
        module = value.__name__ if isinstance(value, ModuleType) else _module_of(value)
        yield module.partition(".")[0]


def _module_of(value: Any) -> str:
    module = None
    with suppress(Refused), refusals():
        module = getattr(value, "__module__", None)
    return module if isinstance(module, str) else ""


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inside in code.co_consts:
        if isinstance(inside, CodeType):
            yield from _names(inside)


def dtype_for(cls: type) -> Any:
    """Return float32 of the library that a class uses, for constructors that take a dtype."""
    name = libraries_of(cls)[0].name
    module = {"jax": "jax.numpy", "mlx": "mlx.core"}.get(name, name)
    return getattr(importlib.import_module(module), "float32", "float32")


def _host(value: Any) -> Any:
    """Return arrays of a converted library as NumPy arrays, inside tuples too."""
    if isinstance(value, tuple | list):
        return type(value)(_host(part) for part in value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if hasattr(value, "detach"):  # Keras on PyTorch
        value = value.detach().cpu()
    return np.array(value)


def backend_of(value: Any) -> str:
    """Return the backend of a result; that of a list or number is NumPy."""
    if isinstance(value, tuple | list) and value:
        return backend_of(value[0])
    root = type(value).__module__.partition(".")[0]
    return "jax" if root in ("jax", "jaxlib") else root if root in ("torch", "cupy") else "numpy"
