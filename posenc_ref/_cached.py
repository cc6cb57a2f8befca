"""A cached property without a lock, which a forked process could find locked for ever."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

T = TypeVar("T")


class cached_property(functools.cached_property[T]):
    """``functools.cached_property`` as in Python 3.12: two threads may both compute the value.

    Python 3.11 holds a lock meanwhile, one for all instances of the class.
    """

    lock: Any

    def __init__(self, func: Callable[[Any], T]) -> None:
        super().__init__(func)
        self.lock = nullcontext()
