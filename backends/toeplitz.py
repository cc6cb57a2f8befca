"""Biases that depend on offsets, in a number per head and offset instead of Q times K per head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from posenc_ref import Bias
from posenc_ref import _validate as validate
from posenc_ref._namespace import class_of, finish, is_array, library

from .kernels import numba_loops
from .kernels.output import checked_like, checked_shape, empty_floats
from .kernels.threads import checked, count, cuts, share

#: Matrices of fewer bytes stay in a cache, where copies by the C library take less time.
_LARGE = 2**24
#: Bytes of a row for which NumPy's overhead is small.
_LONG = 4096


class FusedBias:
    """A bias with a fast way to make its matrix; see :func:`posenc_ref.backends.fused`."""

    def __init__(self, encoding: Bias, threads: int | None = None) -> None:
        self.encoding = encoding
        self.threads = threads

    def __repr__(self) -> str:
        threads = "" if self.threads is None else f", threads={self.threads}"
        return f"fused({self.encoding!r}{threads})"

    def __call__(
        self,
        q_len: int,
        k_len: int,
        *,
        dtype: Any = None,
        out: np.ndarray | None = None,
        explain: bool = False,
    ) -> Any:
        """Return the bias (H, q_len, k_len); queries are at the last q_len positions of the keys.

        A bias that depends only on key - query is a read-only view of H (q_len + k_len - 1)
        numbers, float64 unless ``dtype`` is given.  With ``out``, all H q_len k_len numbers are
        written; ``out=tensor.numpy()`` fills a tensor.  A bias in windows is always written.  torch
        and JAX have no such views: if the learned arrays are theirs, ``encoding.bias`` makes the
        bias, which is then differentiable.
        """
        q_len = validate.integer("q_len", q_len, minimum=0)
        k_len = validate.integer("k_len", k_len, minimum=0)
        validate.elements("the positions", (max(q_len, k_len),))
        numbers = None if 0 in (q_len, k_len) else self.encoding._by_offset(q_len, k_len)
        if numbers is None or library(numbers) != "numpy":
            return self._specification(q_len, k_len, dtype, out, explain)
        shape = len(numbers), q_len, k_len
        like = empty_floats((), dtype) if out is None else checked_shape(out, shape, dtype)
        rows = _rows(np.ascontiguousarray(numbers, like.dtype))  # tables have the heads last
        if out is None:
            if rows.shape[1] == 1:
                view = toeplitz_view(rows[:, 0], q_len, k_len)
                return (view, f"numpy: a view of {numbers.size} numbers") if explain else view
            out = np.empty(shape, like.dtype)
        by = _write(rows, out, count(self.threads, out.nbytes))
        path = f"{by}: {numbers.size} numbers, copied into the full matrix"
        return (out, path) if explain else out

    def _specification(
        self, q_len: int, k_len: int, dtype: Any, out: np.ndarray | None, explain: bool
    ) -> Any:
        positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
        whole = self.encoding.bias(*positions)
        home = library(whole)
        if home != "numpy":  # the arrays may need gradients, or be traced
            if out is not None:
                raise TypeError(
                    f"out cannot be given where the learned arrays are arrays of {home}: the bias "
                    "is an array of that library too"
                )
            made, why = finish(whole, dtype), f"the learned arrays are arrays of {home}"
            return (made, f"no fast path: {why}") if explain else made
        like = empty_floats((), dtype) if out is None else checked_shape(out, whole.shape, dtype)
        if out is None:
            out = whole.astype(like.dtype, copy=False)
        else:
            out[...] = whole
        why = "nothing to compute"
        if 0 not in whole.shape[-2:]:
            why = "the bias depends on more than key - query"
        return (out, f"no fast path: {why}") if explain else out


def _rows(numbers: np.ndarray) -> np.ndarray:
    """Return contiguous t (H, w, n) of the bias by offset, as ``Bias._by_offset`` returns it.

    Row i of the bias is a part of ``t[:, i % w]``, which begins w numbers further left than that of
    row i - w.
    """
    w = (numbers.shape[-1] + 1) // 2
    return toeplitz_view(numbers, w, w).swapaxes(1, 2).reshape(len(numbers), w, -1)


def _write(rows: np.ndarray, out: np.ndarray, parts: int) -> str:
    """Write the bias ``out`` (H, Q, K) of :func:`_rows`; return which library wrote it."""
    (heads, q_len, k_len), w = out.shape, rows.shape[1]
    if numba_loops.writes_toeplitz(out):
        numba_loops.write_toeplitz(rows, out, cuts(heads * q_len, parts))
        return "numba"
    copy: Callable[[np.ndarray, np.ndarray], None] = np.copyto
    if out.nbytes >= _LARGE and k_len * out.itemsize >= _LONG and out.itemsize <= 8:
        kind = f"i{out.itemsize}"
        rows, out, copy = -rows.view(kind), out.view(kind), _negate
    view = toeplitz_view(rows, q_len - w + 1, k_len)[:, :, ::w].swapaxes(1, 2)
    out = out.reshape(view.shape)  # no copy: one axis becomes two
    if heads >= parts:
        share(lambda at: copy(out[at], view[at]), cuts(heads, parts))
    else:
        share(lambda at: copy(out[:, at], view[:, at]), cuts(q_len // w, parts))
    return "numpy"


def _negate(out: np.ndarray, numbers: np.ndarray) -> None:
    """Write the negatives of integers, the bits of floats: this reads no memory of the result.

    The C library, which ``np.copyto`` calls for each row, reads that memory before it writes there.
    """
    with np.errstate():  # which also sets the length of the buffers back
        np.setbufsize(16)  # NumPy would copy the rows into longer buffers first
        np.negative(numbers, out=out)


def toeplitz_view(
    row: np.ndarray,
    q_len: int,
    k_len: int,
    *,
    out: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """Return a read-only view with ``view[..., i, j] == row[..., j - i + q_len - 1]``.

    With ``out``, write its numbers into ``out`` and return that: faster than a copy of the view.

    Parameters
    ----------
    row : NumPy array (..., q_len + k_len - 1)
        The bias by offset (key minus query), as ``Bias.toeplitz`` returns it.
    q_len, k_len : int
    out : NumPy array (..., q_len, k_len), in the dtype of ``row``, optional
    threads : int, optional
        The most threads that write ``out``, as in :func:`posenc_ref.backends.fused`.

    Returns
    -------
    NumPy array (..., q_len, k_len)
        A view of ``row``, in its dtype, or ``out``.

    Raises
    ------
    TypeError, ValueError
        The row is no NumPy array or has another length, or a length is below 1; out has another
        shape or dtype, is read-only, overlaps itself, or may overlap the row.
    """
    if not isinstance(row, np.ndarray) or not is_array(row):
        raise TypeError(f"row must be a NumPy array, got {class_of(row)}")
    if not row.ndim:
        raise ValueError("row must have at least one axis, got a single number")
    q_len = validate.integer("q_len", q_len, minimum=1)
    k_len = validate.integer("k_len", k_len, minimum=1)
    if row.shape[-1] != q_len + k_len - 1:
        raise ValueError(
            f"row must have q_len + k_len - 1 = {q_len + k_len - 1} numbers, got {row.shape[-1]}"
        )
    first = row[..., q_len - 1 :]
    step = row.strides[-1]
    view = as_strided(
        first,
        (*row.shape[:-1], q_len, k_len),
        (*row.strides[:-1], -step, step),
        writeable=False,
    )
    if out is None:
        return view
    checked_like(out, view, "the view")
    parts = count(checked(threads), out.nbytes)
    if np.may_share_memory(out, row):
        raise ValueError("out must not overlap row, which is read while out is written")
    for lead in np.ndindex(row.shape[:-2]):  # once if no axes are left of the heads
        one, into = (row[lead], out[lead]) if row.ndim > 1 else (row[None], out[None])
        _write(np.ascontiguousarray(one)[:, None], into, parts)
    return out
