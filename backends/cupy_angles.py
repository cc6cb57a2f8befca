"""The angles of CuPy arrays: what ``rotary.cu`` reads, made once for each device and stream."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref._namespace import INTEGER, Array, dtype_name, library, to_host
from posenc_ref._positions import Positions, broadcast_axes, first_axis
from posenc_ref.angles import MAX_POSITION, Turns

from .cupy_device import not_captured, on_device_of
from .pair_runs import Run, untouched
from .phasors import factor_and_sign, rotary_phasors

#: What is sent to the device is kept for this many different positions.
_KEPT = 64


@dataclass(slots=True)
class Group:
    """Runs of one kind, for one launch; ``angles`` and ``axes`` are on the device, pair by pair."""

    runs: tuple[Run, ...]
    gaps: tuple[tuple[int, int], ...]  #: channels that this launch copies, as start and stop
    angles: Array
    axes: Array | None


@dataclass(slots=True)
class Tables:
    """Where the kernel finds the angles of the rows of x."""

    runs: tuple[Run, ...]
    dim: int
    groups: tuple[Group, ...]
    table: bool  #: ``angles`` are cos and sin (rows, 2, pairs) and positions count its rows
    positions: Array | None  #: int64 on the device, or None: ``first`` and what follows
    place: tuple[int, ...]  #: strides of positions along the axes of x before the last one
    axis_stride: int
    rows: int
    first: int
    lowest: int
    highest: int
    offset: int
    cos_factor: float
    sin_factor: float

    def window(self, start: int, stop: int) -> Tables:
        """Some of the rows of tables that have no other axes before them."""
        return replace(self, first=self.first + start, rows=stop - start)


class Source:
    """The angles of one encoding, or of the way ``back``, made when asked for and kept."""

    def __init__(self, encoding: Rotary, runs: tuple[Run, ...], back: bool = False) -> None:
        self.encoding, self.runs, self.back = encoding, runs, back
        self._kept: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.Lock()

    def tables(self, x: Array, positions: Any, seq_len: int | None) -> Tables:
        """For ``x`` (..., S, dim) at ``positions``."""
        with on_device_of(x):
            if isinstance(positions, range):  # nothing to look through, so that the host is quick
                key = (positions, seq_len, x.shape[-2], x.dtype == np.float64)
                made: Tables = self._keep(key, lambda: self._of_host(x, positions, seq_len))
                return made
            if self._stays(positions, seq_len):
                return self._unread(x, positions, seq_len)
            return self._of_host(x, positions, seq_len)

    def prepared(self, found: np.ndarray, like: Array) -> Tables:
        """:meth:`table` on the device of ``like``, for use on any stream."""
        import cupy

        with on_device_of(like):
            made = self.table(found)
            cupy.cuda.get_current_stream().synchronize()
        return made

    def table(self, found: np.ndarray, index: tuple[Any, ...] = ()) -> Tables:
        """From ``found``, complex (..., S, pairs) on the host; the factor m and the sign are in it.

        ``index`` inserts the axes that x has and positions have not.
        """
        rows = found.reshape(-1, found.shape[-1])
        groups = []
        for runs, gaps in _groups(self.runs, self.encoding.head_dim):
            chosen = rows[:, _pairs(runs)]
            entries = np.stack([chosen.real, chosen.imag], axis=1)
            groups.append(Group(runs, gaps, _send(entries), None))
        counted = np.arange(len(rows)).reshape(found.shape[:-1])[index or ...]
        return Tables(
            self.runs, self.encoding.head_dim, tuple(groups), True, None,
            _places(counted), 0, found.shape[-2], 0, 0, len(rows) - 1, 0, 1.0, 1.0,
        )  # fmt: skip

    # -- how it is done ----------------------------------------------------------------------

    def _stays(self, positions: Any, seq_len: int | None) -> bool:
        """Whether positions can stay on the device without being looked at."""
        # uint64 would wrap round.
        return (
            library(positions) == "cupy"
            and dtype_name(positions) in INTEGER
            and dtype_name(positions) != "uint64"
            and float(self.encoding.offset).is_integer()
            and (seq_len is not None or not self.encoding.depends_on_length)
        )

    def _unread(self, x: Array, positions: Array, seq_len: int | None) -> Tables:
        if positions.device != x.device:
            raise ValueError(
                f"positions are on device {positions.device} but x is on device {x.device}: "
                f"move them, or pass them as a NumPy array"
            )
        at = positions.reshape(1) if positions.ndim == 0 else positions
        encoding = self.encoding
        several = encoding.num_axes > 1 and at.ndim > 1
        if several and at.shape[0] != encoding.num_axes:
            raise ValueError(
                f"positions must have shape ({encoding.num_axes}, S) or ({encoding.num_axes}, B, "
                f"S), one row for each axis, or (S,) where all axes agree; got {tuple(at.shape)}"
            )
        one = at[0] if several else at
        index = broadcast_axes(Positions(one, None, None), x)
        p = Positions(at, None, None)
        length = seq_len if encoding.depends_on_length else encoding._seq_len(seq_len, p)
        if at.dtype != np.int64:
            not_captured(f"positions must be int64, got {dtype_name(at)}")
            at = at.astype(np.int64)
        shown = (at[0] if several else at)[index or ...]
        return self._computed(length, several, at, _places(shown), at.strides[0] // 8, 0)

    def _of_host(self, x: Array, positions: Any, seq_len: int | None) -> Tables:
        encoding = self.encoding
        p = encoding._positions(positions, x)
        values = to_host(p.values).astype(np.float64)
        index = broadcast_axes(first_axis(p, encoding.num_axes), x)
        length = encoding._seq_len(seq_len, p)
        wide = x.dtype == np.float64
        key = (values.tobytes(), values.shape, length, len(index), wide)
        made: Tables = self._keep(key, lambda: self._make(values, length, index, wide))
        return made

    def _make(
        self, values: np.ndarray, length: int | None, index: tuple[Any, ...], wide: bool
    ) -> Tables:
        """Host positions, float64 (S,), (B, S)..., with the position axes in front."""
        encoding = self.encoding
        several = encoding.num_axes > 1
        if several and bool((values == values[:1]).all()):
            values, several = values[0], False
        axes = encoding.axes() if several else None
        whole = float(encoding.offset).is_integer() and bool((values == np.floor(values)).all())
        if not whole:
            kind = np.dtype("complex128" if wide else "complex64")
            found = rotary_phasors(encoding, values, length, dtype=kind, axes=axes, back=self.back)
            return self.table(found, index)
        at = np.ascontiguousarray(values, np.int64)
        steps = np.diff(at) if at.ndim == 1 else np.zeros(0, np.int64)
        if at.ndim == 1 and bool((steps == steps[:1]).all()):
            step = int(steps[0]) if steps.size else 1
            first = int(at[0]) if at.size else 0
            return self._computed(length, False, None, (step,), 0, first)
        shown = (at[0] if several else at)[index or ...]
        sent = _send(at)
        return self._computed(length, several, sent, _places(shown), at.strides[0] // 8, 0)

    def _computed(
        self,
        length: int | None,
        several: bool,
        positions: Array | None,
        place: tuple[int, ...],
        axis_stride: int,
        first: int,
    ) -> Tables:
        """Angles made in the kernel."""
        encoding = self.encoding
        turns = encoding._turns(length)
        limit = int(MAX_POSITION / max(1.0, turns.fastest))
        m, sign = factor_and_sign(encoding, length, self.back)
        axes = encoding.axes() if several else None
        groups = self._keep(("turns", length, several), lambda: self._frequencies(turns, axes))
        rows = 0 if positions is None else positions.shape[-1]
        return Tables(
            self.runs, encoding.head_dim, groups, False, positions, place, axis_stride, rows,
            first, -limit, limit, int(encoding.offset), m, m * sign,
        )  # fmt: skip

    def _frequencies(self, turns: Turns, axes: np.ndarray | None) -> tuple[Group, ...]:
        made = []
        fixed = fixed_point(turns)
        for runs, gaps in _groups(self.runs, self.encoding.head_dim):
            order = _pairs(runs)
            which = None if axes is None else _send(axes[order].astype(np.int32))
            made.append(Group(runs, gaps, _send(fixed[:, order]), which))
        return tuple(made)

    def _keep(self, key: Any, make: Callable[[], Any]) -> Any:
        """What ``make`` gives, once for each key, device and stream.

        Memory of CuPy's pool is safe in the order of the stream it was made on: a table that was
        used on another stream could be given away while a kernel still reads it.
        """
        import cupy

        stream = cupy.cuda.get_current_stream()
        key = (key, cupy.cuda.runtime.getDevice(), stream.ptr)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        not_captured("positions must be those of an earlier call, or int64 on the device")
        made = make()
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return made


def fixed_point(turns: Turns) -> np.ndarray:
    """Frequencies as 128-bit fractions of a turn, uint64 (2, pairs): the high halves first."""
    parts = []
    for each in zip(turns.t1.tolist(), turns.t2.tolist(), turns.t3.tolist(), strict=True):
        exact = 0
        for part in each:
            over, under = part.as_integer_ratio()
            exact += (over << 128) // under
        parts.append(divmod(exact % 2**128, 2**64))
    return np.ascontiguousarray(np.array(parts, np.uint64).reshape(-1, 2).T)


def _groups(
    runs: tuple[Run, ...], dim: int
) -> list[tuple[tuple[Run, ...], tuple[tuple[int, int], ...]]]:
    """Runs of one kind together: one group, as a rule.  The first copies what no run turns."""
    if any(not run.interleaved for run in runs):  # one pair is both
        runs = tuple(replace(run, interleaved=run.interleaved and run.size > 1) for run in runs)
    kinds = [tuple(r for r in runs if r.interleaved is kind) for kind in (False, True)]
    kinds = [kind for kind in kinds if kind] or [()]
    gaps = tuple([(kept.start, kept.stop) for kept in untouched(runs, dim)])
    return [(kind, gaps if i == 0 else ()) for i, kind in enumerate(kinds)]


def _send(values: np.ndarray) -> Array:
    """``values`` on the current device, row after row."""
    import cupy

    return cupy.asarray(np.ascontiguousarray(values))


def _pairs(runs: tuple[Run, ...]) -> np.ndarray:
    """The pairs in the order of the runs, which is that of the kernel."""
    every = [np.arange(run.pairs.start, run.pairs.stop) for run in runs]
    return np.concatenate([np.zeros(0, np.int64), *every])


def _places(shown: Array) -> tuple[int, ...]:
    """Strides in elements of positions lined up with the axes of x; 0 where they are shared."""
    each = zip(shown.shape, shown.strides, strict=True)
    return tuple([0 if size == 1 else step // shown.itemsize for size, step in each])
