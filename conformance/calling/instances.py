"""Make objects of classes, and find the method of an object that does the work."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from .facts import Facts
from .libraries import dtype_for
from .roles import Unbound

#: Names of methods that rotate, and of functions and methods that make tables.
ROTATES = re.compile(r"(apply|rotate|rope|rotary)", re.IGNORECASE)
MAKES_TABLES = re.compile(
    r"(freqs|cos|sin|rope|rotary|rot_|pos(itional)?_?emb|embed|angles|cache|precompute|table)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class MethodOf:
    """A method of a class that is still to be instantiated."""

    owner: type
    name: str

    @property
    def __name__(self) -> str:
        return f"{self.owner.__name__}.{self.name}"


def make(cls: type, facts: Facts) -> Any:
    """Return an object of ``cls``, made from what is known.

    Raises
    ------
    Unbound
        A required parameter of the constructor has no known value, or the constructor fails.
    """
    also = {"dtype": dtype_for(cls), "device": "cpu"}
    try:
        made = cls(**facts.arguments(cls, also, tuple(also)))
    except Unbound as error:
        raise Unbound(f"{cls.__name__}: {error}; give it with --init NAME=VALUE") from None
    except Exception as error:
        raise Unbound(
            f"{cls.__name__}({facts.described(cls)}) raises {type(error).__name__}: {error}; "
            "change an argument with --init NAME=VALUE"
        ) from error
    return made.eval() if hasattr(made, "eval") and hasattr(made, "parameters") else made


def main_call(instance: Any) -> Callable[..., Any] | None:
    """Return the method that an object of a framework defines as its call, or None."""
    kind = type(instance)
    for name in ("forward", "call", "__call__"):
        own = getattr(kind, name, None)
        module = getattr(own, "__module__", "") or ""
        if inspect.isfunction(own) and not module.startswith(("torch.", "keras.", "flax.")):
            return getattr(instance, name)  # type: ignore[no-any-return]
    return None


def methods(instance: Any, names: re.Pattern[str]) -> Iterator[Callable[..., Any]]:
    """Yield the methods that the object's own class defines under such names."""
    for name, value in vars(type(instance)).items():
        plain = value.__func__ if isinstance(value, staticmethod) else value
        private = name.startswith("__") or name in ("forward", "call")
        if inspect.isfunction(plain) and names.search(name) and not private:
            yield getattr(instance, name)


def candidates(scope: Mapping[str, Any], target: Any) -> Iterator[Any]:
    """Yield classes and functions of a file that may make tables for ``target``, likely ones first.

    Names that share a beginning with the target's file-mates come first; so do classes.
    """
    module = scope.get("__name__")
    name = getattr(target, "__name__", "")
    found = []
    for own, value in scope.items():
        if value is target or isinstance(value, ModuleType) or own.startswith("__"):
            continue
        if getattr(value, "__module__", None) != module or not MAKES_TABLES.search(own):
            continue
        if inspect.isclass(value) or inspect.isfunction(value):
            found.append((own, value))
    words = set(re.findall("[a-z]+", name.lower()))

    def rank(item: tuple[str, Any]) -> tuple[int, bool]:
        shared = len(words & set(re.findall("[a-z]+", item[0].lower())))
        return -shared, not inspect.isclass(item[1])

    yield from (value for _, value in sorted(found, key=rank))
