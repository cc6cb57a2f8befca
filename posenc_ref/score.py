"""Score encodings: logits whose position terms depend on the content of queries and keys."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import numpy as np

from ._arrays import check_counts, check_queries_and_keys, check_scale
from ._namespace import (
    Array,
    class_of,
    is_array,
    namespace,
    to_host,
    widen,
)
from ._positions import as_pairs
from .accuracy import Truth
from .encoding import Encoding

#: The names of the four terms: the query's factor, then the key's factor.
TERMS = ("content-content", "content-position", "position-content", "position-position")


class Score(Encoding, abstract=True):
    """Base class of scores.

    A subclass defines ``_of_offset`` if its terms depend on key - query alone, else ``_of_pairs``.

    Error unit (see :mod:`posenc_ref.accuracy`)
        A = the sum of the absolute values of all products in the terms of a logit.  B = 0 unless
        the encoding uses sin or cos.
    """

    family = "score"
    integers = True  # whether positions must be integers
    relative = True  # whether the terms depend on key - query alone
    sees_future = True  # whether queries attend to later keys
    mixes_queries = False  # whether a logit depends on other queries too
    holds_tokens = False  # whether an instance holds numbers of the tokens of one sequence
    head_dim: int

    @property
    def properties(self) -> frozenset[str]:
        """The names of the properties that the logits have at all positions.

        ``translation``  adding the same number to all positions changes no logit
        ``prefix``       later tokens change no logit of earlier ones
        """
        return frozenset({"prefix", "translation"} if self.relative else {"prefix"})

    @property
    def heads(self) -> int | None:
        """The number of heads, or None if any number fits."""
        return None

    @property
    def rows(self) -> int | None:
        """The number of allowed positions, or None if there is no limit."""
        return None

    def _of_offset(self, q: Array, k: Array, r: Array, scale: float) -> dict[str, Array]:
        """Return the terms (..., H, Q, K) for relative positions r = key - query (Q, K)."""
        raise NotImplementedError(f"{type(self).__name__} defines no terms")

    def _of_pairs(
        self, q: Array, k: Array, q_at: Array, k_at: Array, scale: float
    ) -> dict[str, Array]:
        """Return the terms for query positions (Q, 1) and key positions (1, K)."""
        return self._of_offset(q, k, k_at - q_at, scale)

    def terms(
        self, q: Array, k: Array, q_positions: Any, k_positions: Any, *, scale: float | None = None
    ) -> dict[str, Array]:
        """Return the scaled terms of the logits by name, each (..., H, Q, K).

        q is (..., H, Q, d), k is (..., H, K, d); positions are (Q,) and (K,), or (B, Q) and (B, K)
        with B on q's first axis.  Terms have the working dtype (float64 where available); only
        ``scores`` rounds to q's dtype.
        """
        self._check(q, k)
        check_queries_and_keys(q, k)
        q, k = widen(q), widen(k)
        q_at, k_at = as_pairs(q_positions, k_positions, integers=self.integers, x=q)
        batch = None if q_at.ndim == 1 else q_at.shape[0]
        check_counts(q, k, (q_at.shape[-1], k_at.shape[-1]), batch)
        scale = self.own_scale(int(q.shape[-1])) if scale is None else check_scale(scale)
        if batch is None:
            at = q_at.values[:, None], k_at.values[None, :]
            return self._of_pairs(q, k, *at, scale)
        each = []
        for b in range(q.shape[0]):
            one = min(b, q_at.shape[0] - 1)
            at = q_at.values[one, :, None], k_at.values[one, None, :]
            each.append(self._of_pairs(q[b, ...], k[b, ...], *at, scale))
        return {name: namespace(q).stack([t[name] for t in each]) for name in each[0]}

    def _logits(
        self, q: Array, k: Array, q_positions: Any, k_positions: Any, scale: float
    ) -> Array:
        first, *others = self.terms(q, k, q_positions, k_positions, scale=scale).values()
        for term in others:
            first = first + term
        return first

    def truths(
        self, q: np.ndarray, k: np.ndarray, q_at: np.ndarray, k_at: np.ndarray, scale: float
    ) -> dict[str, Truth]:
        """Return each term for float64 q and k, with A and B of its rounding error.

        ``q_at`` and ``k_at`` are the positions of queries and keys, arrays that broadcast to
        (Q, K).  Arrays of the full shape (Q, K) allow any offset for each pair.
        """
        for name, value in (("q", q), ("k", k), ("q_at", q_at), ("k_at", k_at)):
            if not is_array(value):
                raise TypeError(f"{name} must be a NumPy array, got {class_of(value)}")
        return self._truths(q, k, q_at, k_at, scale)

    def _truths(
        self, q: np.ndarray, k: np.ndarray, q_at: np.ndarray, k_at: np.ndarray, scale: float
    ) -> dict[str, Truth]:
        """Return :meth:`truths` of checked arguments; a subclass may override it."""
        values = self._of_pairs(q, k, q_at, k_at, scale)
        sizes = self._sizes()._of_pairs(np.abs(q), np.abs(k), q_at, k_at, abs(scale))
        return {
            name: Truth(np.asarray(v), np.abs(sizes[name]), np.zeros_like(v))
            for name, v in values.items()
        }

    def _sizes(self) -> Self:
        """Return the same encoding with the absolute values of its learned arrays."""
        arrays = {
            f.name: np.abs(np.asarray(to_host(getattr(self, f.name)), dtype=np.float64))
            for f in dataclasses.fields(self)  # type: ignore[arg-type]
            if is_array(getattr(self, f.name))
        }
        return self.replace(**arrays)

    def _check(self, q: Array, k: Array) -> None:
        heads, d = self.heads, self.head_dim
        for name, x in (("q", q), ("k", k)):
            if not is_array(x):
                raise TypeError(f"{name} must be a real floating array, got {class_of(x)}")
            fits = x.ndim >= 3 and x.shape[-1] == d and heads in (None, x.shape[-3])
            if not fits:
                shown = "H" if heads is None else f"H = {heads} heads"
                raise ValueError(
                    f"{name} must have shape (..., H, S, d) with {shown} and d = {d}, "
                    f"got {tuple(x.shape)}"
                )
