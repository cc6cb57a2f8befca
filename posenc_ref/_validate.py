"""Argument checks. Every message states the argument, the allowed values and the value given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._namespace import FLOATING, Array, class_of, dtype_name, is_array

#: The most heads, and the most channels of a head or a table: their 50-digit numbers take seconds.
MAX_SIZE = 2**16
#: The largest integer: float64 represents all integers up to it.
MAX_INTEGER = 2**53
#: The largest factor of a distance: a product of two of them with a distance is finite.
MAX_FACTOR = 2.0**400
#: The smallest divisor of a distance, for the same reason.
MIN_FACTOR = 2.0**-400
#: The most elements of a result, 32 GiB in float64.
MAX_ELEMENTS = 2**32


def integer(
    name: str,
    value: Any,
    *,
    minimum: int | None = None,
    maximum: int = MAX_INTEGER,
    why: str = "",
) -> int:
    """Return ``value`` as a Python int; raise TypeError for bools and floats.

    Its absolute value must be at most ``maximum``.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    number = int(value)
    long = number.bit_length() > 64
    if long or abs(number) > maximum:
        shown = f"an integer of {number.bit_length()} bits" if long else number
        if number < 0 and minimum is not None:
            raise ValueError(f"{name} must be at least {minimum}{why}, got {shown}")
        less = "" if minimum is not None else " in absolute value"
        raise ValueError(f"{name} must be at most {maximum}{less}, got {shown}")
    if minimum is not None and number < minimum:
        raise ValueError(f"{name} must be at least {minimum}{why}, got {number}")
    return number


def size(name: str, value: Any, *, minimum: int = 1) -> int:
    """Return a number of heads or channels; raise unless it is in ``minimum`` .. ``MAX_SIZE``."""
    return integer(name, value, minimum=minimum, maximum=MAX_SIZE)


def elements(what: str, shape: Sequence[int], instead: str = "") -> None:
    """Raise ValueError if an array of ``shape`` has more than ``MAX_ELEMENTS`` elements."""
    if math.prod(shape) > MAX_ELEMENTS:
        raise ValueError(
            f"{what} must have at most {MAX_ELEMENTS} elements, got shape "
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
        raise TypeError(f"{name} must be a real number, got {value!r}")
    try:
        number = float(value) + 0.0  # -0.0 equals 0.0, but would hash apart
    except OverflowError:  # an integer beyond the floats, too long to be shown
        raise ValueError(f"{name} must be finite, got an integer too large for a float") from None
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {value!r}")
    if above is not None and not number > above:
        raise ValueError(f"{name} must be greater than {above:g}, got {value!r}")
    if minimum is not None and not number >= minimum:
        raise ValueError(f"{name} must be at least {minimum:g}, got {value!r}")
    if maximum is not None and abs(number) > maximum:
        less = " in absolute value" if number < 0 else ""
        raise ValueError(f"{name} must be at most {maximum:g}{less}, got {value!r}")
    return number


def boolean(name: str, value: Any) -> bool:
    """Return ``value`` as a Python bool; raise TypeError for 0 and 1."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def choice(
    name: str, value: Any, allowed: Sequence[Any], aliases: Mapping[str, Any] | None = None
) -> Any:
    """Return ``value``; raise ValueError unless it is one of ``allowed``.

    The message suggests the nearest allowed value.  ``aliases`` maps names in other libraries to
    allowed values, for that suggestion only.
    """
    if any(value == a and type(value) is type(a) for a in allowed):
        return value
    listed = ", ".join(repr(a) for a in allowed)
    hint = ""
    if isinstance(value, str):
        import difflib  # only errors need it

        known = (aliases or {}).get(value.lower())
        near = difflib.get_close_matches(value.lower(), [a for a in allowed if isinstance(a, str)])
        if known is not None:
            hint = f"; use {known!r}, which some libraries call {value!r}"
        elif near:
            hint = f"; did you mean {near[0]!r}?"
    raise ValueError(f"{name} must be one of {listed}, got {value!r}{hint}")


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
