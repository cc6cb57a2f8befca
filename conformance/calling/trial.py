"""Judge a way of calling a rotation by what every rotation does, right or wrong.

The axes of a trial input have distinct sizes, so that a wrong way seldom runs at all.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from posenc_ref._namespace import to_host
from posenc_ref.conformance.harness.driver import Driver, Malformed, Refused
from posenc_ref.conformance.harness.foreign import refusals

#: Batch, heads and tokens of trial inputs; the next ones are for functions that refuse the first.
SIZES = ((2, 3, 5), (1, 3, 5), (1, 1, 5))
#: The share of the largest number up to which a difference may be rounding.
COARSE = 2.0**-6
#: The points for treating rows and heads alike, and for treating tokens not alike.
ALIKE = MOVES = 4
#: The score of a way that passes every test.
PERFECT = ALIKE + MOVES + 2
#: A function is not called any more after so many trial calls that raise at one place, if they
#: took so many seconds together; or after so many, fewer if no parameter has the name of a vector.
SAME, SECONDS, MANY, MANY_UNNAMED = 64, 10.0, 4096, 512


class Hopeless(Exception):
    """Trial calls raise the same exception again and again; the message says which."""


class Refusals:
    """Trial calls by the place where they raised: how many, and how long they took."""

    def __init__(self) -> None:
        self._places: dict[tuple[Any, ...], tuple[int, float]] = {}

    def clear(self) -> None:
        """Begin again: a call returned."""
        self._places.clear()

    def add(self, error: Refused, seconds: float, most: int = MANY) -> None:
        """Count a call that raised; raise :class:`Hopeless` if there is no use in another one."""
        trace = BaseException.__traceback__.__get__(error.cause)  # type: ignore[union-attr]
        frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(trace)]
        place = (type(error.cause), *frames[-1:])
        count, before = self._places.get(place, (0, 0.0))
        self._places[place] = count, seconds = count + 1, before + seconds
        if count >= most or (count >= SAME and seconds > SECONDS):
            raise Hopeless(f"no other way was tried, because {count} calls raised {error}")


def score(
    driver: Driver, dim: int, sizes: tuple[int, int, int], *, rows: bool = False
) -> tuple[int, str]:
    """Return the score of a way to rotate, and why it is 0.

    A rotation keeps the shape.  It treats batch rows and heads alike and tokens not, keeps the
    numbers of a vector at position 0, in any order and times any factor (1 point), and doubles
    when its input doubles (1 point).  With ``rows``, it takes
    positions (B, S) as well as (S,), if it has one axis of positions.
    """
    batch, heads, length = sizes
    vector = np.linspace(1.0, 2.0, dim)
    x = np.broadcast_to(vector, (batch, heads, length, dim)).copy()
    at = np.arange(length)
    if driver.axes > 1:  # every axis has other positions, so that none is taken for another
        every = np.broadcast_to(at, (batch, length))
        at = np.stack([every * (axis + 1) % length for axis in range(driver.axes)])
    try:
        with np.errstate(all="ignore"):
            y, twice = driver.apply(x, at), driver.apply(2 * x, at)
            by_rows = driver.apply(x, np.tile(at, (batch, 1))) if rows and driver.axes == 1 else y
    except (Refused, Malformed) as error:
        return 0, str(error)
    if not np.isfinite(y).all():
        return 1, ""
    if not _alike(y, by_rows):
        return 0, "positions (B, S) give another result than (S,)"
    points = ALIKE * _alike(y, y[:1, :1]) + MOVES * (not _alike(y, y[:, :, :1]))
    ratio = np.sort(np.abs(y[0, 0, 0])) / vector
    points += _alike(ratio, ratio[:1]) and ratio[0] > 0
    points += _alike(twice, 2 * y)
    return max(int(points), 1), ""


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether arrays differ by rounding at most, even that of bfloat16."""
    return bool(np.abs(a - b).max() <= COARSE * np.abs(a).max())


def works_in_place(driver: Driver, dim: int, sizes: tuple[int, int, int]) -> bool:
    """Return whether a call overwrites its vectors on purpose: it returns None, or them.

    Raises
    ------
    Refused
        The call raises.
    """
    batch, heads, length = sizes
    vectors = np.random.default_rng(1).standard_normal((batch, heads, length, dim))
    host, at = driver.arguments(vectors, np.arange(length))
    x, positions = (
        driver.backend.asarray(a, k, None) for a, k in ((host, driver.dtype), (at, "int64"))
    )
    with refusals():
        result = driver.fn(x, positions)
    if result is None:
        return True
    after, y = to_host(x), to_host(result)
    same = y.shape == after.shape and np.shares_memory(y, after)
    return bool(same and not np.array_equal(after, host.astype(after.dtype)))


def driver_of(call: Callable[..., Any], backend: str, dtype: str, layout: str, axes: int) -> Driver:
    """Return a driver for trial calls."""
    return Driver(call, backend, dtype=dtype, tensor_layout=layout, axes=axes)
