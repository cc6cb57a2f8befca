"""The classes that have a JSON form, by kind (the keys of ``CLASSES``) and class name."""

from __future__ import annotations

import importlib
from typing import Any

from ._lazy import MODULES

#: The module of each public name.
_OURS = MODULES["posenc_ref"]
#: The classes whose modules have been imported; :func:`find` and :func:`classes` import the rest.
CLASSES: dict[str, dict[str, type[Any]]] = {
    "encoding": {},
    "scaling": {},
    "query_scale": {},
    "model": {},
    "positions": {},
    "convolution": {},
    "attention": {},
}


def register(kind: str, cls: type[Any]) -> None:
    """Add a class under its own name; a later class of the same name replaces it.

    A class of ``posenc_ref`` never replaces one of a user: which of them is imported first depends
    on the program.
    """
    name = cls.__name__
    if cls.__module__ == f"posenc_ref.{_OURS.get(name)}":
        CLASSES[kind].setdefault(name, cls)
    else:
        CLASSES[kind][name] = cls


def find(kind: str, name: str) -> type[Any] | None:
    """Return the class of this kind and name, or None; only its own module is imported."""
    if name not in CLASSES[kind] and name in _OURS:
        importlib.import_module(f"posenc_ref.{_OURS[name]}")
    return CLASSES[kind].get(name)


def classes(kind: str) -> dict[str, type[Any]]:
    """Return all classes of this kind by name, those of users too."""
    for module in dict.fromkeys(_OURS.values()):
        importlib.import_module(f"posenc_ref.{module}")
    return CLASSES[kind]
