"""A bounded cache of values that are expensive to make."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from .guard import Guard


class Kept:
    """A cache of the last ``size`` values that were used; threads may share it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[Any, Any] = OrderedDict()
        self._guard = Guard()

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> list[Any]:
        """Return the values, the least recently used first."""
        with self._guard.lock:
            return list(self._values.values())

    def get(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return the value of ``key``; call ``make`` if there is none.

        Two threads may both call ``make``: no lock is held while it runs.
        """
        with self._guard.lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        made = make()
        with self._guard.lock:
            self._values[key] = made
            while len(self._values) > self._size:
                self._values.popitem(last=False)
        return made
