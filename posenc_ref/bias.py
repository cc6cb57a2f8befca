"""Bias encodings: one number per head, query and key, added to the scores."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from . import _validate as validate
from ._arrays import check_counts, dot, like
from ._namespace import (
    Array,
    DType,
    finish,
    send,
    to_host,
)
from ._positions import as_pairs, range_length
from .accuracy import Truth
from .encoding import Encoding


class Bias(Encoding, abstract=True):
    """Base class of biases. A subclass defines ``_of_pairs``, or ``_of_offset`` if relative."""

    family = "bias"
    integers = False  # whether positions must be integers
    bias_inside_scale = False  # whether the scale multiplies the bias as well
    up_to_constant = False  # whether a constant per row may differ (softmax ignores it)
    relative = True  # whether the bias depends on key - query alone
    holds: ClassVar[frozenset[str]] = frozenset()  # properties other than translation
    num_heads: int

    @property
    def properties(self) -> frozenset[str]:
        """The names of the properties that this bias has at all positions.

        ``translation``  ``b(i + s, j + s) = b(i, j)``
        ``symmetric``    ``b(i, j) = b(j, i)``
        ``zero-at-own``  ``b(i, i) = 0``: the key at the query's own position has no bias
        ``decay``        ``b(i, j) <= b(i, j + 1)`` for j < i: no earlier key has a larger bias
        """
        return self.holds | {"translation"} if self.relative else self.holds

    @property
    def sees_future(self) -> bool:
        """Whether queries attend to later keys; False for a causal bias."""
        return True

    def _of_offset(self, offset: Array) -> Array:
        """Return the bias (num_heads, ...) of relative positions ``key - query`` (...).

        Relative positions (B, Q, K) give (B, H, Q, K).
        """
        raise NotImplementedError(f"{type(self).__name__} defines no bias")

    def _of_pairs(self, q: Array, k: Array) -> Array:
        """Return the bias of query positions (..., Q, 1) and key positions (..., 1, K)."""
        return self._of_offset(k - q)

    def truth(self, q_positions: Any, k_positions: Any) -> Truth:
        """Return the float64 bias (H, Q, K) with the coefficients A and B of its rounding error.

        Positions must be on the host.  A relative bias is computed once for each distinct offset.
        """
        pair = as_pairs(q_positions, k_positions, integers=self.integers)
        if pair[0].ndim != 1:
            raise ValueError(
                "q_positions and k_positions must have shapes (Q,) and (K,), "
                f"got {pair[0].shape} and {pair[1].shape}"
            )
        return self._truth(np.atleast_1d(q_positions), np.atleast_1d(k_positions))

    def _truth(self, q_positions: Any, k_positions: Any) -> Truth:
        """Return :meth:`truth` of arrays (Q,) and (K,) on the host."""
        if not self.relative:
            return _sized(self.bias(q_positions, k_positions))
        r = k_positions[None, :] - q_positions[:, None]
        if r.dtype.kind == "i" and r.size and r.max() - r.min() < r.size:
            offsets = np.arange(r.min(), r.max() + 1)
            at = r - r.min()
        else:  # far apart, or fractions
            offsets, at = np.unique(r, return_inverse=True)
            at = at.reshape(r.shape)
        truth = self._truth_of(offsets)
        return Truth(*(np.take(part, at, axis=1) if part.any() else np.zeros((len(part), *r.shape))
                       for part in (truth.value, truth.terms, truth.angle)))  # fmt: skip

    def _truth_of(self, offsets: np.ndarray) -> Truth:
        """Return the bias (H, n) of offsets (n,), with A and B of its rounding error.

        A is the absolute value of the bias and B is 0, unless a subclass overrides this method.
        """
        return _sized(self._of_offset(offsets[None, :])[..., 0, :])

    def bias(self, q_positions: Any, k_positions: Any, *, dtype: DType = None) -> Array:
        """Return the bias (H, Q, K) of query positions (Q,) and key positions (K,).

        Positions (B, Q) and (B, K) give (B, H, Q, K).  The result has the library and device of the
        positions or of the learned arrays. Without ``dtype=``, a bias from a learned table has the
        dtype of that table, and every other bias is float64.
        """
        instead = "pass fewer queries per call, or use toeplitz()"
        counts = range_length(q_positions), range_length(k_positions)
        if counts[0] is not None and counts[1] is not None:
            validate.elements("the bias", (self.num_heads, counts[0], counts[1]), instead)
        q, k = as_pairs(q_positions, k_positions, integers=self.integers)
        whole = (*q.shape[:-1], self.num_heads, q.shape[-1], k.shape[-1])
        validate.elements("the bias", whole, instead)
        bias = self._of_pairs(q.values[..., :, None], k.values[..., None, :])
        return finish(send(bias, q.xp, q.device), dtype)

    def toeplitz(self, q_len: int, k_len: int) -> Array:
        """Return the bias of each offset key - query, as t (H, q_len + k_len - 1).

        Keys are at 0 .. k_len - 1, queries at the last ``q_len`` of these positions:
        ``bias(range(k_len - q_len, k_len), range(k_len))[h, i, j] == t[h, j - i + q_len - 1]``.
        """
        if not self.relative:
            raise ValueError(
                f"the bias of {type(self).__name__} does not depend on key - query alone, so it "
                "has no Toeplitz form: use bias()"
            )
        q_len = validate.integer("q_len", q_len, minimum=1)
        k_len = validate.integer("k_len", k_len, minimum=1)
        validate.elements("the bias of each offset", (self.num_heads, q_len + k_len - 1))
        kind = np.int64 if self.integers else np.float64
        return self._of_offset(np.arange(1 - k_len, q_len, dtype=kind)[None, :])[..., 0, :]

    def _by_offset(self, q_len: int, k_len: int) -> Array | None:
        """Return the bias of each offset key - query, or None if it has no such form.

        Positions are rows of w tokens, and keys and queries are as in :meth:`toeplitz`.  The result
        is t (H, rows of queries + rows of keys - 1, 2w - 1), by the offset of rows and the offset
        in a row.  w is 1 if the bias depends on key - query alone.
        """
        return self.toeplitz(q_len, k_len)[..., None] if self.relative else None

    def _logits(
        self, q: Array, k: Array, q_positions: Any, k_positions: Any, scale: float
    ) -> Array:
        """Return ``q . k * scale + bias`` for q (..., H, Q, d) and k (..., H, K, d).

        ``(q . k + bias) * scale`` where ``bias_inside_scale``.
        """
        bias = self._like_logits(q, k, q_positions, k_positions)
        return dot(q, k, scale, bias * scale if self.bias_inside_scale else bias)

    def _like_logits(self, q: Array, k: Array, q_positions: Any, k_positions: Any) -> Array:
        """Return the bias in the dtype and on the device of q; its axes broadcast to the logits."""
        if q.ndim < 3 or q.shape[-3] != self.num_heads:
            raise ValueError(
                f"q and k must have shape (..., H, S, d) with H = {self.num_heads} heads, "
                f"got {tuple(q.shape)}"
            )
        bias = self.bias(q_positions, k_positions)
        check_counts(q, k, tuple(bias.shape[-2:]), bias.shape[0] if bias.ndim == 4 else None)
        if bias.ndim == 4:  # (B, H, Q, K): B is q's first axis, the axes between share it
            bias = bias[(slice(None), *[None] * (q.ndim - 4), ...)]
        return like("bias", bias, q)  # in the dtype of q before the scale: a table may be coarser


def _sized(values: Array) -> Truth:
    """Return values as a :class:`Truth` with A = |value| and B = 0."""
    value = np.asarray(to_host(values), dtype=np.float64)
    return Truth(value, np.abs(value), np.zeros_like(value))
