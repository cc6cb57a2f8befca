"""Logits before mask and softmax, for any encoding."""

from __future__ import annotations

from typing import Any

from ._namespace import (
    FLOATING,
    Array,
    astype,
    dtype_name,
    is_array,
    library,
    namespace,
    working_dtype,
)
from .encoding import Encoding


def scores(
    encoding: Encoding,
    q: Array,
    k: Array,
    q_positions: Any,
    k_positions: Any,
    *,
    scale: float | None = None,
) -> Array:
    """Attention logits (..., Q, K) of ``q`` (..., Q, d) and ``k`` (..., K, d).

    Tables: ``(q + PE) . (k + PE) * scale`` (identity projections).  Rotary: ``R q . R k * scale``.
    Biases: ``q . k * scale + bias``, q and k with a head axis (..., H, Q, d); scores: the sum of
    ``encoding.terms``.  ``scale=None`` is the encoding's own: 1/sqrt(d), 1 for T5, whose
    initialisation absorbs it, 1/sqrt(d (1 + terms)) for DeBERTa.  Masking is the caller's.
    """
    if not isinstance(encoding, Encoding):
        raise TypeError(f"encoding must be a posenc_ref encoding, got {type(encoding).__name__}")
    check_sides(q, k)
    logits = encoding.scores(widen(q), widen(k), q_positions, k_positions, scale)
    return astype(logits, q.dtype)


def check_sides(q: Array, k: Array) -> None:
    """Queries (..., Q, d) and keys (..., K, d) of one library, floats of the same other axes."""
    for name, x in (("q", q), ("k", k)):
        if not is_array(x) or dtype_name(x) not in FLOATING:
            raise TypeError(f"{name} must be a real floating array")
    if library(q) != library(k):
        raise TypeError(f"q and k must share a library, got {library(q)} and {library(k)}")
    if q.ndim < 2 or k.ndim < 2 or q.shape[-1] != k.shape[-1] or q.shape[:-2] != k.shape[:-2]:
        raise ValueError(
            f"q and k must have shapes (..., Q, d) and (..., K, d), "
            f"got {tuple(q.shape)} and {tuple(k.shape)}"
        )


def widen(x: Array) -> Array:
    """``x`` in the dtype the specification computes in: float64 where its device has it."""
    return astype(x, working_dtype(x))


def dot(q: Array, k: Array, scale: float, bias: Array | None = None) -> Array:
    """``q k^T * scale + bias``, all in the dtype of ``q``."""
    xp = namespace(q)
    logits = xp.matmul(q, xp.matrix_transpose(astype(k, q.dtype))) * scale
    return logits if bias is None else logits + astype(bias, q.dtype)
