"""The cos and sin tables of rotary encodings, made for the array to rotate and cached."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref._namespace import Array, device_of, dtype_name, library, to_host
from posenc_ref._positions import Positions, broadcast_axes, first_axis

from .cupy_angles import CupyAngles, CupyTables
from .kernels import jax_rotary, numpy_rotary, torch_rotary, torch_state
from .kernels.jax_rotary import JaxTables
from .kernels.kept import Kept
from .kernels.numpy_rotary import NumpyTables
from .kernels.pair_runs import PairRun, pair_runs
from .kernels.phasors import rotary_phasors
from .kernels.torch_rotary import TorchTables

Tables = NumpyTables | TorchTables | JaxTables | CupyTables
#: The cache holds the tables of this many sets of positions, each of at most this many bytes as
#: complex128.  Tables of halves in float64 take twice as many, tables of float32 fewer.
KEPT, LARGEST = 8, 64 * 2**20
#: Dtypes that have tables of their own; arrays of other float dtypes are rotated in float32.
WORKING = {"float64": "complex128", "float32": "complex64"}


class RotaryTables:
    """The tables of one rotary encoding, or of its inverse.

    Attributes
    ----------
    runs : tuple of PairRun, or None
        The channels of the pairs, as runs; None if the encoding has no fast path.
    description : str
        The encoding as JSON, an argument of the operator in a torch graph.
    num_axes : int
        The number of position axes.  It is stored here because ``torch.compile`` cannot trace the
        property ``encoding.num_axes``.
    """

    def __init__(self, encoding: Rotary, inverse: bool, threads: int | None = None) -> None:
        self.encoding, self.inverse, self.threads = encoding, inverse, threads
        own = type(encoding)
        plain = own.apply is Rotary.apply and own._tables is Rotary._tables
        plain = plain and own.inverse is Rotary.inverse
        self.runs: tuple[PairRun, ...] | None = pair_runs(encoding) if plain else None
        given = None if self.runs is None else encoding.to_dict()
        self.num_axes = encoding.num_axes
        self.description = json.dumps({"encoding": given, "inverse": inverse})
        self.cupy = None if self.runs is None else CupyAngles(encoding, self.runs, inverse)
        self.kept = Kept(KEPT)

    def refusal(self, x: Array) -> str:
        """Return the reason why ``x`` has no fast path, or an empty string."""
        if self.runs is None:
            return "no fast path: the pairs of this encoding do not lie in a few slices"
        if library(x) == "torch":
            return "" if torch_state.is_dense(x) else "no fast path: x is a sparse tensor"
        if library(x) in ("jax", "cupy"):
            return ""
        if library(x) != "numpy":
            return f"no fast path: x is an array of {library(x)}"
        if type(x) not in (np.ndarray, np.memmap) or not x.dtype.isnative:
            return "no fast path: x is an np.ndarray subclass or not in native byte order"
        if x.ndim and x.strides[-1] != x.itemsize and x.size:
            return "no fast path: the last axis of x is not contiguous"
        return ""

    def of(self, x: Array, positions: Any, seq_len: int | None) -> Tables:
        """Return the tables for ``x`` (..., S, dim) at ``positions``, cached if possible."""
        encoding = self.encoding
        if self.cupy and library(x) == "cupy":
            return self.cupy.tables(x, positions, seq_len)
        p = encoding._positions(positions, x)
        values = on_host(p)
        index = broadcast_axes(first_axis(p, encoding.num_axes), x)
        length = encoding._seq_len(seq_len, p)
        if library(x) == "torch" and not torch_state.makes_real_tensors():
            return self.make(values, length, x, index)
        home = (
            torch_state.device_and_stream(x.device) if library(x) == "torch" else str(device_of(x))
        )
        where = (library(x), dtype_name(x), home, index and x.ndim)
        made: Tables = self._keep(values, length, where, self.make, x, index)
        return made

    def make(
        self, values: np.ndarray, length: int | None, x: Array, index: tuple[Any, ...] = ()
    ) -> Tables:
        """Return new tables of float64 positions ``values`` for arrays like ``x``.

        ``index`` is an index with None entries: it adds the axes that positions lack, such as that
        of the heads, so that the tables broadcast with x.
        """
        assert self.runs is not None
        dim = self.encoding.head_dim
        found = self._phasors(values, length, WORKING.get(dtype_name(x), "complex64"))
        if index:
            found = found[index]
        if library(x) == "torch":
            return torch_rotary.make_tables(self.runs, found, dim, x.device)
        if self.cupy and library(x) == "cupy":
            return self.cupy.prepared(found, x)
        if library(x) == "jax":
            return jax_rotary.make_tables(self.runs, found, dim)
        return numpy_rotary.make_tables(self.runs, found, dim)

    def tensor(self, positions: Any, seq_len: int | None, wide: bool, device: Any) -> Any:
        """Return cos and sin (2, ..., S, pairs), a tensor on ``device``; do not write to it."""
        p = self.encoding._positions(positions)
        values = on_host(p)
        length = self.encoding._seq_len(seq_len, p)
        where = ("phasors", wide, torch_state.device_and_stream(device))
        return self._keep(values, length, where, self._make_tensor, wide, device)

    def _make_tensor(self, values: np.ndarray, length: int | None, wide: bool, device: Any) -> Any:
        kind = "complex128" if wide else "complex64"
        return torch_rotary.send_phasors(self._phasors(values, length, kind), device)

    def _keep(
        self, values: np.ndarray, length: int | None, where: Any, make: Any, *arguments: Any
    ) -> Any:
        """Return the cached value for these positions, or the value that ``make`` returns."""
        if values.size * len(self.encoding.pairs()[0]) * 16 > LARGEST:
            return make(values, length, *arguments)
        key = (values.tobytes(), values.shape, length, where)
        return self.kept.get(key, lambda: make(values, length, *arguments))

    def _phasors(self, values: np.ndarray, length: int | None, kind: str) -> np.ndarray:
        axes = self.encoding.axes()
        return rotary_phasors(
            self.encoding, values, length, dtype=np.dtype(kind), axes=axes, inverse=self.inverse,
            threads=self.threads,
        )  # fmt: skip


def on_host(p: Positions) -> np.ndarray:
    """Return the positions as a NumPy float64 array."""
    return np.asarray(to_host(p.values), dtype=np.float64)


def path_name(tables: Tables, x: Array) -> str:
    """Return the name of the path that rotates ``x``, for ``explain=True``."""
    kinds, runs = [], tables.runs
    if any(run.interleaved for run in runs):
        kinds.append("pairs side by side")
    if not all(run.interleaved for run in runs):
        kinds.append("halves")
    name = dtype_name(x)
    inside = name if name in WORKING else "float32 inside"
    made = ""
    if isinstance(tables, CupyTables):
        made = ", from a table" if tables.table else ", angles made in the kernel"
    elif isinstance(tables, TorchTables):
        made = torch_rotary.kernel(x)
    by = numpy_rotary.library(x, tables) if isinstance(tables, NumpyTables) else library(x)
    return f"{by}: {' and '.join(kinds)}, {inside}{made}"
