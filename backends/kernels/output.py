"""Check the arrays given as ``out``, and make new ones."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc_ref._namespace import Array, dtype_name, is_array, library
from posenc_ref._text import shown

#: What NumPy may try to find an element that two arrays share, before they count as overlapping.
_MOST_WORK = 10_000


def checked_like(out: Any, x: Array, name: str = "x") -> Any:
    """Return ``out``; raise if a result like ``x``, called ``name``, cannot be written into it."""
    if type(out) is type(x) is np.ndarray and out.shape == x.shape and out.dtype == x.dtype:
        flags = out.flags
        if flags.c_contiguous and flags.writeable:
            return out
    if not is_array(out) or library(out) != library(x):
        raise TypeError(f"out must be an array like {name}, got {type(out).__name__}")
    if tuple(out.shape) != tuple(x.shape) or out.dtype != x.dtype:
        order = dtype_name(out) == dtype_name(x)
        raise ValueError(
            f"out must have {name}'s shape {tuple(x.shape)} and dtype {dtype_name(x)}, got "
            f"{tuple(out.shape)} and {out.dtype if order else dtype_name(out)}"
        )
    if isinstance(out, np.ndarray):
        flags = out.flags
        _check_writeable(flags)
        if flags.c_contiguous:
            return out
        if out.size and out.strides[-1] != out.itemsize:
            raise ValueError("out must be contiguous along its last axis, got other strides")
        _check_overlap(out.shape, out.strides, False, out.itemsize)
    elif library(out) == "torch":
        _check_overlap(out.shape, out.stride(), out.is_contiguous(), 1)
    elif library(out) == "cupy":
        _check_overlap(out.shape, out.strides, False, out.itemsize)
    return out


def checked_pair(out: Any, q: Array, k: Array) -> tuple[Any, Any]:
    """Return ``out`` as a pair, for q and for k; raise if writing one would destroy the other."""
    for_q, for_k = as_pair(out)
    for one, other in ((for_q, k), (for_k, q), (for_q, for_k)):
        if share_memory(one, other, _MOST_WORK, unknown=False):
            raise ValueError(
                "out must be two arrays that share no memory; the first must share none with k and "
                "the second none with q, or one result is lost"
            )
    return for_q, for_k


def as_pair(out: Any) -> Any:
    """Return ``out``; raise unless it is a tuple or a list of two."""
    if not isinstance(out, tuple | list) or len(out) != 2:
        raise TypeError(f"out must be a pair, for q and for k, got {type(out).__name__}")
    return out


def share_memory(a: Any, b: Any, work: int = 0, *, unknown: bool = True) -> bool:
    """Return whether two arrays of one library share memory.

    Without ``work``, only the first and last addresses are compared.  With more of it, arrays that
    lie between each other's elements are told apart.  ``unknown`` is the answer for arrays without
    an address.
    """
    one, two = _memory(a), _memory(b)
    if one is None or two is None:
        return unknown
    return np.may_share_memory(one, two, work)  # type: ignore[arg-type,unused-ignore]


def _memory(x: Any) -> np.ndarray | None:
    """Return a NumPy array at the addresses of x, not to be read; None if x has no address."""
    if isinstance(x, np.ndarray):
        return x
    if hasattr(x, "data_ptr"):
        address = None if x.is_meta else x.data_ptr()
        item = x.element_size() if address else 0
        strides = tuple([item * step for step in x.stride()])
    else:
        address = getattr(getattr(x, "data", None), "ptr", None)
        item, strides = (x.itemsize, x.strides) if address else (0, ())
    if not address:
        return None
    there = {"version": 3, "data": (int(address), True), "typestr": f"|V{item}",
             "shape": tuple(x.shape), "strides": strides}  # fmt: skip
    return np.asarray(types.SimpleNamespace(__array_interface__=there))


def checked_shape(out: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return ``out``; raise unless it is a NumPy float array of this shape (and of ``dtype``)."""
    arrays = (np.ndarray, np.memmap)
    if not isinstance(out, arrays) or type(out) not in arrays or dtype_name(out) not in _FLOATS:
        hint = "; for a tensor on the CPU, pass tensor.numpy()" if library(out) == "torch" else ""
        raise TypeError(f"out must be a NumPy array of floats, got {type(out).__name__}{hint}")
    if out.shape != shape:
        raise ValueError(f"out must have shape {shape}, got {out.shape}")
    if dtype is not None and out.dtype != _numpy_dtype(dtype):
        raise ValueError(f"out must have the dtype given as dtype=, {dtype}, got {out.dtype}")
    _check_writeable(out.flags)
    _check_overlap(out.shape, out.strides, out.flags.c_contiguous, out.itemsize)
    return out


def foreign_library(positions: Any, out: Any) -> str:
    """Return the library of the positions, or an empty string if they are on the host."""
    if not is_array(positions) or library(positions) == "numpy":
        return ""
    if out is not None:
        raise TypeError(
            f"out cannot be given for positions of {library(positions)}: the result stays in that "
            "library"
        )
    return library(positions)


def empty_floats(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return an uninitialised array of floats; float64 unless ``dtype`` is given."""
    return np.empty(shape, np.dtype(np.float64) if dtype is None else _numpy_dtype(dtype))


def _numpy_dtype(dtype: Any) -> np.dtype:
    found: np.dtype | None
    try:
        found = np.dtype(dtype)
    except (TypeError, ValueError, RecursionError):  # text that is no dtype, a list of lists
        found = None
    if found is None or dtype_name(found) not in _FLOATS:
        raise TypeError(
            f"dtype must be one of NumPy's {', '.join(_FLOATS)} (bfloat16 after import ml_dtypes), "
            f"got {shown(dtype)}"
        )
    return found


_FLOATS = ("float64", "float32", "float16", "bfloat16")


def _check_overlap(
    shape: Sequence[int], strides: Sequence[int], contiguous: bool, one: int
) -> None:
    """Raise if two elements of the array share memory.

    ``one`` is the size of an element, in the unit of the strides.  Sort the axes by stride: no
    elements overlap if each stride is at least the memory that all axes of smaller strides span.
    """
    if contiguous or 0 in shape:
        return
    reach = one
    for step, size in sorted((abs(t), n) for n, t in zip(shape, strides, strict=True) if n > 1):
        if step < reach:
            raise ValueError(
                f"out must not overlap itself, as broadcast arrays do, got shape {tuple(shape)} "
                f"with strides {tuple(strides)}"
            )
        reach = step * (size - 1) + reach


def _check_writeable(flags: Any) -> None:
    if not flags.writeable:
        raise ValueError("out must be writeable, got a read-only array")
