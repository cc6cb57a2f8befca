"""Argument checks. Every message states the argument, the allowed values and the value given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._namespace import FLOATING, Array, class_of, dtype_name, is_array
from ._text import in_full, near, shown
from .limits import ELEMENTS, INTEGER, SIZE


def integer(
    name: str,
    value: Any,
    *,
    minimum: int | None = None,
    maximum: int = INTEGER,
    why: str = "",
) -> int:
    """Return ``value`` as a Python int; raise TypeError for bools and floats.

    Its absolute value must be at most ``maximum``.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer, got {shown(value)}")
    number = int(value)
    long = number.bit_length() > 64
    if long or abs(number) > maximum:
        what = f"an integer of {number.bit_length()} bits" if long else number
        if number < 0 and minimum is not None:
            raise ValueError(f"{name} must be at least {minimum}{why}, got {what}")
        less = "" if minimum is not None else " in absolute value"
        raise ValueError(f"{name} must be at most {maximum}{less}, got {what}")
    if minimum is not None and number < minimum:
        raise ValueError(f"{name} must be at least {minimum}{why}, got {number}")
    return number


def size(name: str, value: Any, *, minimum: int = 1) -> int:
    """Return a number of heads or channels; raise unless it is in ``minimum`` .. 65536."""
    return integer(name, value, minimum=minimum, maximum=SIZE)


def length_of(seq_len: int | None) -> int | None:
    """Return a checked length of a sequence, or None."""
    return None if seq_len is None else integer("seq_len", seq_len, minimum=1)


def elements(what: str, shape: Sequence[int], instead: str = "") -> None:
    """Raise ValueError if an array of ``shape`` has more than 2**32 elements."""
    if math.prod(shape) > ELEMENTS:
        raise ValueError(
            f"{what} must have at most {ELEMENTS} elements, got shape "
            f"({', '.join(map(str, shape))}); {instead or 'make it in parts'}"
        )


def real(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
) -> float:
    """Return ``value`` as a Python float; raise unless it is finite and within the limits.

    It must be greater than ``above``, at least ``minimum`` and at most ``maximum`` in absolute
    value, where they are given.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name} must be a real number, got {shown(value)}")
    try:
        number = float(value) + 0.0  # -0.0 equals 0.0, but would hash apart
    except OverflowError:  # an integer beyond the floats, too long to be shown
        raise ValueError(f"{name} must be finite, got an integer too large for a float") from None
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {shown(value)}")
    if above is not None and not number > above:
        raise ValueError(f"{name} must be greater than {above:g}, got {shown(value)}")
    if minimum is not None and not number >= minimum:
        raise ValueError(f"{name} must be at least {minimum:g}, got {shown(value)}")
    if maximum is not None and abs(number) > maximum:
        less = " in absolute value" if number < 0 else ""
        raise ValueError(f"{name} must be at most {in_full(maximum)}{less}, got {shown(value)}")
    return number


def boolean(name: str, value: Any) -> bool:
    """Return ``value`` as a Python bool; raise TypeError for 0 and 1."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def choice(
    name: str, value: Any, allowed: Sequence[Any], aliases: Mapping[str, Any] | None = None
) -> Any:
    """Return ``value``; raise ValueError unless it is one of ``allowed``.

    The message suggests the nearest allowed value.  ``aliases`` maps names in other libraries to
    allowed values, for that suggestion only.
    """
    if any(type(value) is type(a) and value == a for a in allowed):
        return value
    listed = ", ".join(repr(a) for a in allowed)
    hint = ""
    if isinstance(value, str):
        known = (aliases or {}).get(value.lower())
        similar = near(value.lower(), [a for a in allowed if isinstance(a, str)])
        if known is not None:
            hint = f"; use {known!r}, which some libraries call {shown(value)}"
        elif similar:
            hint = f"; did you mean {similar[0]!r}?"
    raise ValueError(f"{name} must be one of {listed}, got {shown(value)}{hint}")


def check_x(x: Array, dim: int, what: str) -> None:
    """Check that ``x`` is a real floating array of shape (..., S, dim)."""
    if not is_array(x):
        raise TypeError(f"x must be an array, got {class_of(x)}")
    if type(x).__name__ == "DTensor":
        raise TypeError(
            "x must be the local tensor of this process, got a DTensor: pass x.to_local() and the "
            "positions of its tokens, then wrap the result with DTensor.from_local"
        )
    if dtype_name(x) not in FLOATING:
        raise TypeError(f"x must have a real floating dtype, got {dtype_name(x)}; cast it first")
    if x.ndim < 2 or x.shape[-1] != dim:
        raise ValueError(
            f"x must have shape (..., S, {what}) with {what} = {dim}, got {tuple(x.shape)}"
        )
