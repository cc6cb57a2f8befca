"""The numbers by which the elements of a result are told apart."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .record import MEMORY, Record

#: The factors by which sizes and indices are divided.
FACTORS = (2, 3, 4, 8, 16, 32, 64, 128)
#: The letter of the size of each axis.
LETTERS = {
    "batch row": "B", "head": "H", "token": "S", "query": "Q", "key": "K", "row": "rows",
    "layer": "layers", "pair": "pairs", "key head": "H_kv", "group": "H / H_kv",
}  # fmt: skip
#: The axes of tokens.
TOKENS = ("token", "query", "key", "row")

#: What a feature is about: (kind, axis). The value is an integer for every element.
Name = tuple[str, str]


def features(record: Record) -> dict[Name, np.ndarray]:
    """Return the features of a record, each broadcastable to its elements; they are kept in it."""
    if not record.features:
        record.features.update(_made(record))
    return record.features


def _made(record: Record) -> dict[Name, np.ndarray]:
    found = dict(_of_call(record)) | dict(_of_elements(record))
    if not record.gone:
        return found
    return {
        name: value
        for name, value in found.items()
        if value.ndim == 0 or all(value.shape[d] == 1 for d in record.gone)
    }


def _of_call(record: Record) -> Iterator[tuple[Name, np.ndarray]]:
    call, shape = record.call, record.shape
    sizes = dict(zip(record.axes, shape, strict=True))
    if call is not None and call.sizes is not None and not record.whole:
        sizes |= dict(zip(record.axes[-len(call.sizes) :], call.sizes, strict=False))
    elif not record.whole:
        sizes = {axis: n for axis, n in sizes.items() if axis not in TOKENS}
    if call is not None and call.heads is not None and "head" in sizes:
        heads, key_heads = call.heads
        sizes |= {"head": heads, "key head": key_heads, "group": heads // max(key_heads, 1)}
    for axis, n in sizes.items():
        yield ("size", axis), np.array(n)
    if call is not None:
        yield ("call", ""), np.array(call.number)
        yield ("fresh", ""), np.array(int(call.fresh))
        yield ("memory", ""), np.array(MEMORY.index(call.memory))
        if call.positions is not None:  # of several axes, those that are the same on all are 1-D
            apart = call.positions.ndim > 2 and (call.positions != call.positions[:1]).any()
            yield ("apart", ""), np.array(int(apart))
    at = record.positions
    if at is not None and at.size and record.whole:
        rows = np.atleast_2d(at)
        yield ("own rows", ""), np.array(int(at.ndim == 2))
        yield ("first position", ""), rows[:, 0].min()
        yield ("consecutive", ""), np.array(int((np.diff(rows) == 1).all()))
        yield ("fractional", ""), np.array(int((rows != np.floor(rows)).any()))
        if at.dtype.kind in "iu":
            yield ("int32", ""), np.array(int(at.dtype.itemsize == 4))


def _of_elements(record: Record) -> Iterator[tuple[Name, np.ndarray]]:
    shape, axes = record.shape, record.axes
    for d, (axis, n) in enumerate(zip(axes, shape, strict=True)):
        if axis in TOKENS and not record.whole:
            continue
        i = _along(np.arange(n), d, len(shape))
        yield ("index", axis), i
        yield ("from end", axis), n - 1 - i
        if axis in TOKENS or axis == "head":
            for factor in FACTORS[2:]:
                left = n % factor
                yield (f"remainder {factor}", axis), ((i >= n - left) & (left > 0)).astype(int)
    if "query" in axes and "key" in axes:
        q, k = axes.index("query"), axes.index("key")
        offset = shape[k] - shape[q]
        distance = (
            _along(np.arange(shape[q]), q, len(shape))
            + offset
            - _along(np.arange(shape[k]), k, len(shape))
        )
        yield ("position", "query"), _along(np.arange(shape[q]), q, len(shape)) + offset
        yield ("distance", ""), distance
        yield ("far", ""), np.abs(distance)
    at = record.positions
    if at is not None and axes[-1] in ("token", "row"):
        at = at.astype(np.float64)
        lines = (at.shape[0], at.shape[1]) if at.ndim == 2 else (1, at.size)  # (B, S) or (S,)
        if len(shape) > 1:
            at = at.reshape(lines[0], *[1] * (len(shape) - 2), lines[1])
        yield ("position", ""), at


def _along(values: np.ndarray, axis: int, ndim: int) -> np.ndarray:
    """Return ``values`` along one of ``ndim`` axes."""
    return values.reshape([-1 if d == axis else 1 for d in range(ndim)])
