"""Tables of fixed positions, made once for arrays of one library."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from posenc_ref._namespace import Array, dtype_name, is_array, is_lazy, library
from posenc_ref._text import shown

from .kernels.jax_rotary import JaxTables
from .kernels.tensor_layouts import heads_first
from .kernels.torch_rotary import TorchTables
from .kernels.torch_state import in_graph, makes_real_tensors, tensor_type
from .rotary_tables import Tables
from .rotation import rotate

#: Arrays of these dtypes use the same float32 tables.
_NARROW = ("float32", "float16", "bfloat16")


def _names(dtype: Any) -> str:
    name = dtype_name(dtype)
    return f"{', '.join(_NARROW[:-1])} or {_NARROW[-1]}" if name in _NARROW else name


class Prepared:
    """A callable that rotates arrays by tables of cos and sin, which are made once.

    Row r of the tables belongs to ``positions[r]`` of :meth:`FusedRotary.prepare`.  Each call uses
    consecutive rows.
    """

    # jax.jit needs a weak reference to the function that it traces.
    __slots__ = ("__weakref__", "_dtype", "_kind", "_last", "_layout", "_library", "_name",
                 "_plain", "_rows", "_tables", "_threads")  # fmt: skip

    def __init__(
        self, name: str, layout: str, tables: Tables, like: Array, threads: int | None
    ) -> None:
        self._name, self._layout, self._tables, self._threads = name, layout, tables, threads
        self._library, self._dtype = library(like), like.dtype
        # Tables made with a Parameter as ``like`` accept plain tensors.
        self._kind = tensor_type() if self._library == "torch" else type(like)
        self._rows = tables.rows
        self._plain = layout == "bhsd"
        self._last: tuple[tuple[int, int], Tables] = (0, self._rows), tables

    def __repr__(self) -> str:
        kind = f"{self._library} {_names(self._dtype)}"
        return f"{self._name}.prepare({self._rows} positions, {kind})"

    def _serves(self, x: Array) -> bool:
        """Return whether the tables fit x's dtype, which autocast may have changed."""
        native = getattr(x.dtype, "isnative", True)  # only NumPy has others
        return native and dtype_name(self._dtype) in _NARROW and dtype_name(x) in _NARROW

    def __call__(self, x: Array, start: int = 0, *, out: Array | None = None) -> Any:
        """Rotate ``x`` (..., S, head_dim) by the rows ``start`` to ``start + S - 1`` of the tables.

        In a trace of JAX or a graph of torch, ``start`` may be an array without axes; its value is
        not checked there, and rows outside the tables are NaN.
        """
        # A JAX tracer has another type than an array; subclasses of NumPy's array are refused.
        ours = type(x) is self._kind or (
            self._library != "numpy" and (isinstance(x, self._kind) or library(x) == self._library)
        )
        if not ours or (x.dtype != self._dtype and not self._serves(x)):
            raise TypeError(
                f"x must be a {self._library} array of {_names(self._dtype)}, as prepared, got a "
                f"{type(x).__name__} of {getattr(x, 'dtype', None)}"
            )
        tables = self._tables
        view = x if self._plain else heads_first(x, self._layout, tables.dim)
        shape = view.shape
        if len(shape) < 2 or shape[-1] != tables.dim:
            raise ValueError(f"x must have shape (..., S, {tables.dim}), got {tuple(shape)}")
        count = shape[-2]
        if isinstance(tables, JaxTables) and is_array(start) and is_lazy(start):
            return rotate(x, view, tables.traced_window(start, count), self._layout, out)
        if isinstance(tables, TorchTables) and in_graph(x):
            from . import torch_graph

            return torch_graph.prepared(tables, self._layout, x, view, start, out)
        try:
            start = operator.index(start)
        except TypeError:
            raise TypeError(
                "start must be an integer, the table row of x's first position, got "
                f"{shown(start)}; for positions that are not consecutive rows, pass positions to "
                "fused(encoding)"
            ) from None
        if start < 0 or start + count > self._rows:
            raise ValueError(
                f"start must be at least 0 and start + S at most {self._rows}, the number of "
                f"prepared rows, got start = {start} and S = {count}"
            )
        # The queries and keys of every layer have the same positions.
        last = self._last
        if type(count) is not int or last[0] != (start, count):  # a symbol while torch exports
            last = (start, count), tables.window(start, start + count)
            if not isinstance(tables, TorchTables) or makes_real_tensors():
                self._last = last
        tables = last[1]
        if isinstance(x, np.ndarray) and x.strides[-1] != x.itemsize:
            raise ValueError("x must be contiguous along its last axis, got other strides")
        return rotate(x, view, tables, self._layout, out, self._threads)
