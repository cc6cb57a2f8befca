"""Say which required field of a dataclass is missing, and what it may be."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any


def lacking(cls: type[Any], given: Sequence[str]) -> list[str]:
    """Return the fields without a default that are not among the given ones."""
    fields = [f for f in dataclasses.fields(cls) if f.init and f.name not in given]
    none = dataclasses.MISSING
    return [f.name for f in fields if f.default is none and f.default_factory is none]


def allowed_values(cls: type[Any], name: str, given: Mapping[str, Any]) -> str:
    """Return ``: NAME must be ...``, by the check that the class makes of a field, or "".

    The message of the check is the only place that lists the values, so it is asked for: all
    missing fields get an object that no check accepts.
    """
    rest = dict.fromkeys(lacking(cls, [*given]), object())
    try:
        cls(**{**given, **rest})
    except Exception as error:
        text, got, _ = str(error).rpartition(", got ")
        return f": {text}" if got and text.startswith(f"{name} must be ") else ""
    return ""


if TYPE_CHECKING:
    Checked = type  # type checkers take the arguments of __init__
else:

    class Checked(type):
        """The metaclass of values: names a missing argument together with its allowed values."""

        @property
        def __signature__(cls) -> inspect.Signature:
            """Return the parameters of the constructor, which ``__call__`` would hide."""
            plain = inspect.signature(cls.__init__)
            return plain.replace(parameters=[*plain.parameters.values()][1:])

        def __call__(cls, *args: Any, **fields: Any) -> Any:
            """Return an instance; raise a TypeError that names a missing argument."""
            try:
                return super().__call__(*args, **fields)
            except TypeError:
                names = [f.name for f in dataclasses.fields(cls) if f.init and not f.kw_only]
                given = {**dict(zip(names, args, strict=False)), **fields}
                missing = lacking(cls, [*given])
                if not missing:
                    raise
                what = allowed_values(cls, missing[0], given)
            raise TypeError(f"{cls.__name__} needs the argument {missing[0]!r}{what}")
