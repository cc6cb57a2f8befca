"""Tables of fixed positions, ready for arrays of one library and dtype."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_ref._namespace import Array, dtype_name, is_array, is_lazy, library

from . import fused_jax, fused_torch
from .tensor_layouts import heads_first

if TYPE_CHECKING:
    from .fused_rotary import FusedRotary, Tables


#: These are turned in float32, by the same tables.
_NARROW = ("float32", "float16", "bfloat16")


def _tensor() -> Any:
    import torch

    return torch.Tensor


def _names(dtype: Any) -> str:
    name = dtype_name(dtype)
    return f"{', '.join(_NARROW[:-1])} or {_NARROW[-1]}" if name in _NARROW else name


class Prepared:
    """Tables of fixed positions; calling it turns arrays whose rows are a window of them."""

    # jax.jit refers weakly to what it is given.
    __slots__ = ("__weakref__", "_dtype", "_fused", "_kind", "_library", "_plain", "_rows",
                 "_tables")  # fmt: skip

    def __init__(self, fused: FusedRotary, tables: Tables, like: Array) -> None:
        self._fused, self._tables = fused, tables
        self._library, self._dtype = library(like), like.dtype
        # Not a Parameter, where like is one.
        self._kind = type(like) if self._library != "torch" else _tensor()
        self._rows = tables.rows
        self._plain = fused.tensor_layout == "bhsd"

    def __repr__(self) -> str:
        kind = f"{self._library} {_names(self._dtype)}"
        return f"{self._fused!r}.prepare({self._rows} positions, {kind})"

    def _serves(self, x: Array) -> bool:
        """Whether the tables are those of x's dtype too: under autocast x is of another one."""
        return dtype_name(self._dtype) in _NARROW and dtype_name(x) in _NARROW

    def __call__(self, x: Array, start: int = 0, *, out: Array | None = None) -> Any:
        """``x`` (..., S, head_dim) turned to the prepared positions ``start .. start + S - 1``.

        In a trace of JAX or a graph of torch ``start`` may be an array of no axes, of which only
        the trace knows the value; rows outside the tables are NaN then.
        """
        # A tracer is of another type; a subclass of NumPy's array is not for these kernels.
        ours = type(x) is self._kind or (
            self._library != "numpy" and (isinstance(x, self._kind) or library(x) == self._library)
        )
        if not ours or (x.dtype != self._dtype and not self._serves(x)):
            raise TypeError(
                f"x must be a {self._library} array of {_names(self._dtype)}, as prepared, got a "
                f"{type(x).__name__} of {getattr(x, 'dtype', None)}"
            )
        fused, tables = self._fused, self._tables
        view = x if self._plain else heads_first(x, fused.tensor_layout, tables.dim)
        if view.ndim < 2 or view.shape[-1] != tables.dim:
            raise ValueError(f"x must have shape (..., S, {tables.dim}), got {tuple(view.shape)}")
        count = view.shape[-2]
        if isinstance(tables, fused_jax.Tables) and is_array(start) and is_lazy(start):
            return fused._rotate(x, view, tables.traced_window(start, count), out)
        if isinstance(tables, fused_torch.Tables) and fused_torch.in_graph(x):
            from . import torch_graph

            return torch_graph.prepared(fused, tables, x, view, start, out)
        try:
            start = operator.index(start)
        except TypeError:
            raise TypeError(
                "start must be an integer, the row of the tables for x's first, got "
                f"{start!r}; for rows of their own, pass positions to fused(encoding)"
            ) from None
        if start < 0 or start + count > self._rows:
            raise ValueError(
                f"start must leave {count} of the {self._rows} prepared rows, got {start}"
            )
        tables = tables.window(start, start + count)
        if isinstance(x, np.ndarray) and x.strides[-1] != x.itemsize:
            raise ValueError("x must be contiguous along its last axis, got other strides")
        return fused._rotate(x, view, tables, out)
