"""Judge the encodings of the registry on one array library, against their exact cases."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

import posenc_ref
from posenc_ref import Encoding
from posenc_ref._namespace import dtype_name, is_array
from posenc_ref.accuracy import budget
from posenc_ref.backends import Backend
from posenc_ref.conformance.exact.output import Output
from posenc_ref.conformance.exact.recipe import Recipe
from posenc_ref.conformance.exact.reference import Entry, sides
from posenc_ref.conformance.registry import entries

from .record import Outcome

Array = Any


def labels() -> dict[str, Entry]:
    """Return registered entries by label; rotary encodings are judged by surface instead."""
    return {f"{e.name} vectors": e for e in entries() if e.encoding.family != "rotary"}


def judge_entry(
    entry: Entry, backend: Backend, dtype: str, device: str | None, blank: Outcome, angles: Any
) -> Outcome:
    """Judge every case of every example on ``device``; perturbed results must be rejected."""
    worst, executed, wrong, vacuous = 0.0, 0, [], []
    for name, example in entry.examples.items():
        e = on_library(example, backend, dtype, device)
        for recipe, truth in _cases(entry, name):
            result = call(e, recipe.inputs, backend, dtype, device)
            host, case = backend.asnumpy(result), f"{name}-{recipe.name}"
            if dtype_name(result) != dtype:
                wrong.append(("dtype", f"{case} comes out in {dtype_name(result)}"))
            score = truth.score(host, dtype, angles=angles)
            if score > budget(dtype):
                wrong.append(("inaccurate", f"{case} is off by {score:.3g} units"))
            moved = truth.perturbed(host, dtype, angles)
            if truth.score(moved, dtype, angles=angles) <= budget(dtype):
                vacuous.append(case)
            worst, executed = max(worst, score), executed + 1
    reason = f"a perturbed output was accepted: {', '.join(vacuous)}" if vacuous else ""
    return blank.replace(
        surface=entry.surface,
        verdict="error" if vacuous else "deviates" if wrong else "conforms",
        reason=reason,
        codes=tuple(code for code, _ in wrong),
        messages=tuple(text for _, text in wrong),
        encoding=entry.name,
        worst=worst,
        budget=budget(dtype),
        executed=executed,
    )


@functools.cache
def _cases(entry: Entry, name: str) -> tuple[tuple[Recipe, Output], ...]:
    return tuple(entry.cases(name))


def on_library(e: Any, backend: Backend, dtype: str, device: str | None) -> Any:
    """Return the encoding with its learned numbers, float32 arrays, on an array library."""

    def there(value: Any) -> Any:
        if isinstance(value, Encoding):
            return on_library(value, backend, dtype, device)
        if isinstance(value, tuple):
            return tuple(map(there, value))
        if is_array(value) and value.dtype == np.float32:
            return backend.asarray(value, dtype, device)
        return value

    fields = {f.name: getattr(e, f.name) for f in dataclasses.fields(e)}
    changed = {name: there(value) for name, value in fields.items()}
    return e.replace(**{n: v for n, v in changed.items() if v is not fields[n]})


def call(e: Any, inputs: Any, backend: Backend, dtype: str, device: str | None) -> Array:
    """Return the output of the encoding for inputs on ``device``."""

    def there(x: np.ndarray, kind: str) -> Array:
        return backend.asarray(x, kind, device)

    if e.family == "table":
        p = inputs["positions"]  # fractions of positions are exact in float32
        return e.table(there(p, "int64" if p.dtype.kind == "i" else "float32"), dtype=dtype)
    if e.family == "bias":
        q_at, k_at = map(np.array, sides(inputs))
        return e.bias(there(q_at, "int64"), there(k_at, "int64"), dtype=dtype)
    q, k = (there(inputs[name], dtype) for name in "qk")
    return posenc_ref.scores(e, q, k, *sides(inputs))
