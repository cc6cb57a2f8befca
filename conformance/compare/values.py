"""Compare the results of the same calls, for surfaces that are compared by their values alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.harness.driver import Malformed
from posenc_ref.conformance.harness.tensor_layouts import LAID_OUT
from posenc_ref.conformance.oracle.apply import identical

from .inputs import Call
from .side import Side, Two, normwise


def compare_values(two: Two, calls: list[Call], required: bool) -> None:
    """Compare the results of the same calls, element by element.

    Each function gets vectors in its own tensor layout. Floating results may differ by roundings of
    the largest element, integers not at all. B may refuse the first call unless it is ``required``.
    """
    for n, (name, arguments) in enumerate(calls):
        shapes: list[tuple[int, ...]] = []  # of B's results

        def call(
            side: Side,
            arguments: tuple[Any, ...] = arguments,
            shapes: list[tuple[int, ...]] = shapes,
        ) -> np.ndarray:
            each = _parts(side, arguments)
            found = [part.shape for part in each]
            if side is two.b:
                shapes[:] = found
            elif found != shapes:
                raise Malformed(f"the results have shapes {_listed(found)}, in B {_listed(shapes)}")
            return each[0] if len(each) == 1 else np.concatenate([e.ravel() for e in each])

        def truth(value: np.ndarray) -> Truth:
            return identical(value) if value.dtype.kind in "iub" else normwise(value)

        two.judge(call, name, truth, required=required and not n)
        if two.run.report.codes:
            return


def _parts(side: Side, arguments: tuple[Any, ...]) -> list[np.ndarray]:
    """Return the results of one call; vectors as (B, H, S, D), whatever their tensor layout."""
    driver = side.run.driver
    if side.surface not in LAID_OUT:
        result = driver.call(*arguments)
        parts = result if isinstance(result, tuple | list) else [result]
        return [driver.array(part) for part in parts]
    first = arguments[0]
    sent = [_sent(side, first, a) for a in arguments]
    result = driver.call(*sent)
    parts = result if isinstance(result, tuple | list) else [result]
    vectors = [(given, a) for given, a in zip(sent, arguments, strict=True) if _vector(a)]
    found = []
    for part, (given, x) in zip(parts, vectors, strict=False):
        y = driver.array(part)
        if y.shape != given.shape:
            raise Malformed(f"expected shape {given.shape}, as passed, got {y.shape}")
        found.append(driver.restored(y, x.shape))
    return found


def _sent(side: Side, x: np.ndarray, argument: np.ndarray) -> np.ndarray:
    """Return vectors, or positions of ``x``, as the function takes them."""
    if _vector(argument):
        return side.run.driver.arguments(argument, np.arange(argument.shape[2]))[0]
    return side.run.driver.arguments(x, argument)[1]


def _vector(argument: np.ndarray) -> bool:
    return argument.ndim == 4 and argument.dtype.kind == "f"


def _listed(shapes: list[tuple[int, ...]]) -> str:
    return ", ".join(map(str, shapes)) or "of nothing"
