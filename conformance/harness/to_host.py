"""Convert the learned arrays of a declaration to NumPy, which the judges use."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import numpy as np

from posenc_ref._namespace import is_array, to_host
from posenc_ref.encoding import Value

T = TypeVar("T")


def on_host(value: T) -> T:
    """Return the declaration with its learned arrays in NumPy, or itself if they already are."""
    return _moved(value)  # type: ignore[no-any-return]


def _moved(value: Any) -> Any:
    if isinstance(value, Value):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}  # type: ignore[arg-type]
        moved = {name: _moved(old) for name, old in fields.items()}
        changed = {name: new for name, new in moved.items() if new is not fields[name]}
        return value.replace(**changed) if changed else value
    if isinstance(value, tuple):
        moved_items = tuple(_moved(item) for item in value)
        same = all(new is old for new, old in zip(moved_items, value, strict=True))
        return value if same else moved_items
    if is_array(value) and not isinstance(value, np.ndarray):
        return to_host(value)
    return value
