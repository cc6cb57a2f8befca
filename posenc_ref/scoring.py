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
    """Return attention logits before mask and softmax.

    The logits depend on the family of the encoding:

    * table: ``(q + PE) . (k + PE) * scale`` (identity projections);
    * rotary: ``R q . R k * scale``;
    * bias: ``q . k * scale + bias``, where q and k have a head axis (..., H, Q, d);
    * score: the sum of ``encoding.terms(...)``.

    The caller applies the mask. ``encoding.scores`` is the same function.

    Parameters
    ----------
    encoding : Encoding
        A table, rotary, bias or score encoding.
    q : array (..., Q, d), real floating
        Queries, with a head axis (..., H, Q, d) for biases and scores.
    k : array (..., K, d), real floating
        Keys, with the library and leading axes of q.
    q_positions, k_positions : int, range, sequence or array (Q,) and (K,)
        On the host, or on q's device; (B, Q) and (B, K) with B on q's first axis.
    scale : float, optional
        None means the encoding's default: 1/sqrt(d), but 1 for T5 (its weights contain the scale),
        1/sqrt(2d) for TUPE and 1/sqrt(n d) for DeBERTa, where n is 3 with both relative tables and
        2 with one.

    Returns
    -------
    array (..., Q, K)
        In q's library, device and dtype; computed in float64 (float32 if q's device has no float64)
        and rounded once.

    Raises
    ------
    TypeError
        If ``encoding`` is not an encoding, or q and k are not float arrays of one library.
    ValueError
        If shapes or positions do not fit, or the attention is not one softmax of logits
        (ConViTBias blends two).
    """
    if not isinstance(encoding, Encoding):
        raise TypeError(f"encoding must be a posenc_ref encoding, got {type(encoding).__name__}")
    return encoding.scores(q, k, q_positions, k_positions, scale=scale)
