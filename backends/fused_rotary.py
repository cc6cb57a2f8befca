"""Rotary encodings on the fastest correct path for the array they get."""

from __future__ import annotations

import functools
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref import _validate as validate
from posenc_ref._namespace import Array, device_of, dtype_name, is_array, is_lazy, library, to_host
from posenc_ref._positions import Positions, broadcast_axes, first_axis

from . import fused_cupy, fused_dask, fused_jax, fused_numpy, fused_torch, jax_angles
from .destination import checked_like, checked_pair
from .fused_cos_sin import cos_sin
from .pair_runs import Run, pair_runs
from .phasors import rotary_phasors
from .prepared import Prepared
from .tensor_layouts import heads_first

#: Tables of this many different positions are kept, if they are no larger than the second number.
_KEPT, _LARGEST = 8, 64 * 2**20
Tables = fused_numpy.Tables | fused_torch.Tables | fused_jax.Tables | fused_cupy.Tables
#: float16 and narrower are turned in float32.
_WORKING = {"float64": "complex128", "float32": "complex64"}


class FusedRotary:
    """A rotary encoding made fast; see :func:`posenc_ref.backends.fused`."""

    def __init__(self, encoding: Rotary, tensor_layout: str, back: bool = False) -> None:
        self.encoding = encoding
        self.tensor_layout = tensor_layout
        self._back = back
        own = type(encoding)
        plain = own.apply is Rotary.apply and own._tables is Rotary._tables
        plain = plain and own.inverse is Rotary.inverse
        self._runs: tuple[Run, ...] | None = pair_runs(encoding) if plain else None
        #: What a graph of torch knows it by, and cannot work out.
        given = None if self._runs is None else encoding.to_dict()
        self.described = json.dumps({"encoding": given, "back": back})
        self.num_axes = encoding.num_axes
        self._cupy = None if self._runs is None else fused_cupy.Source(encoding, self._runs, back)
        self._kept: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        shown = f"fused({self.encoding!r}, tensor_layout={self.tensor_layout!r})"
        return f"{shown}.inverse" if self._back else shown

    def __reduce__(self) -> tuple[Any, ...]:
        # What is kept is made again: models that hold this are copied and sent to workers.
        return type(self), (self.encoding, self.tensor_layout, self._back)

    @functools.cached_property
    def inverse(self) -> FusedRotary:
        """``encoding.inverse`` made fast: the same calls, ``prepare`` and ``qk`` included."""
        return type(self)(self.encoding, self.tensor_layout, not self._back)

    def __call__(
        self,
        x: Array,
        positions: Any,
        *,
        seq_len: int | None = None,
        out: Array | None = None,
        explain: bool = False,
    ) -> Any:
        """``encoding.apply(x, positions)``, into ``out`` if it is given; ``out=x`` is in place.

        Of :attr:`inverse`, ``encoding.inverse(x, positions)``.

        With ``explain=True``, a pair of the result and the name of the path that made it.
        """
        if self._runs is not None and (fused_torch.in_graph(x) or fused_torch.opaque(positions)):
            from . import torch_graph

            made = torch_graph.call(self, x, positions, seq_len, out)
            return (made, "torch: written out, tables from an operator") if explain else made
        view = heads_first(x, self.tensor_layout, self.encoding.head_dim)
        validate.check_x(view, self.encoding.head_dim, "head_dim")
        reason = self._refusal(x)
        lazy = is_array(positions) and is_lazy(positions)
        if lazy:
            reason = "specification: positions are lazy or traced"
        if fused_torch.wants_gradients(positions):
            reason = "specification: gradients reach the positions"
        if library(x) == "dask" and self._runs is not None and not lazy and out is None:
            turned = fused_dask.rotate(self.encoding, self._back, view, positions, seq_len)
            result = heads_first(turned, self.tensor_layout, self.encoding.head_dim, back=x)
            path = "dask: chunk by chunk, each on its own fast path"
        elif lazy and self._runs is not None and jax_angles.takes(x, positions):
            made = jax_angles.tables(
                self.encoding, self._runs, self._back, view, positions, seq_len
            )
            result, path = self._rotate(x, view, made, out), "jax: from phases in the trace"
        elif reason:
            result, path = self._specification(x, view, positions, seq_len, out), reason
        else:
            tables = self._tables_for(view, positions, seq_len)
            result = self._rotate(x, view, tables, out)
            path = _name(tables, x) if explain else ""
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
        """Queries and keys in one call; ``k_positions`` are those of the queries by default.

        Where the frequencies depend on the length, it is that of both together.  With
        ``explain=True``, a pair of the two results and the name of the path that made them.
        """
        at = positions if k_positions is None else k_positions
        graph = fused_torch.in_graph(q)
        if self.encoding.depends_on_length and seq_len is None and k_positions is not None:
            if graph:
                raise ValueError(
                    "seq_len must be given where the frequencies depend on the length and a graph "
                    "is captured, got None"
                )
            both = [self.encoding._positions(p) for p in (positions, at)]
            lengths = [self.encoding._seq_len(None, p) for p in both]
            seq_len = max((n for n in lengths if n is not None), default=None)
        for_q, for_k = (None, None) if out is None else checked_pair(out, q, k)
        if not graph and self._cupy and k_positions is None and library(q) == library(k) == "cupy":
            views = [heads_first(a, self.tensor_layout, self.encoding.head_dim) for a in (q, k)]
            for view in views:
                validate.check_x(view, self.encoding.head_dim, "head_dim")
            tables = self._cupy.tables(views[0], positions, seq_len)
            if fused_cupy.shared(tables, *views):
                given = zip((q, k), views, (for_q, for_k), strict=True)
                turned = tuple(self._rotate_cupy(given, tables))
                return (turned, _name(tables, q)) if explain else turned
        one = self(q, positions, seq_len=seq_len, out=for_q, explain=explain)
        other = self(k, at, seq_len=seq_len, out=for_k, explain=explain)
        if not explain:
            return one, other
        same = one[1] == other[1]
        return (one[0], other[0]), one[1] if same else f"q by {one[1]}; k by {other[1]}"

    def cos_sin(
        self,
        positions: Any,
        *,
        seq_len: int | None = None,
        dtype: Any = None,
        out: tuple[np.ndarray, np.ndarray] | None = None,
        explain: bool = False,
    ) -> Any:
        """``encoding.cos_sin(positions)``, float64 unless ``dtype`` or ``out``, a pair of arrays.

        Positions on the host make NumPy arrays; those of another library stay there, by the
        specification.  Of :attr:`inverse` they are the same tables: the sign is not in them.
        """
        made, path = cos_sin(self.encoding, positions, seq_len, dtype, out)
        return (made, path) if explain else made

    def prepare(self, positions: Any, *, like: Array, seq_len: int | None = None) -> Prepared:
        """Tables made once, for arrays of the library and device of ``like``.

        ``prepare(range(8192), like=x)`` serves every window of these positions, in training steps
        and decoding; made like float32 or narrower they serve all dtypes that are no wider.

        Where the frequencies follow the length, it is one for good: ``seq_len``, or the largest of
        the positions plus one, however few tokens a window has.
        """
        if isinstance(like, type) or not is_array(like):
            raise TypeError(f"like must be an array such as x, got {type(like).__name__}")
        reason = self._refusal(like)
        if reason:
            raise ValueError(f"like must be an array with a fused path, got one for the {reason}")
        p = self.encoding._positions(positions)
        values = _on_host(p)
        if values.ndim != (1 if self.encoding.num_axes == 1 else 2):
            raise ValueError(
                f"positions must be one row, (S,), to be prepared, got {np.shape(positions)}"
            )
        length = self.encoding._seq_len(seq_len, p)
        return Prepared(self, self._make(values, length, like), like)

    # -- how it is done ----------------------------------------------------------------------

    def _refusal(self, x: Array) -> str:
        """Why the specification must do it, or nothing."""
        if self._runs is None:
            return "specification: the pairs of this encoding do not lie in a few slices"
        if library(x) == "torch":
            return "" if x.layout == _strided() else "specification: x is a sparse tensor"
        if library(x) in ("jax", "cupy"):
            return ""
        if library(x) != "numpy":
            return f"specification: no fused path for {library(x)} arrays"
        if type(x) is not np.ndarray or not x.dtype.isnative:
            return "specification: x is not a plain array of native numbers"
        if x.strides[-1] != x.itemsize and x.size:
            return "specification: the last axis of x is not contiguous"
        return ""

    def _tables_for(self, x: np.ndarray, positions: Any, seq_len: int | None) -> Tables:
        encoding = self.encoding
        if self._cupy and library(x) == "cupy":
            return self._cupy.tables(x, positions, seq_len)
        p = encoding._positions(positions, x)
        values = _on_host(p)
        index = broadcast_axes(first_axis(p, encoding.num_axes), x)
        length = encoding._seq_len(seq_len, p)
        if library(x) == "torch" and not _lasting():
            return self._make(values, length, x, index)
        home = fused_torch.place(x.device) if library(x) == "torch" else str(device_of(x))
        where = (library(x), dtype_name(x), home, index and x.ndim)
        made: Tables = self._keep(
            values, length, where, lambda: self._make(values, length, x, index)
        )
        return made

    def kept_phasors(self, positions: Any, seq_len: int | None, wide: bool, device: Any) -> Any:
        """cos and sin (2, ..., S, pairs), a tensor on ``device`` that must not be written to."""
        p = self.encoding._positions(positions)
        values = _on_host(p)
        length = self.encoding._seq_len(seq_len, p)

        def make() -> Any:
            kind = np.dtype("complex128" if wide else "complex64")
            return fused_torch.send_phasors(self._phasors(values, length, kind), device)

        return self._keep(values, length, ("phasors", wide, fused_torch.place(device)), make)

    def _keep(
        self, values: np.ndarray, length: int | None, where: Any, make: Callable[[], Any]
    ) -> Any:
        """What ``make`` gives, once for each set of positions, length and place."""
        if values.size * len(self.encoding.pairs()[0]) * 16 > _LARGEST:
            return make()
        key = (values.tobytes(), values.shape, length, where)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = make()
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return made

    def _phasors(self, values: np.ndarray, length: int | None, kind: np.dtype) -> np.ndarray:
        axes = self.encoding.axes()
        return rotary_phasors(self.encoding, values, length, dtype=kind, axes=axes, back=self._back)

    def _make(
        self, values: np.ndarray, length: int | None, x: Array, index: tuple[Any, ...] = ()
    ) -> Tables:
        encoding = self.encoding
        assert self._runs is not None
        kind = np.dtype(_WORKING.get(dtype_name(x), "complex64"))
        found = self._phasors(values, length, kind)
        if index:
            found = found[index]
        if library(x) == "torch":
            return fused_torch.make_tables(self._runs, found, encoding.head_dim, x.device)
        if self._cupy and library(x) == "cupy":
            return self._cupy.prepared(found, x)
        if library(x) == "jax":
            return fused_jax.make_tables(self._runs, found, encoding.head_dim)
        return fused_numpy.make_tables(self._runs, found, encoding.head_dim)

    def _rotate(self, x: Array, view: Array, tables: Tables, out: Array | None) -> Array:
        """``view`` is x with heads first; the result has x's own layout."""
        if isinstance(tables, fused_torch.Tables):
            return self._rotate_tensor(x, view, tables, out)
        if isinstance(tables, fused_cupy.Tables):
            return self._rotate_cupy([(x, view, out)], tables)[0]
        if isinstance(tables, fused_jax.Tables):
            if out is not None:
                raise TypeError("out cannot be given for jax arrays: they cannot be written")
            turned = fused_jax.rotate(view, tables)
            return heads_first(turned, self.tensor_layout, tables.dim, back=x)
        if out is None:
            out = np.empty(x.shape, x.dtype)
        elif checked_like(out, x) is not x and np.may_share_memory(out, x):
            # They may overlap without being one: a copy is turned.
            out[...] = self._rotate(x, view, tables, None)
            return out
        if out is x:
            into = view
        else:
            into = out if view is x else heads_first(out, self.tensor_layout, tables.dim)
        if x.size:
            fused_numpy.rotate(view, tables, into)
        return out

    def _rotate_tensor(
        self, x: Array, view: Array, tables: fused_torch.Tables, out: Array | None
    ) -> Array:
        layout, dim = self.tensor_layout, tables.dim
        if out is None:
            return heads_first(fused_torch.rotate(view, tables), layout, dim, back=x)
        if checked_like(out, x) is not x and _may_overlap(out, x):
            return out.copy_(self._rotate_tensor(x, view, tables, None))
        into = view if out is x else heads_first(out, layout, dim)
        fused_torch.rotate_into(view, tables, into)
        return out

    def _rotate_cupy(
        self, given: Iterable[tuple[Array, Array, Array | None]], tables: fused_cupy.Tables
    ) -> list[Array]:
        """Each of ``given`` is x, x with heads first, and ``out``; one launch for all."""
        results, turned, copied = [], [], []
        for x, view, out in given:
            if out is None:
                goal = fused_cupy.empty_like(x)
            else:
                goal = fused_cupy.checked_out(checked_like(out, x), x)
                if fused_cupy.overlap(x, goal):
                    fused_cupy.not_captured("out must be x, or share no memory with it")
                    copied.append((goal, goal := fused_cupy.empty_like(x)))
            results.append(goal if out is None else out)
            turned.append((view, heads_first(goal, self.tensor_layout, tables.dim)))
        fused_cupy.rotate(turned, tables)
        for into, result in copied:
            into[...] = result
        return results

    def _specification(
        self, x: Array, view: Array, positions: Any, seq_len: int | None, out: Array | None
    ) -> Array:
        turn = self.encoding.inverse if self._back else self.encoding.apply
        result = turn(view, positions, seq_len=seq_len)
        result = heads_first(result, self.tensor_layout, self.encoding.head_dim, back=x)
        if out is None:
            return result
        if library(x) not in ("numpy", "torch", "cupy"):
            raise TypeError(f"out cannot be given for {library(x)} arrays: they cannot be written")
        checked_like(out, x)[...] = result
        return out


def _on_host(p: Positions) -> np.ndarray:
    return np.asarray(to_host(p.values), dtype=np.float64)


def _name(tables: Tables, x: Array) -> str:
    kinds, runs = [], tables.runs
    if any(run.interleaved for run in runs):
        kinds.append("pairs side by side")
    if not all(run.interleaved for run in runs):
        kinds.append("halves")
    name = dtype_name(x)
    inside = name if name in _WORKING else "float32 inside"
    made = ""
    if isinstance(tables, fused_cupy.Tables):
        made = ", from a table" if tables.table else ", angles made in the kernel"
    elif isinstance(tables, fused_torch.Tables):
        made = fused_torch.kernel(x)
    return f"{library(x)}: {' and '.join(kinds)}, {inside}{made}"


def _strided() -> Any:
    import torch

    return torch.strided


def _lasting() -> bool:
    """Whether tensors made now are torch's own: under fake tensors and transforms they are not."""
    import torch

    probe = torch.empty(0)
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor(probe)
    return type(probe) is torch.Tensor and not wrapped


def _may_overlap(out: Array, x: Array) -> bool:
    """Whether two tensors share memory, for all that is known without a search."""
    return bool(out.untyped_storage().data_ptr() == x.untyped_storage().data_ptr())
