"""Logits before mask and softmax, for any encoding."""

from __future__ import annotations

from typing import Any

from ._namespace import Array
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
    """Return attention logits, in q's dtype: computed in float64, rounded once.

    Tables: ``(q + PE) . (k + PE) * scale`` (identity projections).  Rotary: ``R q . R k * scale``.
    Biases: ``q . k * scale + bias``, q and k with a head axis (..., H, Q, d); scores: the sum of
    ``encoding.terms``.  Masking is the caller's.  ``encoding.scores`` is the same.

    Parameters
    ----------
    encoding : Encoding
        A table, rotary, bias or score encoding.
    q : array (..., Q, d), real floating
        Queries; with a head axis in front of Q for biases and scores.
    k : array (..., K, d), real floating
        Keys of q's library and leading axes.
    q_positions, k_positions : int, range, sequence or array (Q,) and (K,)
        On the host, or where q is; (B, Q) and (B, K) with B on q's first axis.
    scale : float, optional
        None is the encoding's own: 1/sqrt(d), 1 for T5, whose initialisation absorbs it,
        1/sqrt(d (1 + terms)) for DeBERTa.

    Returns
    -------
    array (..., Q, K)
        Of q's library, device and dtype, for every encoding; float64 inside, float32 where q's
        device has no float64.

    Raises
    ------
    TypeError
        If encoding is no encoding, q or k are no floating arrays, or of two libraries.
    ValueError
        If shapes or positions do not fit, or the encoding's logits are no sum (ConViTBias).
    """
    if not isinstance(encoding, Encoding):
        raise TypeError(f"encoding must be a posenc_ref encoding, got {type(encoding).__name__}")
    return encoding.scores(q, k, q_positions, k_positions, scale=scale)
