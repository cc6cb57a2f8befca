"""Frequency schedules of rotary encodings: how ``base ** (-2k/d)`` is changed for long context."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from posenc_ref import _validate as validate
from posenc_ref._namespace import is_array, to_host
from posenc_ref._text import shown
from posenc_ref.angles import decimal_context, geometric
from posenc_ref.encoding import Scaling


class FrequencySchedule(Scaling, abstract=True):
    """Base class of frequency schedules, which define the frequencies and the attention factor."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check the arguments of a subclass's methods before its formula sees them."""
        super().__init_subclass__(**kwargs)
        own = vars(cls)
        if "schedule" in own:
            cls.schedule = _checked_schedule(own["schedule"])  # type: ignore[method-assign]
        if "magnitude" in own:
            cls.magnitude = _checked_magnitude(own["magnitude"])  # type: ignore[method-assign]

    def schedule(self, base: float, rotary_dim: int, seq_len: int | None) -> tuple[Decimal, ...]:
        """Return frequencies in radians per position, 50-digit decimal, one per channel pair."""
        raise NotImplementedError(f"{type(self).__name__} defines no schedule")

    def magnitude(self, seq_len: int | None) -> float:
        """Return the attention factor m on cos and sin (logits get m squared)."""
        return 1.0

    @property
    def depends_on_length(self) -> bool:
        """Whether frequencies or m change with the length of the sequence."""
        return False


def _checked_schedule(formula: Callable[..., tuple[Decimal, ...]]) -> Any:
    @functools.wraps(formula)
    def schedule(
        self: FrequencySchedule, base: float, rotary_dim: int, seq_len: int | None
    ) -> tuple[Decimal, ...]:
        base = validate.real("base", base, above=0.0)
        rotary_dim = validate.size("rotary_dim", rotary_dim, minimum=2)
        return formula(self, base, rotary_dim, validate.length_of(seq_len))

    return schedule


def _checked_magnitude(formula: Callable[..., float]) -> Any:
    @functools.wraps(formula)
    def magnitude(self: FrequencySchedule, seq_len: int | None) -> float:
        return formula(self, validate.length_of(seq_len))

    return magnitude


def clip(value: Decimal) -> Decimal:
    """Return ``value`` clipped to [0, 1]."""
    return min(max(value, Decimal(0)), Decimal(1))


@functools.lru_cache(maxsize=256)
def standard_schedule(base: float, rotary_dim: int) -> tuple[Decimal, ...]:
    """Return plain RoPE's ``base ** (-2k / rotary_dim)``, k = 0 .. rotary_dim/2 - 1."""
    with decimal_context():
        exponents = [Decimal(2 * k) / rotary_dim for k in range(rotary_dim // 2)]
    return geometric(base, exponents)


def real_tuple(
    name: str, values: Any, *, above: float | None = None, maximum: float | None = None
) -> tuple[float, ...]:
    """Return ``values``, a sequence or an array with one axis, as a tuple of finite floats."""
    if is_array(values):
        values = to_host(values).tolist()
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise TypeError(f"{name} must be a sequence of numbers, got {shown(values)}")
    if not values:
        raise ValueError(f"{name} must have one number for each channel pair, got none")
    return tuple(
        validate.real(f"{name}[{k}]", x, above=above, maximum=maximum) for k, x in enumerate(values)
    )
