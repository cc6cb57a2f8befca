"""Biases that depend only on ``j - i``, in Q + K - 1 numbers per head instead of Q times K."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from posenc_ref import Bias
from posenc_ref import _validate as validate
from posenc_ref._namespace import class_of, finish, is_array, library

from .kernels import numba_loops
from .kernels.output import checked_shape, empty_floats
from .kernels.threads import count, cuts, share

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
        written; ``out=tensor.numpy()`` fills a tensor.  torch and JAX have no such views: if the
        learned arrays are theirs, ``encoding.bias`` makes the bias, which is then differentiable.
        """
        q_len = validate.integer("q_len", q_len, minimum=0)
        k_len = validate.integer("k_len", k_len, minimum=0)
        validate.elements("the positions", (max(q_len, k_len),))
        if not self.encoding.relative or 0 in (q_len, k_len):
            return self._specification(q_len, k_len, dtype, out, explain)
        row = self.encoding.toeplitz(q_len, k_len)
        if library(row) != "numpy":
            return self._specification(q_len, k_len, dtype, out, explain)
        like = (
            empty_floats((), dtype)
            if out is None
            else checked_shape(out, (len(row), q_len, k_len), dtype)
        )
        row = np.ascontiguousarray(row, like.dtype)  # learned tables have the heads last
        view = toeplitz_view(row, q_len, k_len)
        if out is None:
            return (view, f"numpy: a view of {row.size} numbers") if explain else view
        parts = count(self.threads, out.nbytes)
        if by_numba := numba_loops.writes_toeplitz(out):
            numba_loops.write_toeplitz(row, out, cuts(len(row) * q_len, parts))
        else:
            _write(row, view, out, parts)
        by = "numba" if by_numba else "numpy"
        return (out, f"{by}: {row.size} numbers, copied into the full matrix") if explain else out

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
        if not self.encoding.relative:
            why = "the bias depends on more than key - query"
        return (out, f"no fast path: {why}") if explain else out


def _write(row: np.ndarray, view: np.ndarray, out: np.ndarray, parts: int) -> None:
    """Write ``view``, the :func:`toeplitz_view` of ``row``, to ``out``."""
    heads, q_len, k_len = out.shape
    copy: Callable[[np.ndarray, np.ndarray], None] = np.copyto
    if out.nbytes >= _LARGE and k_len * out.itemsize >= _LONG:
        kind = f"i{out.itemsize}"
        view, out, copy = toeplitz_view(-row.view(kind), q_len, k_len), out.view(kind), _negate
    if heads >= parts:
        share(lambda at: copy(out[at], view[at]), cuts(heads, parts))
    else:
        share(lambda at: copy(out[:, at], view[:, at]), cuts(q_len, parts))


def _negate(out: np.ndarray, numbers: np.ndarray) -> None:
    """Write the negatives of integers, the bits of floats: this reads no memory of the result.

    The C library, which ``np.copyto`` calls for each row, reads that memory before it writes there.
    """
    with np.errstate():  # which also sets the length of the buffers back
        np.setbufsize(16)  # NumPy would copy the rows into longer buffers first
        np.negative(numbers, out=out)


def toeplitz_view(row: np.ndarray, q_len: int, k_len: int) -> np.ndarray:
    """Return a read-only view with ``view[..., i, j] == row[..., j - i + q_len - 1]``.

    Parameters
    ----------
    row : NumPy array (..., q_len + k_len - 1)
        The bias by offset (key minus query), as ``Bias.toeplitz`` returns it.
    q_len, k_len : int

    Returns
    -------
    NumPy array (..., q_len, k_len)
        A view of ``row``, in its dtype.

    Raises
    ------
    TypeError, ValueError
        The row is no NumPy array or has another length, or a length is below 1.
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
    return as_strided(
        first,
        (*row.shape[:-1], q_len, k_len),
        (*row.strides[:-1], -step, step),
        writeable=False,
    )
