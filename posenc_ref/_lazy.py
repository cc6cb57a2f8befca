"""Packages whose names are imported when they are first used."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Mapping
from typing import Any

#: For every package, the module of each public name.
MODULES: dict[str, Mapping[str, str]] = {}


class _Package(types.ModuleType):
    """A package that imports its public names, and its modules, at their first use."""

    def __getattr__(self, name: str) -> Any:
        if name in (modules := MODULES[self.__name__]):
            module = importlib.import_module(f"{self.__name__}.{modules[name]}")
            value = getattr(module, name)
            setattr(self, name, value)
            return value
        if name.isidentifier() and not name.startswith("_"):
            try:  # importing the module also binds its name
                return importlib.import_module(f"{self.__name__}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{self.__name__}.{name}":
                    raise
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        # The import system binds every module to its name; a public name may be that of a module.
        if not (name in MODULES[self.__name__] and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *MODULES[self.__name__]})


def serve(package: str, modules: Mapping[str, str]) -> None:
    """Let a package import its public names when they are first used.

    Parameters
    ----------
    package : str
        The ``__name__`` of the package that calls this.
    modules : mapping
        The module of each public name, below the package. Type checkers read imports under
        ``TYPE_CHECKING`` instead.
    """
    MODULES[package] = modules
    sys.modules[package].__class__ = _Package
