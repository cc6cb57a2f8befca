"""Reference logits of every family: ``scale q' . k'`` plus a bias, or a sum of named terms.

The error units of the logits of each family have these coefficients:

rotary  A is ``A_q A_k``, B is ``B_q |k| + |q| B_k``, both times the scale
table   as for rotary; q' and k' are q and k with the table's rows added
bias    A is ``scale |q| . |k|`` plus A of the bias, B is B of the bias
score   A and B are the sums of A and B over all terms
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from posenc_ref import Bias, Rotary, Score, XPos
from posenc_ref.accuracy import Truth

from .apply import constant_size, xpos_truth
from .calls import at_length, logits

#: The references of the terms of logits, by name.
Parts = dict[str, Truth]


@dataclass(frozen=True)
class Scored:
    """A call of ``scores``: queries and keys (B, H, S, d), their positions, scale and bias."""

    encoding: Any  #: None if the model has no positional encoding (NoPE)
    q: np.ndarray
    k: np.ndarray
    scale: float
    factor: np.ndarray | None = None  #: a factor on the logits of each query, (Q,)
    q_at: np.ndarray | None = None  #: positions, if not the declared ones
    k_at: np.ndarray | None = None
    group: int = 1  #: the query heads of each key head; k is repeated for all query heads
    constant: np.ndarray | None = None  #: the actual logits at each query's own key, (B, H, Q, 1)

    @property
    def positions(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of queries and keys; the last query is at the last key."""
        n_q, n_k = self.q.shape[2], self.k.shape[2]
        q_at = np.arange(n_k - n_q, n_k) if self.q_at is None else self.q_at
        return q_at, np.arange(n_k) if self.k_at is None else self.k_at

    def replace(self, **changes: Any) -> Scored:
        """Return the same call with some fields replaced."""
        return replace(self, **changes)

    @property
    def grid(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of queries (Q, 1) and keys (1, K)."""
        q_at, k_at = self.positions
        return q_at[:, None], k_at[None, :]

    @property
    def visible(self) -> np.ndarray:
        """Return the mask (Q, K) of the keys up to the query."""
        n_q, n_k = self.q.shape[2], self.k.shape[2]
        return np.asarray(np.arange(n_k) <= np.arange(n_k - n_q, n_k)[:, None])

    @property
    def causal(self) -> bool:
        """Return whether the encoding is defined for keys up to the query only."""
        return isinstance(self.encoding, Bias | Score) and not self.encoding.sees_future

    @property
    def declares_future(self) -> bool:
        """Return whether the encoding is a bias that is defined for later keys too."""
        return isinstance(self.encoding, Bias) and self.encoding.sees_future

    @property
    def up_to_constant(self) -> bool:
        """Return whether logits are judged up to a constant per row, which softmax ignores."""
        return isinstance(self.encoding, Bias) and self.encoding.up_to_constant

    @property
    def sent(self) -> tuple[np.ndarray, np.ndarray]:
        """Return q and k as they are passed: k (B, H / group, K, d)."""
        return self.q, self.k[:, :: self.group]

    def dot(self, *, queries: bool = True, keys: bool = True) -> Truth:
        """Return the reference of ``scale q' . k'``, without a bias.

        ``queries`` and ``keys`` say which of the two are encoded; the others stay as they are.
        """
        q, k = self.sides()
        q, k = q if queries else _plain(self.q), k if keys else _plain(self.k)
        truth = logits(q, k, self.scale)
        return truth if self.factor is None else _times(truth, self.factor[:, None])

    def bias(self) -> Truth:
        """Return the reference of the bias (H, Q, K), or 0 if the encoding is no bias."""
        if not isinstance(self.encoding, Bias):
            return Truth(*np.zeros((3, 1, 1, 1)))
        return self.added(self.encoding.truth(*self.positions))

    def added(self, bias: Truth) -> Truth:
        """Return a bias as it is added to the logits: times the scale, if the encoding says so."""
        size = self.scale if getattr(self.encoding, "bias_inside_scale", False) else 1.0
        return _times(bias, size)

    def terms(self, q_at: Any = None, k_at: Any = None) -> Parts:
        """Return the terms of a :class:`Score`, at other positions if these are given."""
        at = self.grid
        q_at, k_at = at[0] if q_at is None else q_at, at[1] if k_at is None else k_at
        return dict(self.encoding.truths(self.q, self.k, q_at, k_at, self.scale))

    def by_offset(self, change: Callable[[np.ndarray], np.ndarray]) -> Parts:
        """Return the terms of a :class:`Score`, with ``change`` applied to relative positions."""
        q_at, k_at = self.grid
        r = change(k_at - q_at)
        return self.terms(np.zeros_like(r), r)

    def parts(self) -> Parts:
        """Return the references of the terms: the logits are the sum of these terms."""
        return dict(self._parts)

    @cached_property
    def _parts(self) -> Parts:
        if isinstance(self.encoding, Score):
            return self.terms()
        return {"q.k": self.dot(), "bias": self.bias()}

    def truth(self) -> Truth:
        """Return the reference of the logits."""
        return self.total(self.parts(), {})

    def total(self, parts: Parts, by: Mapping[str, float]) -> Truth:
        """Return the sum of the parts, each times its factor (1 where none is given).

        If logits are judged up to a constant per row, the value at each query's own key is
        subtracted; A then includes the size of that value.
        """
        each = [(by.get(name, 1.0), t) for name, t in parts.items()]
        value: Any = sum(f * t.value for f, t in each)
        terms: Any = sum(abs(f) * t.terms for f, t in each)
        angle: Any = sum(abs(f) * t.angle for f, t in each)
        if self.up_to_constant:
            value = value - self.own(value)
            terms = terms + self.own(terms)
            if self.constant is not None:
                terms = terms + constant_size(self.encoding, self.k.shape[2], self.constant)
        return Truth(value, terms, angle)

    def own(self, values: np.ndarray) -> np.ndarray:
        """Return the values at each query's own key, (B, H, Q, 1)."""
        n_q, n_k = self.q.shape[2], self.k.shape[2]
        values = np.broadcast_to(values, (*values.shape[:-2], n_q, n_k))  # 0 is one number
        return values[..., np.arange(n_q), np.arange(n_k - n_q, n_k)][..., None]

    def judged_as(self, actual: np.ndarray) -> Scored:
        """Return the call, with ``constant`` from ``actual`` if judged up to a row constant."""
        return self.replace(constant=self.own(actual)) if self.up_to_constant else self

    def seen(self, actual: np.ndarray) -> np.ndarray:
        """Return the actual logits, minus those at own keys if judged up to a row constant."""
        if not self.up_to_constant:
            return actual
        with np.errstate(invalid="ignore"):
            return np.asarray(actual - self.own(actual))

    def sides(self) -> tuple[Truth, Truth]:
        q_at, k_at = self.positions
        e: Any = self.encoding
        if isinstance(e, XPos):
            return xpos_truth(e, self.q, q_at, keys=False), xpos_truth(e, self.k, k_at, keys=True)
        if isinstance(e, Rotary):
            n = max(int(np.max(q_at)), int(np.max(k_at))) + 1
            return at_length(e, self.q, q_at, n), at_length(e, self.k, k_at, n)
        if e is None or isinstance(e, Bias):
            return _plain(self.q), _plain(self.k)
        return _added(e, self.q, q_at), _added(e, self.k, k_at)


def _times(truth: Truth, factor: Any) -> Truth:
    size = np.abs(factor)
    parts = (truth.terms * size, truth.angle * size, truth.amplitude * size)
    return Truth(truth.value * factor, *parts)


def _plain(x: np.ndarray) -> Truth:
    return Truth(x, np.abs(x), np.zeros_like(x))


def _added(encoding: Any, x: np.ndarray, at: np.ndarray) -> Truth:
    rows = encoding.truth(at)
    angle = np.broadcast_to(rows.angle, x.shape)
    return Truth(x + rows.value, np.abs(x) + np.abs(rows.value), angle)
