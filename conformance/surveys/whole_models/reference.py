"""The attention of a layer as its configuration declares it, in float64.

The inputs are q, k and v at position 0, where cos is set to 1 and sin to 0. Rotation, attention
factor, scale and mask are those of ``posenc_ref.from_config``; the positions are those of the
tokens in their own sequences. The query scale is that of a position relative to position 0: the q
of a model has the factor of position 0 already.

A and B of the error unit (:mod:`posenc_ref.accuracy`) of the logits are those of
:func:`posenc_ref.conformance.oracle.calls.logits`; those of the output are these of
:class:`posenc_ref.Attention`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.oracle.apply import apply_truth
from posenc_ref.conformance.oracle.calls import logits
from posenc_ref.models.query_scale import QueryScale

from .calls import Batch


@dataclass(frozen=True)
class Layer:
    """What the attention of one layer does with positions."""

    encoding: Rotary | None = None  #: None if the logits have no positional encoding
    scale: float | None = None  #: the factor on q . k; None for ``head_dim ** -0.5``
    query_scale: QueryScale | None = None
    causal: bool = True
    window: int | None = None  #: the number of keys that a query sees, itself included
    chunk: int | None = None  #: the size of chunks that do not see each other
    softcap: float | None = None
    sinks: np.ndarray | None = None  #: (H,): logits of keys without a value
    # Mistakes on purpose, for controls and causes.
    scale_factor: float = 1.0
    by_slot: bool = False  #: whether the mask compares slots instead of positions
    query_shift: int = 0  #: added to the positions of queries, in the rotation
    stretch: float = 1.0  #: a factor on the positions, in the rotation
    table_factor: float = 1.0  #: a factor on cos and sin
    nearest: int = 0  #: the distance of the nearest key that a query sees

    def replace(self, **changes: Any) -> Layer:
        """Return a copy with changed fields."""
        return dataclasses.replace(self, **changes)


def attention(layer: Layer, q: Any, k: Any, v: Any, batch: Batch) -> Truth:
    """Return the expected output (B, T, H, e) of q (B, H, T, d), k (B, G, T, d), v (B, G, T, e).

    q, k and v are those that the layer computes for tokens at position 0, before any rotation and
    attention factor. Rows of padding are 0.

    Formula
        ``o_i = sum_j p_ij v_j`` with ``p_i = softmax_j(l_ij)`` over the visible keys j. An error
        ``d_j`` of each logit changes o_i by ``sum_j p_ij (v_j - o_i) d_j``, so
        ``A = sum_j p_ij (s_j + |v_j - o_i| A_ij)`` and ``B = sum_j p_ij |v_j - o_i| B_ij``. v_j is
        itself a rounded sum, of another call: each of its elements is known to the rounding of
        a typical one, so that s_j is the larger of it and the root mean square of the vector.
    """
    groups = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, groups, axis=1) for x in (k, v))
    scores = _logits(layer, q, k, batch)
    value, terms, angle = scores.value, scores.terms, scores.angle
    if layer.softcap is not None:
        value = layer.softcap * np.tanh(value / layer.softcap)
    seen = visible(layer, batch)[:, None]
    value = np.where(seen, value, -np.inf)
    if layer.sinks is not None:
        sinks = np.broadcast_to(layer.sinks[:, None, None], (*value.shape[:3], 1))
        value = np.concatenate([value, sinks], axis=-1)
        terms = np.concatenate([terms, abs(sinks)], axis=-1)
        angle = np.concatenate([angle, np.zeros_like(sinks)], axis=-1)
        v = np.concatenate([v, np.zeros_like(v[:, :, :1])], axis=2)
    with np.errstate(invalid="ignore"):
        weights = np.exp(value - value.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
    weights = np.where(batch.real[:, None, :, None], weights, 0.0)
    out = np.einsum("bhqk,bhke->bhqe", weights, v)
    apart = abs(v[:, :, None] - out[:, :, :, None])
    size = np.maximum(abs(v), np.sqrt((v**2).mean(axis=-1, keepdims=True)))
    a = np.einsum("bhqk,bhke->bhqe", weights, size)
    a += np.einsum("bhqk,bhqke->bhqe", weights * terms, apart)
    b = np.einsum("bhqk,bhqke->bhqe", weights * angle, apart)
    return Truth(*(x.transpose(0, 2, 1, 3) for x in (out, a, b)))


def visible(layer: Layer, batch: Batch) -> np.ndarray:
    """Return which keys (B, Q, K) each query sees."""
    real, p = batch.real, batch.positions
    if layer.by_slot:
        p = np.broadcast_to(np.arange(p.shape[1]), p.shape)
    seen = real[:, None, :] & (batch.sequence[..., :, None] == batch.sequence[..., None, :])
    distance = p[:, :, None] - p[:, None, :]
    if layer.causal:
        seen = seen & (distance >= layer.nearest)
        if layer.window is not None:
            seen = seen & (distance < layer.window)
    elif layer.window is not None:
        seen = seen & (abs(distance) < layer.window)
    if layer.chunk is not None:
        seen = seen & (p[:, :, None] // layer.chunk == p[:, None, :] // layer.chunk)
    return np.asarray(
        seen | np.eye(p.shape[1], dtype=bool)
    )  # no row without a key: padding, shifted masks


def _logits(layer: Layer, q: Any, k: Any, batch: Batch) -> Truth:
    """Return the logits (B, H, Q, K) before softcap and mask."""
    p = np.maximum(batch.positions, 0)
    scale = q.shape[-1] ** -0.5 if layer.scale is None else layer.scale
    scale *= layer.scale_factor
    factor = np.ones(p.shape)
    if layer.query_scale is not None:
        factor = layer.query_scale.factor(p) / layer.query_scale.factor(np.zeros_like(p))
    factor = factor[:, None, :, None] * scale
    if layer.encoding is not None:
        at = (p + layer.query_shift) * layer.stretch, p * layer.stretch
        truth = _rotated(layer, q, k, *at)
    else:
        q, k = (Truth(x, abs(x), np.zeros_like(x)) for x in (q, k))
        truth = logits(q, k)
    value, terms, angle = truth.value * factor, truth.terms * abs(factor), truth.angle * abs(factor)
    return Truth(value, terms, angle)


def _rotated(layer: Layer, q: Any, k: Any, at: Any, p: Any) -> Truth:
    """Return the products of q and k, rotated to the positions ``at`` and ``p`` (B, T).

    q and k come from a rotation with cos = 1 and sin = 0, which may permute channels; the inverse
    of a rotation by 0 undoes that, and divides by an attention factor that they do not have.
    """
    encoding = layer.encoding
    assert encoding is not None
    zero = np.zeros(p.shape, int)
    if encoding.axes() is not None:
        at, p, zero = (np.stack([x] * encoding.num_axes) for x in (at, p, zero))
    size = np.ones(encoding.head_dim)
    size[np.concatenate(encoding.pairs())] = encoding.attention_factor() * layer.table_factor
    q, k = (encoding.inverse(x, zero) * size for x in (q, k))
    return logits(apply_truth(encoding, q, at), apply_truth(encoding, k, p))
