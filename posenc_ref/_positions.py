"""Check positions and convert every accepted form to :class:`Positions`."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ._arrays import check_place
from ._namespace import (
    FLOATING,
    INTEGER,
    Array,
    Namespace,
    as_namespace,
    class_of,
    device_of,
    dtype_name,
    extremes,
    has_float64,
    is_array,
    is_lazy,
    library,
    namespace,
    send,
    to_host,
    wide_integer,
)
from ._text import in_full
from .limits import COUNT, POSITION


@dataclass(frozen=True)
class Positions:
    """Checked positions, and the library ``xp`` and ``device`` of the caller's array.

    ``values`` are float64, or int64 if the encoding takes integers only.  They stay in the caller's
    library and on its device; if they must be float64 and the device has no float64, they are a
    NumPy array instead.  Lazy positions cannot be checked: a position that :func:`as_positions`
    would refuse gives a row of NaN.
    """

    values: Array
    xp: Namespace
    device: Any

    @property
    def ndim(self) -> int:
        """Number of axes of the positions."""
        return int(self.values.ndim)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the positions."""
        return tuple(self.values.shape)


def as_positions(
    positions: Any,
    *,
    x: Array | None = None,
    integers: bool = False,
    largest: float = POSITION,
    name: str = "positions",
) -> Positions:
    """Return checked ``positions``; raise unless each is finite and ``|position| <= largest``.

    Positions are a number, a range, a list or an array.  An int or float is one position.  NumPy
    arrays, ranges and lists (host positions) go with any ``x``; positions of another library must
    share x's library and device.  float16 and bfloat16 are refused, because they cannot represent
    all integers above 2048 and 256.
    """
    array = _as_array(positions, name, largest)
    kind = dtype_name(array)
    if kind in ("float16", "bfloat16"):
        limit = {"float16": 2048, "bfloat16": 256}[kind]
        raise TypeError(
            f"{name} must be integers, float32 or float64, got {kind}: {kind} cannot represent all "
            f"integers above {limit}; build positions in int64"
        )
    if kind not in INTEGER and kind not in FLOATING:
        raise TypeError(f"{name} must be integers or real floats, got dtype {kind}")
    if integers and kind not in INTEGER:
        raise TypeError(f"{name} must be integers for this encoding, got dtype {kind}")
    if x is not None:
        check_place(name, array, "x", x)

    xp, device, lazy = namespace(array), device_of(array), is_lazy(array)
    if not integers and not has_float64(xp, device):
        if lazy:
            raise TypeError(
                f"{name} must be concrete on a device without float64, got a traced or lazy array: "
                "pass a range or a NumPy array, or enable float64 (jax_enable_x64)"
            )
        array = to_host(array)
    here = namespace(array)
    values = here.astype(array, wide_integer(here) if integers else here.float64)
    if lazy:
        if not integers:
            values = xp.where(xp.abs(values) <= largest, values, xp.nan)
    elif 0 not in values.shape:
        # abs would overflow at the lowest integer, and large uint64 are negative in int64.
        wide = here.astype(array, here.float64) if kind == "uint64" else values
        seen, number = array if here is np else wide, int if kind in INTEGER else float
        least, most = map(number, extremes(seen))
        _within(name, max(-least, most), largest)
    return Positions(values, xp, device)


def as_pairs(
    q_positions: Any, k_positions: Any, *, integers: bool, x: Array | None = None
) -> tuple[Positions, Positions]:
    """Return the checked positions (Q,) of queries and (K,) of keys, or (B, Q) and (B, K).

    Both are in one library: if only one is on the host, it is copied to the other's device.
    """
    q = as_positions(q_positions, x=x, integers=integers, name="q_positions")
    k = as_positions(k_positions, x=x, integers=integers, name="k_positions")
    if q.xp is not k.xp and np not in (q.xp, k.xp):
        raise TypeError(
            f"q_positions and k_positions must share a library, got {q.xp.__name__} and "
            f"{k.xp.__name__}"
        )
    if q.xp is not np and k.xp is not np and q.device != k.device:
        raise ValueError(
            f"q_positions are on device {q.device} but k_positions on device {k.device}: "
            "move one of them, or pass it as a NumPy array"
        )
    home = k if q.xp is np else q
    if q.ndim != k.ndim or q.shape[:-1] != k.shape[:-1] or q.ndim > 2:
        raise ValueError(
            f"q_positions and k_positions must have shapes (Q,) and (K,), or (B, Q) and "
            f"(B, K), got {q.shape} and {k.shape}"
        )
    apart = isinstance(q.values, np.ndarray) != isinstance(k.values, np.ndarray)
    q, k = (
        replace(
            p,
            values=send(p.values, home.xp, home.device) if apart else p.values,
            xp=home.xp,
            device=home.device,
        )
        for p in (q, k)
    )
    return q, k


def _as_array(positions: Any, name: str, largest: float) -> Array:
    if isinstance(positions, bool):
        raise TypeError(
            f"{name} must be an array, a list, a range or a number, got the boolean {positions!r}"
        )
    if isinstance(positions, int | float | np.integer | np.floating):
        return np.asarray([positions])
    if isinstance(positions, range | list | tuple):
        array = from_sequence(name, positions, largest)
        return array.astype(np.int64) if array.size == 0 else array
    if not is_array(positions):
        raise TypeError(
            f"{name} must be an array, a list, a range or a number, got {class_of(positions)}"
        )
    if not is_lazy(positions):
        _few(name, math.prod(positions.shape))
    return positions.reshape(1) if positions.ndim == 0 else positions


