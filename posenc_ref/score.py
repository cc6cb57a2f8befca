"""Score encodings: logits whose position terms depend on what queries and keys hold."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import numpy as np

from ._namespace import (
    Array,
    is_array,
    namespace,
    to_host,
    widen,
)
from ._positions import as_pairs
from .accuracy import Truth
from .encoding import Encoding

#: The names of the four terms: what the query gives, then what the key gives.
TERMS = ("content-content", "content-position", "position-content", "position-position")


class Score(Encoding, abstract=True):
    """What every score can do.  A form supplies ``_of_pairs``, or ``_of_offset`` where relative.

    Error unit
        A of a logit is the sum over its terms of the absolute values of all products; B is 0
        unless the form has angles.
    """

    family = "score"
    integers = True  # whether positions must be integers
    relative = True  # whether positions count through key - query alone
    sees_future = True  # whether keys after the query belong to the encoding
    mixes_queries = False  # whether a logit depends on other queries too
    head_dim: int

    @property
    def properties(self) -> frozenset[str]:
        """Which of these hold for all positions: what is not named here does not.

        ``translation``  logits stay what they are where all positions move alike
        ``prefix``       tokens that follow change no logit of those before them
        """
        return frozenset({"prefix", "translation"} if self.relative else {"prefix"})

    @property
    def heads(self) -> int | None:
        """The number of heads, or None where any will do."""
        return None

    @property
    def rows(self) -> int | None:
        """How many positions there are, or None where there is no end."""
        return None

    def _of_offset(self, q: Array, k: Array, r: Array, scale: float) -> dict[str, Array]:
        """The terms (..., H, Q, K) for relative positions r = key - query (Q, K)."""
        raise NotImplementedError(f"{type(self).__name__} defines no terms")

    def _of_pairs(
        self, q: Array, k: Array, q_at: Array, k_at: Array, scale: float
    ) -> dict[str, Array]:
        """The terms for query positions (Q, 1) and key positions (1, K)."""
        return self._of_offset(q, k, k_at - q_at, scale)

    def terms(
        self, q: Array, k: Array, q_positions: Any, k_positions: Any, *, scale: float | None = None
    ) -> dict[str, Array]:
        """The terms whose sum the logits are, by name, each (..., H, Q, K), scaled.

        q is (..., H, Q, d), k is (..., H, K, d); positions are (Q,) and (K,), or (B, Q) and (B, K)
        with B on q's first axis.  Terms are summands of what is rounded later: they have the dtype
        that the specification computes in, where ``scores`` follows q.
        """
        self._check(q, k)
        q, k = widen(q), widen(k)
        q_at, k_at = as_pairs(q_positions, k_positions, integers=self.integers, x=q)
        if (q_at.shape[-1], k_at.shape[-1]) != (q.shape[-2], k.shape[-2]):
            raise ValueError(
                f"q_positions and k_positions must be as many as q and k, {q.shape[-2]} and "
                f"{k.shape[-2]}, got {q_at.shape[-1]} and {k_at.shape[-1]}"
            )
        scale = self.own_scale(int(q.shape[-1])) if scale is None else scale
        if q_at.ndim == 1:
            at = q_at.values[:, None], k_at.values[None, :]
            return self._of_pairs(q, k, *at, scale)
        if q.ndim < 4 or q_at.shape[0] not in (1, q.shape[0]):
            raise ValueError(
                f"q_positions of shape (B, Q) need q of shape (B, ..., H, Q, d), got B = "
                f"{q_at.shape[0]} and q of shape {tuple(q.shape)}"
            )
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
        """Each term with A and B of the error unit, for NumPy q and k in float64.

        Relative positions may be anything of the shape (Q, K) that ``k_at - q_at`` broadcasts to.
        """
        values = self._of_pairs(q, k, q_at, k_at, scale)
        sizes = self._sizes()._of_pairs(np.abs(q), np.abs(k), q_at, k_at, abs(scale))
        return {
            name: Truth(np.asarray(v), np.abs(sizes[name]), np.zeros_like(v))
            for name, v in values.items()
        }

    def _sizes(self) -> Self:
        """The same encoding with the absolute values of its learned numbers."""
        arrays = {
            f.name: np.abs(np.asarray(to_host(getattr(self, f.name)), dtype=np.float64))
            for f in dataclasses.fields(self)  # type: ignore[arg-type]
            if is_array(getattr(self, f.name))
        }
        return self.replace(**arrays)

    def _check(self, q: Array, k: Array) -> None:
        heads, d = self.heads, self.head_dim
        for name, x in (("q", q), ("k", k)):
            fits = x.ndim >= 3 and x.shape[-1] == d and heads in (None, x.shape[-3])
            if not fits:
                shown = "H" if heads is None else f"H = {heads} heads"
                raise ValueError(
                    f"{name} must have shape (..., H, S, d) with {shown} and d = {d}, "
                    f"got {tuple(x.shape)}"
                )
