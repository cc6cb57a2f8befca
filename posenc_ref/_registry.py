"""The classes that have a JSON form, by kind (the keys of ``CLASSES``) and class name."""

from __future__ import annotations

from typing import Any

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
    """Add a class under its own name; a later class of the same name replaces it."""
    CLASSES[kind][cls.__name__] = cls