def from_sequence(name: str, values: Any, largest: float = POSITION) -> np.ndarray:
    """Return a range, a list or anything that NumPy takes for one as an array, with its size."""
    if isinstance(values, range):
        if values:  # NumPy and len() refuse large ranges in other words
            first, last = values[0], values[-1]
            _within(name, max(abs(first), abs(last)), largest)
            _few(name, abs(last - first) // abs(values.step) + 1)
        return np.arange(values.start, values.stop, values.step, dtype=np.int64)
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must have rows of equal length, got {error}") from None


def _few(name: str, count: int) -> None:
    """Raise ValueError for too many positions, which a range or a view may have for free."""
    if count > COUNT:
        raise ValueError(
            f"{name} must be at most {COUNT} positions, got {count}: call with a part of them"
        )


def _within(name: str, extreme: int | float, largest: float) -> None:
    if not extreme <= largest:
        raise ValueError(
            f"{name} must be finite and at most {in_full(largest)} in absolute value, "
            f"got {in_full(extreme)}"
        )


def range_length(positions: Any) -> int | None:
    """Return the length of a range that :func:`as_positions` would copy, or None.

    A range costs nothing, and its copy up to 16 GiB: sizes are checked before.
    """
    if not isinstance(positions, range) or not positions:
        return None
    count = abs(positions[-1] - positions[0]) // abs(positions.step) + 1
    return count if count <= COUNT else None


def require_tokens(positions: Any, x: Array) -> None:
    """Raise ValueError for a range that has another length than x (..., S, dim) has tokens."""
    count = range_length(positions)
    if count is not None and x.ndim > 1 and count != x.shape[-2]:
        raise _misfit((count,), x)


def first_axis(positions: Positions, num_axes: int) -> Positions:
    """Return the first of the ``num_axes`` coordinates of each position, as positions (...).

    Positions (A, ...) with A = num_axes become (...); with one axis they stay as they are.
    """
    return positions if num_axes == 1 else replace(positions, values=positions.values[0, ...])


def broadcast_axes(positions: Positions, x: Array) -> tuple[Any, ...]:
    """Return the index that inserts axes so that positions broadcast with ``x`` (..., S, dim).

    Positions (S,) hold for all leading axes of x.  Positions (B, S) hold for x of shape
    (B, ..., S, dim): row b for all of ``x[b]``.  Other positions must have ``x.ndim - 1`` axes.
    """
    lead = tuple(x.shape[:-1])
    shape = positions.shape
    index: tuple[Any, ...] = ()
    if not lead:
        raise ValueError(f"x must have shape (..., S, dim), got {tuple(x.shape)}")
    if len(shape) == 1:
        fits = shape == lead[-1:]
    elif len(shape) == 2 and len(lead) > 2:
        fits = shape in ((lead[0], lead[-1]), (1, lead[-1]))
        index = (slice(None), *[None] * (len(lead) - 2), ...)
    else:
        same_rank = len(shape) == len(lead)
        fits = same_rank and all(p in (1, n) for p, n in zip(shape[:-1], lead[:-1], strict=True))
        fits = fits and shape[-1] == lead[-1]
    if not fits:
        raise _misfit(shape, x)
    return index


def _misfit(shape: tuple[int, ...], x: Array) -> ValueError:
    lead = tuple(x.shape[:-1])
    swapped = shape[-1:] == lead[-2:-1]
    hint = "; the sequence is x's axis -2, and heads come before it" if swapped else ""
    return ValueError(
        f"positions must have shape (S,), (B, S) or x.shape[:-1] to go with x of shape "
        f"{tuple(x.shape)}, where S = {lead[-1]}; got positions of shape {shape}{hint}"
    )


def cut_like(p: Positions, x: Array, num_axes: int = 1) -> Positions:
    """Return host positions as a Dask array chunked like x (..., S, dim), if x is a Dask array.

    Without chunks, Dask would send the cos and sin of all positions to the task of every chunk.
    """
    if library(x) != "dask" or not isinstance(p.values, np.ndarray):
        return p
    shape = p.shape if num_axes == 1 else p.shape[1:]
    last = x.ndim - 1
    axes = (0, last - 1) if len(shape) == 2 and last > 2 else range(last - len(shape), last)
    chunks = [x.chunks[a] if n == x.shape[a] else (n,) for a, n in zip(axes, shape, strict=True)]
    whole = [(n,) for n in p.shape[: p.ndim - len(shape)]]
    lazy = sys.modules["dask.array"].from_array(p.values, chunks=(*whole, *chunks))
    return replace(p, values=lazy)


def target(p: Positions, xp: Namespace = None, device: Any = None) -> tuple[Namespace, Any]:
    """Return the library and the device for a table: the arguments, or else those of ``p``."""
    device = p.device if device is None else device
    if xp is None:
        return p.xp, device
    other = as_namespace(xp)
    if p.xp is not np and other is not p.xp:
        raise TypeError(
            f"xp must be the library the positions belong to, {p.xp.__name__}, or be left out; "
            f"got {other.__name__}"
        )
    return other, device
