"""Find which elements of several results lie at the same place in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def written_last(results: Sequence[Any]) -> np.ndarray | None:
    """Return, for every element of the results in turn, the last element at its place in memory.

    Elements are numbered through all results. The return value is None if no two results share
    memory, or if an array does not say where it lies.
    """
    found = []
    for one in results:
        if (places := _addresses(one)) is None:
            return None
        found.append(places.ravel())
    every = np.concatenate(found) if found else np.zeros(0)
    unique, last, inverse = np.unique(every[::-1], return_index=True, return_inverse=True)
    if unique.size == every.size:
        return None
    return np.asarray(every.size - 1 - last[inverse[::-1]])


def _addresses(array: Any) -> np.ndarray | None:
    """Return the address of every element of an array of NumPy or PyTorch."""
    if isinstance(array, np.ndarray):
        start, steps = array.__array_interface__["data"][0], array.strides
    elif hasattr(array, "data_ptr") and hasattr(array, "element_size"):
        start = array.data_ptr()
        steps = tuple(n * array.element_size() for n in array.stride())
    else:
        return None
    places = np.asarray(start)
    for n, step in zip(array.shape, steps, strict=True):
        places = places[..., None] + step * np.arange(n)
    return places
