"""Values that are held with few bits: in half precision, in fixed point, or as whole numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from posenc_ref.accuracy import TINY, Truth
from posenc_ref.conformance.harness.run import Run

from .mistake import JudgedCall
from .rounding import SIGNIFICANT_BITS, significant

#: Returns the reference of the values that may be coarse, and what is added to them in a call.
Parts = Callable[[Any], tuple[Truth, np.ndarray]]
#: The bits after the point of fixed-point numbers.
_BITS = range(15)
#: The fewest different results that show a format, and the most steps that they are off by.
_FEWEST, _STEPS = 64, 16
#: The part of a rounding that the error of float32 adds to it.
_TIE = 2.0**-8
#: A format is told from rounding if half its step is this many tolerances on average.
_TELLING = 4.0


def report_coarse(run: Run, calls: Sequence[JudgedCall], what: str, parts: Parts) -> bool:
    """Report values that equal the declared ones, rounded to a coarse format; return whether so.

    A value near the middle of two numbers of the format may be rounded to either of them.
    """
    seen = []
    for one in calls:
        declared, added = parts(one.facts)
        shape = one.actual.shape
        mask = np.broadcast_to(True if one.mask is None else one.mask, shape)
        exact = np.broadcast_to(declared.value, shape)[mask]
        slack = np.broadcast_to(run.budget * run.unit(one.truth), shape)[mask]
        seen.append(((one.actual - added)[mask], exact, slack))
    got, exact, slack = (np.concatenate(part) for part in zip(*seen, strict=True))
    if not got.size or not np.isfinite(got).all():
        return False
    off = np.abs(got - exact)
    for words, of, step in _formats(exact):
        far = float(np.mean(step)) < 2 * _TELLING * float(np.mean(slack))
        if far or (off > step + slack).any() or (np.abs(got - of(got)) > slack).any():
            continue
        cut = (off > step / 2 + slack).any()
        how = "cut, not rounded, to" if cut else "rounded to"
        at = int(np.argmax(off))
        run.add(
            "table-precision",
            f"{what} is {how} {words}",
            f"every value of {len(calls)} calls; {got[at]:.9g}, declared {exact[at]:.9g}",
            remedy=f"Compute and keep {what} in float32: do not round it to {words}.",
        )
        return True
    return False


def report_narrow(run: Run, calls: Sequence[JudgedCall], what: str) -> bool:
    """Report results that are all numbers of a narrow format, where the declared ones are not."""
    got, exact = [], []
    for one in calls:
        mask = np.broadcast_to(True if one.mask is None else one.mask, one.actual.shape)
        got.append(one.actual[mask])
        exact.append(np.broadcast_to(one.truth.value, one.actual.shape)[mask])
    actual, declared = np.concatenate(got), np.concatenate(exact)
    if not np.isfinite(actual).all() or np.unique(actual).size < _FEWEST:
        return False
    for name, bits in SIGNIFICANT_BITS.items():
        # Numbers below the smallest normal float16 have fewer bits, so they are its numbers too.
        inside = (significant(actual, bits) == actual).all()
        if not inside or (significant(declared, bits) == declared).mean() > 0.5:
            continue
        away = np.abs(actual - declared) / (np.abs(declared) * 2.0**-bits + TINY["float32"])
        if np.median(away) > _STEPS:
            continue
        at = int(np.argmax(np.abs(actual - declared)))
        text = (
            f"{what} is a {name} number in every call, and more than the rounding to {name} from "
            f"the declared one: consistent with a computation in {name}"
        )
        if (away <= 1 + _TIE).all():
            text = f"{what} is the declared one, rounded to {name}, in every call"
        run.add(
            "table-precision",
            text,
            f"{actual.size} values of {len(calls)} calls; {actual[at]:.9g}, declared "
            f"{declared[at]:.9g}",
            remedy=f"Compute {what} in float32 from the inputs on, also the products and sums on "
            f"the way to it: do not cast to {name}.",
        )
        return True
    return False


def _formats(
    exact: np.ndarray,
) -> Iterator[tuple[str, Callable[[np.ndarray], np.ndarray], np.ndarray]]:
    """Yield formats in words, how values are rounded to them, and their steps at each value."""
    for bits in _BITS:
        step = 2.0**-bits
        words = f"multiples of 1/{2**bits} (fixed point)" if bits else "whole numbers"
        yield words, partial(_to_multiples, step), np.full(exact.shape, step)
    for name, bits in SIGNIFICANT_BITS.items():
        with np.errstate(divide="ignore"):
            exponent = np.where(exact != 0, np.floor(np.log2(np.abs(exact))), -126)
        yield name, partial(significant, bits=bits), 2.0 ** (exponent + 2 - bits)


def _to_multiples(step: float, values: np.ndarray) -> np.ndarray:
    return np.asarray(np.rint(values / step) * step)
