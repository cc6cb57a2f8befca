"""Hints for functions that ``identify`` cannot call, found by trying other arguments."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.backends import backends
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.probes import SHORT, dense
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.harness.signatures import SURFACES

#: Numbers of position axes to try.
_AXES = (2, 3, 4)
_HEAD_DIMS = (64, 128, 32, 80, 96, 256, 16, 8)
#: Widths of tables and of other functions of whole embeddings to try.
WIDTHS = (
    *_HEAD_DIMS,
    512, 768, 1024, 384, 192, 48, 24, 12, 10, 20, 40, 100, 200, 300, 4, 6, 2, 2048, 4096,
)  # fmt: skip


def no_head_dim(run: Run, surface: str) -> str:
    """Return the message for a missing head_dim, with the sizes that the function accepts."""
    text = (
        f"surface {surface!r} needs head_dim, the size of the last axis of "
        f"{'q and k' if surface == 'scores' else 'x'}: "
        "pass head_dim=64, for example, or --head-dim 64 on the command line"
    )
    taken = head_dims(run, surface)
    if taken:
        return (
            f"{text}; of the usual sizes, this function takes {', '.join(map(str, sorted(taken)))}"
        )
    fn = run.driver.fn
    found = for_apply(run, _HEAD_DIMS[0]) if surface == "apply" else arguments(fn, surface)
    return "; ".join([text, *found])


def head_dims(run: Run, surface: str) -> list[int]:
    """Return the usual sizes of a head that a function accepts, likely ones first."""
    return [d for d in _HEAD_DIMS if _works(run, surface, d)]


def width(run: Run) -> int | None:
    """Return the first usual number of channels that a function ``fn(x (B, S, dim))`` accepts."""
    for dim in WIDTHS:
        try:
            if run.driver.array(run.driver.call(dense((2, 5, dim), 0))).shape == (2, 5, dim):
                return dim
        except (Refused, Malformed):
            continue
    return None


def for_apply(run: Run, dim: int) -> list[str]:
    """Return hints for a function that fails in the first call of ``apply``."""
    for n in _AXES if run.driver.axes == 1 else ():
        if _works(run, "apply", dim, axes=n):
            return [f"it accepts positions of shape ({n}, B, S): pass axes={n}, or --axes {n}"]
    return [*_libraries(run, "apply", dim), *arguments(run.driver.fn, "apply")]


def for_tables(run: Run, surface: str, error: Refused | Malformed) -> list[str]:
    """Return hints for a function of positions that fails or returns a wrong shape."""
    if isinstance(error, Malformed):
        other = {"cos_sin": "table", "table": "cos_sin"}.get(surface)
        return [f"the shape is that of surface {other!r}: pass surface={other!r}"] if other else []
    return [*_libraries(run, "table"), *arguments(run.driver.fn, surface)]


def no_rotation(run: Run, x: np.ndarray, y: np.ndarray) -> Iterator[str]:
    """Yield why a function cannot be a rotation, given its result y for x."""
    half = 2 * run.driver.apply(x / 2, SHORT)  # equals y if the function is linear
    off = np.abs(half - y)
    if (off > run.budget * ROUNDOFF[run.coarse] * (np.abs(y) + np.abs(half))).any():
        yield "it is not linear in x: fn(x / 2) differs from fn(x) / 2"
    if np.array_equal(run.driver.apply(x, SHORT + 3), y):
        yield "positions make no difference"


def arguments(fn: Callable[..., Any], surface: str) -> list[str]:
    """Return a hint if the function takes another number of arguments than the surface passes."""
    names = [name for name in SURFACES[surface].arguments if name != "sinks"]  # only if declared
    passed, needed = len(names), _needed(fn)
    if surface == "frequencies" or needed is None or needed[0] <= passed <= needed[1]:
        return []
    least, most = needed
    every = sorted(SURFACES.values(), key=lambda row: len(row.arguments))
    every = [row for row in every if row.identify and row.name != "frequencies"]
    fits = [row.name for row in every if least <= len(row.arguments) <= most]
    call = f"fn({', '.join(names)})"
    instead = f", or use a surface that fits it: {', '.join(fits)}" if fits and least else ""
    return [
        f"surface {surface!r} calls {call}, but this function needs {least} arguments: "
        f"wrap it in a function with the arguments of this call{instead}"
    ]


def _needed(fn: Callable[..., Any]) -> tuple[int, float] | None:
    """Return the fewest and the most positional arguments, or None without a signature."""
    try:
        every = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return None
    places = [p for p in every if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = sum(p.default is p.empty for p in places)
    least += sum(p.kind == p.KEYWORD_ONLY and p.default is p.empty for p in every)
    return least, np.inf if any(p.kind == p.VAR_POSITIONAL for p in every) else len(places)


def _libraries(run: Run, surface: str, dim: int = 0) -> Iterator[str]:
    """Yield a hint for the first loaded array library that the function accepts."""
    for library in backends():
        name = library.name
        if (
            name != run.driver.backend_name
            and library.module in sys.modules
            and library.unusable() is None
            and run.driver.dtype in library.dtypes
            and _works(run, surface, dim, backend_name=name)
        ):
            yield f"it works on arrays of {name}: pass backend={name!r}, or --backend {name}"
            return


def _works(run: Run, surface: str, dim: int, **settings: Any) -> bool:
    """Return whether a call with usual arguments succeeds.

    ``apply`` must return finite values, and ``scores`` logits of all queries and keys.
    """
    driver = replace(run.driver, out_dtypes=set(), **settings)
    try:
        if surface == "apply":
            return bool(np.isfinite(driver.apply(dense((2, 3, SHORT.size, dim), 0), SHORT)).all())
        if surface == "scores":
            q, k = dense((2, 1, 3, dim), 0), dense((2, 1, 3, dim), 1)
            return driver.array(driver.call(q, k)).shape[-2:] == (3, 3)
        else:
            driver.call(np.arange(5))
    except (Refused, Malformed):
        return False
    return True
