"""T5's bucket rule with some parameters replaced by measured values."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from posenc_ref import T5Bias
from posenc_ref.conformance.phases.precision import rounded

#: The largest distance, and the largest number of candidates, to search.
WIDEST = 4096
#: Stands for the integers, of the size of the smallest, to which infinity and NaN are converted.
UNDEFINED = -(2**62)


@cache
def starts(size: int, exact: int, max_distance: int, last: int | None = None) -> tuple[int, ...]:
    """Return the smallest distance in each bucket 1, 2, ... ``last``, computed with integers."""
    found = list(range(1, exact + 1))
    steps = size - exact
    for t in range(1, (size - 1 if last is None else last) - exact + 1):
        n = found[-1]
        # The search starts near the float estimate.
        n = max(n, int(exact * (max_distance / exact) ** (t / steps)) - 2)
        while n**steps * exact**t < max_distance**t * exact**steps:
            n += 1
        found.append(n)
    return tuple(found)


def model(encoding: T5Bias, change: dict[str, Any], r: np.ndarray) -> np.ndarray:
    """Return the buckets of the relative positions r by the declared rule with parts changed.

    ``change`` may contain:

    - ``num_buckets``, ``max_distance``: these fields; ``own``: the bucket of r = 0;
    - ``sign``: a factor on r; ``shift``: a number subtracted from r;
    - ``size``: the number of buckets of one direction; ``clamp``: False if there is no last one;
    - ``exact``: how many of the smallest distances have a bucket of their own;
    - ``starts``: the smallest distance in each bucket; ``future_starts``: the same for later keys;
    - ``half``: the dtype of the logarithm, and ``order`` and ``whole`` of :func:`_half_log`;
    - ``future``: later keys have the second half of the buckets ("offset"), the same buckets as
      earlier keys ("same"), or bucket 0 ("zero").
    """
    both = encoding.bidirectional
    number = change.get("num_buckets", encoding.num_buckets)
    size = change.get("size", number // 2 if both else number)
    future = change.get("future", "offset" if both else "zero")
    r = change.get("sign", 1) * (r - change.get("shift", 0))
    distance = np.abs(r)
    if "half" in change:
        farthest = 1 << int(distance.max(initial=0)).bit_length()
        past = later = _half_log(encoding.max_distance, size, farthest, *change["half"])[distance]
    else:
        exact = change.get("exact", size // 2)
        last = None if change.get("clamp", True) else 4 * size
        farthest = change.get("max_distance", encoding.max_distance)
        first = change["starts"] if "starts" in change else starts(size, exact, farthest, last)
        past, later = (
            np.searchsorted(np.asarray(side), distance, side="right")
            for side in (first, change.get("future_starts", first))
        )
    later = {"zero": 0 * later, "same": later, "offset": later + number // 2}[future]
    found = np.where(r > 0, later, past)
    found = np.where(found > UNDEFINED + number, found, UNDEFINED)
    return np.asarray(np.where(r == 0, change.get("own", found), found))


@cache
def _half_log(
    max_distance: int, size: int, distances: int, name: str, order: str, whole: bool
) -> np.ndarray:
    """Return the buckets of ``range(distances)``, with the logarithm in half precision.

    ``order`` is "one factor" if the logarithm is multiplied by a single constant. Otherwise it is
    divided by ``log(max_distance / exact)``, which is first rounded if ``order`` is "rounded". If
    ``whole``, the sum with ``exact`` is rounded, too. The largest float16 is 65504.
    """

    def half(x: Any) -> np.ndarray:
        return rounded(np.asarray(x, dtype=np.float64), name)

    exact, n = max(size // 2, 1), np.arange(distances)  # a single bucket has nothing to halve
    log = half(np.log(half(half(np.maximum(n, 1)) / exact)))
    span = np.log(max_distance / exact)
    if order == "one factor":
        far = half(log * ((size - exact) / span))
    else:
        far = half(half(log / (half(span) if order == "rounded" else span)) * (size - exact))
    far = np.trunc(half(exact + far) if whole else exact + far)
    far = np.where(np.isfinite(far), np.minimum(far, size - 1), UNDEFINED)
    return np.where(n < exact, n, far.astype(np.int64))


def bases(encoding: T5Bias) -> list[dict[str, Any]]:
    """Return three changes: none, the opposite sign, and the other of causal and bidirectional."""
    half, both = encoding.num_buckets // 2, encoding.bidirectional
    other = {"size": encoding.num_buckets if both else half, "future": "zero" if both else "offset"}
    return [{}, {"sign": -1}, other]


def shift(encoding: T5Bias, change: dict[str, Any], r: np.ndarray, b: np.ndarray) -> int:
    """Return the smallest shift of r with which ``model`` gives most of the buckets ``b`` of r."""
    known = (b >= 0) & (np.abs(r) <= WIDEST)
    r, b = r[known], b[known]
    reach = int(np.abs(r).max(initial=0)) + 8
    expected = model(encoding, change, np.arange(-3 * reach, 3 * reach + 1))
    best, least = 0, int((expected[r + 3 * reach] != b).sum())
    for size in range(1, reach + 1):
        for moved in (-size, size):
            wrong = int((expected[r - moved + 3 * reach] != b).sum())
            if wrong < least:
                best, least = moved, wrong
        if least == 0:
            break
    return best
