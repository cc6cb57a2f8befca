"""Array checks and array operations that several encodings share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import _validate as validate
from ._namespace import (
    FLOATING,
    INTEGER,
    Array,
    astype,
    class_of,
    device_of,
    dtype_name,
    extremes,
    from_host,
    is_array,
    is_lazy,
    library,
    namespace,
    send,
    to_host,
)


def check_numbers(name: str, value: Any, *shape: str | int) -> Array:
    """Return ``value``; raise unless it is a floating array whose shape fits ``shape``.

    A letter in ``shape`` stands for any size above 0.
    """
    shown = f"({', '.join(map(str, shape))})"
    if not is_array(value) or dtype_name(value) not in FLOATING:
        raise TypeError(
            f"{name} must be a real floating array of shape {shown}, got {_kind(value)}"
        )
    sizes = tuple(value.shape)
    fits = len(sizes) == len(shape) and all(
        n > 0 and (isinstance(s, str) or n == s) for n, s in zip(sizes, shape, strict=True)
    )
    if fits:
        validate.elements(name, sizes)
    else:
        empty = ", not empty" if 0 in sizes else ""
        raise ValueError(f"{name} must have shape {shown}{empty}, got {sizes}")
    return value


def real_numbers(name: str, value: Any, shape: str) -> np.ndarray:
    """Return a float64 copy of an array of integers or floats; ``shape`` is for the message."""
    if not is_array(value):
        raise TypeError(f"{name} must be an array {shape}, got {class_of(value)}")
    if dtype_name(value) not in FLOATING + INTEGER:
        raise TypeError(f"{name} must have integers or real floats, got {dtype_name(value)}")
    validate.elements(name, tuple(value.shape))
    return np.array(to_host(value), dtype=np.float64)


def _kind(value: Any) -> str:
    return dtype_name(value) if is_array(value) else class_of(value)


def check_queries_and_keys(q: Array, k: Array) -> None:
    """Check that q (..., Q, d) and k (..., K, d) have floating dtypes and share a library.

    The shapes must agree in every axis except Q and K.
    """
    for name, x in (("q", q), ("k", k)):
        if not is_array(x) or dtype_name(x) not in FLOATING:
            raise TypeError(f"{name} must be a real floating array, got {_kind(x)}")
        if not x.ndim or x.shape[-1] == 0:
            raise ValueError(f"{name} must have at least one channel, got shape {tuple(x.shape)}")
    if library(q) != library(k):
        raise TypeError(f"q and k must share a library, got {library(q)} and {library(k)}")
    if q.ndim < 2 or k.ndim < 2 or q.shape[-1] != k.shape[-1] or q.shape[:-2] != k.shape[:-2]:
        raise ValueError(
            f"q and k must have shapes (..., Q, d) and (..., K, d), equal except for Q and K, "
            f"got {tuple(q.shape)} and {tuple(k.shape)}"
        )
    validate.elements("the logits", (*q.shape[:-1], k.shape[-2]), "pass fewer queries per call")


def check_counts(q: Array, k: Array, at: tuple[int, int], batch: int | None) -> None:
    """Check that q and k have one row for each position; ``at`` is (number for q, number for k).

    For positions (B, Q), ``batch`` is B, which must be 1 or the size of q's first axis.
    """
    if at != (q.shape[-2], k.shape[-2]):
        raise ValueError(
            f"q_positions and k_positions must have one position for each row of q and k, "
            f"{q.shape[-2]} and {k.shape[-2]}, got {at[0]} and {at[1]}"
        )
    if batch is not None and (q.ndim < 4 or batch not in (1, q.shape[0])):
        raise ValueError(
            f"q_positions of shape (B, Q) need q of shape (B, ..., H, Q, d), got B = {batch} and "
            f"q of shape {tuple(q.shape)}"
        )


def check_scale(scale: Any) -> Any:
    """Return the factor on ``q . k``: a number, or an array without axes, which may be traced."""
    if isinstance(scale, int | float | np.number) or not is_array(scale):
        return validate.real("scale", scale)
    if scale.ndim or dtype_name(scale) not in FLOATING:
        raise TypeError(
            f"scale must be a real number, got {dtype_name(scale)} of shape {tuple(scale.shape)}"
        )
    return scale


def check_place(name: str, array: Array, other: str, x: Array) -> None:
    """Check that ``array`` is a NumPy array, or shares the library and device of ``x``."""
    ours, theirs = library(array), library(x)
    if ours == "numpy":
        return
    if ours != theirs:
        raise TypeError(
            f"{name} are a {ours} array but {other} is a {theirs} array: "
            f"pass {name} as a NumPy array or as a {theirs} array"
        )
    here, there = device_of(array), device_of(x)
    if here is not None and there is not None and here != there:
        raise ValueError(
            f"{name} are on device {here} but {other} is on device {there}: "
            f"move {name} to {there}, or pass them as a NumPy array"
        )


def check_mask(mask: Any, q: Array, shape: tuple[int, ...]) -> None:
    """Raise unless ``mask`` is an array of bool beside ``q`` that broadcasts to ``shape``."""
    if not is_array(mask) or dtype_name(mask) != "bool":
        raise TypeError(f"mask must be an array of bool, got {class_of(mask)}")
    check_place("mask", mask, "q", q)
    sizes = zip(mask.shape[::-1], shape[::-1], strict=False)
    if mask.ndim > len(shape) or any(n not in (1, whole) for n, whole in sizes):
        raise ValueError(
            f"mask must be broadcastable to (..., H, Q, K) = {tuple(shape)}, got "
            f"{tuple(mask.shape)}"
        )


def like(name: str, numbers: Array, x: Array) -> Array:
    """Return learned ``numbers`` on x's device and in x's dtype; raise if x has another library."""
    if isinstance(numbers, np.ndarray):
        return astype(send(numbers, namespace(x), device_of(x)), x.dtype)
    if library(numbers) != library(x):
        raise TypeError(f"{name} is a {library(numbers)} array but q is a {library(x)} array")
    return astype(numbers, x.dtype)


def product(a: Array, b: Array) -> Array:
    """Return ``a b^T`` (..., S, R) of a (..., S, d) and b (..., R, d)."""
    xp = namespace(a)
    return xp.matmul(a, xp.matrix_transpose(b))


def dot(q: Array, k: Array, scale: float, bias: Array | None = None) -> Array:
    """Return ``q k^T * scale + bias``, all in the dtype of ``q``."""
    logits = product(q, astype(k, q.dtype)) * scale
    return logits if bias is None else logits + astype(bias, q.dtype)


def gathered(x: Array, index: Array) -> Array:
    """Return ``x[..., i, index[i, j]]`` for x (..., Q, R) and integers index (Q, K), each < R."""
    xp, device = namespace(x), device_of(x)
    rows, columns = int(x.shape[-2]), int(x.shape[-1])
    first = columns * np.arange(rows)[:, None]
    if isinstance(index, np.ndarray):
        index = from_host(first + index, xp, device)
    else:
        index = index + astype(from_host(first, xp, device), index.dtype)
    flat = xp.reshape(x, (*x.shape[:-2], rows * columns))
    taken = xp.take(flat, xp.reshape(index, (-1,)), axis=-1)
    return xp.reshape(taken, (*x.shape[:-2], *index.shape))


def clip(r: Array, low: int, high: int) -> Array:
    """Return ``r`` clipped to ``low`` .. ``high``."""
    xp = namespace(r)
    return xp.minimum(xp.maximum(r, xp.full_like(r, low)), xp.full_like(r, high))


def lookup(name: str, table: Array, index: Array, *, of: str = "the rows of the table") -> Array:
    """Return ``table[index]`` for an integer index of any shape; raise if it is outside the table.

    ``of`` says in the message what the rows are.

    The range is checked first, because libraries treat an index outside the table differently:
    NumPy raises, CuPy wraps round, JAX fills with NaN, and in PyTorch a CUDA assert kills the
    process.  A traced or lazy index cannot be checked: outside the table it gives rows of NaN.
    """
    xp, device, (rows, width) = namespace(table), device_of(table), table.shape
    shape, lazy = tuple(index.shape), is_lazy(index)
    if 0 in shape:  # Dask cannot flatten nothing
        return xp.zeros((*shape, width), dtype=table.dtype, device=device)
    if not lazy:
        low, high = map(int, extremes(index))
        if low < 0 or high >= rows:
            raise ValueError(
                f"{name} must lie in 0 .. {rows - 1}, {of}, got {low if low < 0 else high}"
            )
    if isinstance(index, np.ndarray):
        index = from_host(index, xp, device)
    flat = xp.reshape(index, (math.prod(shape),))
    if lazy:
        inside = (flat >= 0) & (flat < rows)
        found = xp.take(table, xp.where(inside, flat, 0), axis=0)
        found = xp.where(inside[:, None], found, xp.nan)
    else:
        found = xp.take(table, flat, axis=0)
    return xp.reshape(found, (*shape, width))
