"""Make the tables or frequencies that the CUDA kernel needs, and cache them for each stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref._namespace import INTEGER, Array, dtype_name, library, to_host
from posenc_ref._positions import Positions, broadcast_axes, first_axis
from posenc_ref.angles import Turns

from .cupy_device import not_captured, on_device_of
from .kernels.device_positions import align, fixed_point, largest_position
from .kernels.kept import Kept
from .kernels.pair_runs import PairRun, unrotated
from .kernels.phasors import factor_and_sign, rotary_phasors

#: The cache holds the angles of this many sets of positions.
_KEPT = 64


@dataclass(slots=True)
class Group:
    """The runs of channel pairs that one launch rotates, and their angles on the device.

    The runs are all interleaved (pairs of adjacent channels), or all half-split (the first channels
    of the pairs, then the second ones).
    """

    runs: tuple[PairRun, ...]
    gaps: tuple[tuple[int, int], ...]  #: channels that this launch copies, as start and stop
    angles: Array
    axes: Array | None  #: the position axis of each pair; None if there is one axis


@dataclass(slots=True)
class CupyTables:
    """The kernel arguments that give the angles of each row of x."""

    runs: tuple[PairRun, ...]
    dim: int
    groups: tuple[Group, ...]
    table: bool  #: whether ``angles`` is a table (rows, 2, pairs) and positions its rows
    positions: Array | None  #: int64 on the device; None for ``first``, ``first + 1``, ...
    place: tuple[int, ...]  #: strides of positions along all axes of x except the last
    axis_stride: int
    rows: int
    first: int
    lowest: int
    highest: int
    offset: int
    cos_factor: float
    sin_factor: float

    def window(self, start: int, stop: int) -> CupyTables:
        """Return the tables of rows ``start`` to ``stop``; positions must have one axis (S,)."""
        return replace(self, first=self.first + start, rows=stop - start)


class CupyAngles:
    """The angles of one encoding, or of its inverse, made at the first use and then cached."""

    def __init__(self, encoding: Rotary, runs: tuple[PairRun, ...], inverse: bool = False) -> None:
        self.encoding, self.runs, self.inverse = encoding, runs, inverse
        self.kept = Kept(_KEPT)

    def tables(self, x: Array, positions: Any, seq_len: int | None) -> CupyTables:
        """Return the angles for ``x`` (..., S, dim) at ``positions``."""
        with on_device_of(x):
            if isinstance(positions, range):  # the range itself is the cache key, which is fast
                key = (positions, seq_len, x.shape[-2], x.dtype == np.float64)
                made: CupyTables = self._keep(key, lambda: self._of_host(x, positions, seq_len))
                return made
            if self._can_stay(positions, seq_len):
                return self._of_device(x, positions, seq_len)
            return self._of_host(x, positions, seq_len)

    def prepared(self, phasors: np.ndarray, like: Array) -> CupyTables:
        """Return the table of ``phasors`` on the device of ``like``, for use on any stream."""
        import cupy

        with on_device_of(like):
            made = self.table(phasors)
            cupy.cuda.get_current_stream().synchronize()
        return made

    def table(self, phasors: np.ndarray, index: tuple[Any, ...] = ()) -> CupyTables:
        """Return the table of ``phasors`` (..., S, pairs) on the current device.

        The phasors include the attention factor and the sign of the rotation.  ``index`` is an
        index with None entries: it adds the axes that positions lack, such as that of the heads, so
        that positions broadcast with x.
        """
        rows = phasors.reshape(-1, phasors.shape[-1])
        groups = []
        for runs, gaps in _groups(self.runs, self.encoding.head_dim):
            chosen = rows[:, _pairs(runs)]
            entries = np.stack([chosen.real, chosen.imag], axis=1)
            groups.append(Group(runs, gaps, _send(entries), None))
        counted = np.arange(len(rows)).reshape(phasors.shape[:-1])[index or ...]
        return CupyTables(
            self.runs, self.encoding.head_dim, tuple(groups), True, None,
            _places(counted), 0, phasors.shape[-2], 0, 0, len(rows) - 1, 0, 1.0, 1.0,
        )  # fmt: skip

    def _can_stay(self, positions: Any, seq_len: int | None) -> bool:
        """Return whether the kernel can use the positions where they are, on the device."""
        # uint64 may exceed int64.
        return (
            library(positions) == "cupy"
            and dtype_name(positions) in INTEGER
            and dtype_name(positions) != "uint64"
            and float(self.encoding.offset).is_integer()
            and (seq_len is not None or not self.encoding.depends_on_length)
        )

    def _of_device(self, x: Array, positions: Array, seq_len: int | None) -> CupyTables:
        if positions.device != x.device:
            raise ValueError(
                f"positions are on device {positions.device} but x is on device {x.device}: "
                f"move them, or pass them as a NumPy array"
            )
        encoding = self.encoding
        at, several, index = align(encoding.num_axes, positions, x)
        p = Positions(at, None, None)
        length = seq_len if encoding.depends_on_length else encoding._seq_len(seq_len, p)
        if at.dtype != np.int64:
            not_captured(f"positions must be int64, got {dtype_name(at)}")
            at = at.astype(np.int64)
        shown = (at[0] if several else at)[index or ...]
        return self._computed(length, several, at, _places(shown), at.strides[0] // 8, 0)

    def _of_host(self, x: Array, positions: Any, seq_len: int | None) -> CupyTables:
        encoding = self.encoding
        p = encoding._positions(positions, x)
        values = to_host(p.values).astype(np.float64)
        index = broadcast_axes(first_axis(p, encoding.num_axes), x)
        length = encoding._seq_len(seq_len, p)
        wide = x.dtype == np.float64
        key = (values.tobytes(), values.shape, length, len(index), wide)
        made: CupyTables = self._keep(key, lambda: self._make(values, length, index, wide))
        return made

    def _make(
        self, values: np.ndarray, length: int | None, index: tuple[Any, ...], wide: bool
    ) -> CupyTables:
        """Return the angles of float64 host positions, (S,) or (B, S).

        With A > 1 position axes, ``values`` is (A, S) or (A, B, S).
        """
        encoding = self.encoding
        several = encoding.num_axes > 1
        if several and bool((values == values[:1]).all()):
            values, several = values[0], False
        axes = encoding.axes() if several else None
        whole = float(encoding.offset).is_integer() and bool((values == np.floor(values)).all())
        if not whole:
            kind = np.dtype("complex128" if wide else "complex64")
            found = rotary_phasors(
                encoding, values, length, dtype=kind, axes=axes, inverse=self.inverse
            )
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
    ) -> CupyTables:
        """Return arguments for a kernel that computes the angles from the positions."""
        encoding = self.encoding
        turns = encoding._turns(length)
        limit = largest_position(turns)
        m, sign = factor_and_sign(encoding, length, self.inverse)
        axes = encoding.axes() if several else None
        groups = self._keep(("turns", length, several), lambda: self._frequencies(turns, axes))
        rows = 0 if positions is None else positions.shape[-1]
        return CupyTables(
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
        """Return the cached value for this key, device and stream; call ``make`` if there is none.

        CuPy's pool may reuse freed memory on the stream that allocated it while a kernel on
        another stream still reads it.  So only one stream may use a table.
        """
        import cupy

        stream = cupy.cuda.get_current_stream()
        key = (key, cupy.cuda.runtime.getDevice(), stream.ptr)

        def allowed() -> Any:
            not_captured(
                "positions must be int64 on the device, or equal those of an earlier call on this "
                "stream, whose tables are cached"
            )
            return make()

        return self.kept.get(key, allowed)


def _groups(
    runs: tuple[PairRun, ...], dim: int
) -> list[tuple[tuple[PairRun, ...], tuple[tuple[int, int], ...]]]:
    """Return the interleaved runs and the other runs as groups (runs, channels to copy).

    The first group copies all channels that are not rotated.
    """
    if any(not run.interleaved for run in runs):  # a single pair counts as halves
        runs = tuple(replace(run, interleaved=run.interleaved and run.size > 1) for run in runs)
    kinds = [tuple(r for r in runs if r.interleaved is kind) for kind in (False, True)]
    kinds = [kind for kind in kinds if kind] or [()]
    gaps = tuple([(kept.start, kept.stop) for kept in unrotated(runs, dim)])
    return [(kind, gaps if i == 0 else ()) for i, kind in enumerate(kinds)]


def _send(values: np.ndarray) -> Array:
    """Return ``values`` on the current device, contiguous."""
    import cupy

    return cupy.asarray(np.ascontiguousarray(values))


def _pairs(runs: tuple[PairRun, ...]) -> np.ndarray:
    """Return the indices of the pairs, in the order of the runs."""
    every = [np.arange(run.pairs.start, run.pairs.stop) for run in runs]
    return np.concatenate([np.zeros(0, np.int64), *every])


def _places(shown: Array) -> tuple[int, ...]:
    """Return the strides, in elements, of positions broadcast to x; 0 along broadcast axes."""
    each = zip(shown.shape, shown.strides, strict=True)
    return tuple([0 if size == 1 else step // shown.itemsize for size, step in each])
