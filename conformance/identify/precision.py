"""Find out whether a function rounds its values to half precision, whatever dtype it returns."""

from __future__ import annotations

import numpy as np

from posenc_ref import ALiBi, Bias, Encoding
from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.harness.signatures import SURFACES
from posenc_ref.table import LearnedTable

#: Positions whose cosines and sines need all digits of float32; then those of few rows.
_AT = (np.arange(12), np.arange(5))
#: A number of heads that is no power of two, so that slopes need all digits; keys at distances
#: with more bits than half precision holds.
_HEADS, _KEYS = 48, 4097
#: The fewest values that are neither 0 nor a power of two.
_FEW = 12
#: The bits of the mantissa of each dtype, the coarsest first.
_BITS = {"bfloat16": 8, "float16": 11}


def held(values: np.ndarray) -> str | None:
    """Return the half-precision dtype that holds all values without rounding, or None."""
    if values.dtype.kind == "c":
        return None
    values = values[np.isfinite(values) & (values != 0)]
    mantissa = np.abs(np.frexp(values)[0])
    if (mantissa != 0.5).sum() < _FEW:
        return None
    for name, bits in _BITS.items():
        scaled = mantissa * 2.0**bits
        if (scaled == np.trunc(scaled)).all():
            return name
    return None


def half_precision(run: Run, surface: str) -> str | None:
    """Return the half-precision dtype of the values of a function on ``surface``, or None.

    ``apply`` gets one-hot inputs, which it multiplies with single cosines and sines. Learned rows
    may be few-digit numbers by themselves; the caller has to know.
    """
    if ROUNDOFF[run.coarse] > ROUNDOFF["float32"] or run.settings.reduced:
        return None
    for at in _AT:
        try:
            return held(_values(run, surface, at))
        except (Refused, Malformed):
            continue
    return None


def half_result(run: Run) -> str | None:
    """Return the half-precision dtype of all results of a function without a floating input.

    No input has another precision than such a result, so it is no deviation.
    """
    row = SURFACES.get(run.report.surface)  # None: positions of images
    if row is None or row.takes_floats or run.dtype == run.driver.dtype:
        return None
    kinds = run.driver.out_dtypes
    return next(iter(kinds & set(_BITS))) if len(kinds) == 1 and kinds <= set(_BITS) else None


def _values(run: Run, surface: str, at: np.ndarray) -> np.ndarray:
    driver = run.driver
    match surface:
        case "apply":
            dim = run.settings.head_dim or 0
            x = np.zeros((2, 1, at.size, dim))
            x[0, ..., 0] = x[1, ..., dim // 4] = 1.0
            return driver.apply(x, at)
        case "cos_sin":
            result = driver.call(at)
            if not isinstance(result, tuple | list) or not result:
                raise Malformed("expected (cos, sin)")
            return np.concatenate([driver.array(t).ravel() for t in result])
        case "table":
            return driver.array(driver.call(at)).ravel()
        case "grid":
            return driver.array(driver.call(5, 7)).ravel()
        case "slopes":
            return driver.array(driver.call(_HEADS)).ravel()
        case "bias":
            return driver.array(driver.call(1, _KEYS)).ravel()
    return np.zeros(0)


def looked_up(encoding: Encoding | None) -> bool:
    """Return whether the values are those of a learned table, which may have few digits."""
    return isinstance(encoding, LearnedTable) or (
        isinstance(encoding, Bias) and not isinstance(encoding, ALiBi)
    )
