"""The two sides of a score, queries and keys: checked, and multiplied."""

from __future__ import annotations

from ._namespace import FLOATING, Array, astype, dtype_name, is_array, library, namespace


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


def dot(q: Array, k: Array, scale: float, bias: Array | None = None) -> Array:
    """``q k^T * scale + bias``, all in the dtype of ``q``."""
    xp = namespace(q)
    logits = xp.matmul(q, xp.matrix_transpose(astype(k, q.dtype))) * scale
    return logits if bias is None else logits + astype(bias, q.dtype)
