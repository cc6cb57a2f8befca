"""The certificate of every encoding in the registry: its examples, near and far, in every dtype."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import posenc_ref
from posenc_ref.conformance.registry import entries

from .certificate_row import Row, dtypes
from .output import Output
from .recipe import numbers
from .reference import Entry

#: How far the far ones are; integers and fractions are mixed where both are allowed.
REACH = (20, 40)


def certify_registry(count: int) -> Iterator[Row]:
    """The rows of all entries; ``count`` positions of each far range."""
    for entry in entries():
        yield from certify_entry(entry, count)


def certify_entry(entry: Entry, count: int = 8) -> Iterator[Row]:
    """The rows of one entry: for every example and dtype, near as in its vectors, and far."""
    for name, e in entry.examples.items():
        near = [_call(e, case.inputs) for case in entry.group(name).cases]
        yield from _rows(entry, name, "as in its vectors", near)
        for bits in REACH:
            far = _far(e, bits, count)
            if far is not None:
                yield from _rows(entry, name, f"up to 2**{bits}", [far])


def _rows(entry: Entry, name: str, where: str, calls: list[dict[str, Any]]) -> Iterator[Row]:
    e = entry.examples[name]
    truths = [entry.truth(e, call).output() for call in calls]
    for dtype in dtypes():
        held = [(t, call) for t, call in zip(truths, calls, strict=True) if _held(t, dtype)]
        if not held:
            continue
        with np.errstate(all="ignore"):  # what is wrong may overflow
            worst = [t.worst(_ours(e, call, dtype), dtype, angles="exact") for t, call in held]
        error, score = (max(part) for part in zip(*worst, strict=True))
        elements = sum(t.hi.size for t, _ in held)
        yield Row(f"{entry.name}: {name}", dtype, where, elements, error, score)


def _held(truth: Output, dtype: str) -> bool:
    """Whether all values are within the range of the dtype: float16 ends at 65504."""
    return dtype != "float16" or bool(np.abs(truth.hi).max() <= np.finfo(np.float16).max)


def _call(e: Any, inputs: Any) -> dict[str, Any]:
    """The inputs of a vector with their positions spelt out."""
    if e.family == "table":
        return dict(inputs)
    q_len, k_len = (
        (inputs["q_len"], inputs["k_len"])
        if e.family == "bias"
        else (inputs["q"].shape[2], inputs["k"].shape[2])
    )
    sides = {"q_positions": np.arange(k_len - q_len, k_len), "k_positions": np.arange(k_len)}
    return {**{key: x for key, x in inputs.items() if key in "qk"}, **sides}


def _far(e: Any, bits: int, count: int) -> dict[str, Any] | None:
    """A call with positions up to ``2**bits``, None where there is an end before."""
    rng = np.random.default_rng(bits)
    if e.family == "table":
        if e.integers or bits > 30:  # fast coordinates end before 2**40
            return None
        shape = (count,) if e.num_axes == 1 else (e.num_axes, count)
        return {"positions": rng.integers(-(2**bits), 2**bits, shape) / 4}
    if any(getattr(e, name, None) for name in ("tokens", "rows", "mixes_queries")):
        return None  # a window, a table, or tokens that must be neighbours
    at = np.sort(rng.integers(0, 2**bits, 8))
    sides = {"q_positions": at, "k_positions": at}
    if e.family == "bias":
        return sides
    q, k = (numbers(f"far-{side}", 1, e.heads or 2, at.size, e.head_dim) / 16 for side in "qk")
    return {"q": q, "k": k, **sides}


def _ours(e: Any, call: dict[str, Any], dtype: str) -> Any:
    if e.family == "table":
        return e.table(call["positions"], dtype=np.dtype(dtype))
    sides = call["q_positions"], call["k_positions"]
    if e.family == "bias":
        return e.bias(*sides, dtype=np.dtype(dtype))
    q, k = (call[name].astype(dtype) for name in "qk")
    return posenc_ref.scores(e, q, k, *sides)
