"""Rotary encodings, applied by the fastest correct path for each array."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref import _validate as validate
from posenc_ref._cached import cached_property
from posenc_ref._namespace import Array, is_array, is_lazy, library

from . import fused_cupy, fused_dask, jax_angles
from .fused_cos_sin import cos_sin
from .kernels.output import checked_like, checked_pair
from .kernels.tensor_layouts import heads_first
from .kernels.torch_state import in_graph, is_wrapped, wants_gradients
from .prepared import Prepared
from .rotary_tables import RotaryTables, on_host, path_name
from .rotation import rotate, rotate_cupy


class FusedRotary:
    """A rotary encoding with fast paths and cached tables: :func:`posenc_ref.backends.fused`."""

    def __init__(
        self,
        encoding: Rotary,
        tensor_layout: str,
        threads: int | None = None,
        inverse: bool = False,
    ) -> None:
        self.encoding = encoding
        self.tensor_layout = tensor_layout
        self.threads = threads
        self._inverse = inverse
        self._tables = RotaryTables(encoding, inverse, threads)

    def __repr__(self) -> str:
        threads = "" if self.threads is None else f", threads={self.threads}"
        shown = f"fused({self.encoding!r}, tensor_layout={self.tensor_layout!r}{threads})"
        return f"{shown}.inverse" if self._inverse else shown

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies, and workers that receive one, make their own tables.
        return type(self), (self.encoding, self.tensor_layout, self.threads, self._inverse)

    @cached_property
    def inverse(self) -> FusedRotary:
        """The fast form of ``encoding.inverse``, with the same methods."""
        return type(self)(self.encoding, self.tensor_layout, self.threads, not self._inverse)

    def __call__(
        self,
        x: Array,
        positions: Any,
        *,
        seq_len: int | None = None,
        out: Array | None = None,
        explain: bool = False,
    ) -> Any:
        """Return ``encoding.apply(x, positions)``.

        ``inverse(x, positions)`` returns ``encoding.inverse(x, positions)``.  The result is written
        into ``out`` if it is given; ``out=x`` rotates in place.  With ``explain=True``, return a
        pair: the result and the name of the path that made it.
        """
        source, layout, dim = self._tables, self.tensor_layout, self.encoding.head_dim
        if source.runs is not None and (in_graph(x) or is_wrapped(positions)):
            from . import torch_graph

            made = torch_graph.call(source, layout, x, positions, seq_len, out)
            return (made, "torch: plain operations, tables made at run time") if explain else made
        view = heads_first(x, layout, dim)
        validate.check_x(view, dim, "head_dim")
        reason = source.refusal(x)
        lazy = is_array(positions) and is_lazy(positions)
        if lazy:
            reason = "no fast path: positions are lazy or traced"
        if wants_gradients(positions):
            reason = "no fast path: positions require gradients"
        if library(x) == "dask" and source.runs is not None and not lazy and out is None:
            rotated = fused_dask.rotate(
                _rotate_chunk, self.encoding, self._inverse, view, positions, seq_len
            )
            result = heads_first(rotated, layout, dim, back=x)
            path = "dask: chunk by chunk, each on its own fast path"
        elif lazy and source.runs is not None and jax_angles.takes(x, positions):
            tables = jax_angles.tables(
                self.encoding, source.runs, self._inverse, view, positions, seq_len
            )
            result = rotate(x, view, tables, layout, out)
            path = "jax: angles computed in the trace"
        elif reason:
            result, path = self._specification(x, view, positions, seq_len, out), reason
        else:
            found = source.of(view, positions, seq_len)
            result = rotate(x, view, found, layout, out, self.threads)
            path = path_name(found, x) if explain else ""
        return (result, path) if explain else result

    def qk(
        self,
        q: Array,
        k: Array,
        positions: Any,
        k_positions: Any = None,
        *,
        seq_len: int | None = None,
        out: tuple[Array, Array] | None = None,
        explain: bool = False,
    ) -> Any:
        """Rotate queries and keys; by default keys are at ``positions`` too.

        If frequencies depend on the length, queries and keys use one length: ``seq_len``, or the
        largest of all their positions plus one.  With ``explain=True``, return the pair (q, k) and
        the name of the path that made it.
        """
        at = positions if k_positions is None else k_positions
        graph = in_graph(q)
        if graph and out is not None:  # addresses are not known there, so write when both are read
            from . import torch_graph

            made = self.qk(q, k, positions, k_positions, seq_len=seq_len, explain=explain)
            both, *path = made if explain else (made,)
            both = torch_graph.both_into(out, (q, k), both)
            return (both, *path) if explain else both
        if self.encoding.depends_on_length and seq_len is None and k_positions is not None:
            if graph:
                raise ValueError(
                    "seq_len must be given if the frequencies depend on the length, k_positions "
                    "are given and a graph is captured, got None"
                )
            both = [self.encoding._positions(p) for p in (positions, at)]
            lengths = [self.encoding._seq_len(None, p) for p in both]
            seq_len = max((n for n in lengths if n is not None), default=None)
        for_q, for_k = (None, None) if out is None else checked_pair(out, q, k)
        cupy = self._tables.cupy
        if not graph and cupy and k_positions is None and library(q) == library(k) == "cupy":
            views = [heads_first(a, self.tensor_layout, self.encoding.head_dim) for a in (q, k)]
            for view in views:
                validate.check_x(view, self.encoding.head_dim, "head_dim")
            tables = cupy.tables(views[0], positions, seq_len)
            if fused_cupy.shared(tables, *views):
                given = zip((q, k), views, (for_q, for_k), strict=True)
                rotated = tuple(rotate_cupy(given, tables, self.tensor_layout))
                return (rotated, path_name(tables, q)) if explain else rotated
        one = self(q, positions, seq_len=seq_len, out=for_q, explain=explain)
        other = self(k, at, seq_len=seq_len, out=for_k, explain=explain)
        if not explain:
            return one, other
        same = one[1] == other[1]
        return (one[0], other[0]), one[1] if same else f"for q, {one[1]}; for k, {other[1]}"

    def cos_sin(
        self,
        positions: Any,
        *,
        seq_len: int | None = None,
        dtype: Any = None,
        out: tuple[np.ndarray, np.ndarray] | None = None,
        explain: bool = False,
    ) -> Any:
        """Return ``encoding.cos_sin(positions)``: float64, or in ``dtype``, or written to ``out``.

        ``out`` is a pair of arrays. Host positions give NumPy arrays.  For positions of another
        library, ``encoding.cos_sin`` makes the tables in that library.  ``inverse.cos_sin`` returns
        the same tables.
        """
        made, path = cos_sin(self.encoding, positions, seq_len, dtype, out, self.threads)
        return (made, path) if explain else made

    def prepare(self, positions: Any, *, like: Array, seq_len: int | None = None) -> Prepared:
        """Return a callable that rotates arrays by tables made once for ``positions``.

        The arrays must have the library and device of ``like``, and its dtype; float32, float16 and
        bfloat16 count as one dtype.  The result of ``prepare(range(8192), like=x)`` rotates arrays
        at any window of these positions, in training and in decoding.

        If frequencies depend on the length, every window uses one length: ``seq_len``, or the
        largest position plus one.
        """
        if isinstance(like, type) or not is_array(like):
            raise TypeError(f"like must be an array such as x, got {type(like).__name__}")
        reason = self._tables.refusal(like)
        if reason:
            raise ValueError(f"like must be an array with a fast path, got one with {reason}")
        p = self.encoding._positions(positions)
        values = on_host(p)
        if values.ndim != (1 if self.encoding.num_axes == 1 else 2):
            raise ValueError(
                "positions must be one row, of shape (S,) or (A, S) for A position axes, got "
                f"{np.shape(positions)}"
            )
        length = self.encoding._seq_len(seq_len, p)
        tables = self._tables.make(values, length, like)
        return Prepared(repr(self), self.tensor_layout, tables, like, self.threads)

    def _specification(
        self, x: Array, view: Array, positions: Any, seq_len: int | None, out: Array | None
    ) -> Array:
        turn = self.encoding.inverse if self._inverse else self.encoding.apply
        result = turn(view, positions, seq_len=seq_len)
        result = heads_first(result, self.tensor_layout, self.encoding.head_dim, back=x)
        if out is None:
            return result
        if library(x) not in ("numpy", "torch", "cupy"):
            raise TypeError(f"out cannot be given for {library(x)} arrays: they cannot be written")
        checked_like(out, x)[...] = result
        return out


def _rotate_chunk(
    x: Array, positions: np.ndarray, *, encoding: Rotary, inverse: bool, length: int | None
) -> Any:
    """Rotate one chunk of a Dask array."""
    return _of_worker(encoding, inverse)(x, positions, seq_len=length)


@functools.lru_cache(maxsize=16)
def _of_worker(encoding: Rotary, inverse: bool) -> FusedRotary:
    """Return the instance that rotates all chunks in this worker process, cached."""
    return FusedRotary(encoding, "bhsd", 1, inverse)  # Dask has a thread for every core
