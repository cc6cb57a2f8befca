"""Identify the encoding of ``attention`` from the weights of its values.

The weights of a query are read from values that are rows of the identity. Their logarithms are the
logits, up to a constant for each query: that of one more key, which is zero and has the query's
own position. So a bias is found up to its value at the query itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.rotary.as_apply import Inexpressible

from .card import Card, Unidentified
from .logits import Logits
from .scores import measure

#: The largest logit of the test inputs, by dtype: its exponential must not overflow.
_LOUDEST = {"float16": 6.0}
_LOUD = 16.0
#: The precision of logits that are logarithms of weights.
_PRECISION = {"float64": "float32", "float32": "float16", "float16": "bfloat16"}
#: The most keys of a call whose weights are all read: values have as many channels.
_MOST_KEYS = 1024
#: The farthest position, in calls with a few keys.
_FARTHEST = 2**17
#: About how many elements of v to pass in one call.
_CHUNK = 2**22


@dataclass
class Weights(Logits):
    """Access to the logits of ``fn(q, k, v, q_positions, k_positions)``."""

    grids = ()

    loud: float = 1.0  #: the value of the nonzero channels of q and k
    wide: bool = True  #: whether values may have more channels than keys
    causal: bool = False  #: whether a query does not see later keys

    @property
    def size(self) -> float:
        """The value of the nonzero channels of the test inputs q and k."""
        return self.loud

    @property
    def farthest(self) -> int:
        """The largest distance of a key from the query."""
        return _FARTHEST

    def learn(self) -> None:
        """Find the number of heads, the mask, and inputs of which no weight underflows."""
        try:
            super().learn()
        except (Refused, Malformed):
            self.wide = False
            super().learn()
        zeros = np.zeros((1, self.tokens, self.dim))
        places = np.arange(self.tokens)
        seen = self._weights(zeros, zeros, places, places)[0] != 0
        later = np.triu(np.ones(seen.shape[-2:], bool), 1)
        self.causal = not seen[..., later].any()
        scale = float(self.last(np.array([0]), np.array([0]), 1)[0, 0, 0])
        loudest = _LOUDEST.get(self.run.dtype, _LOUD)
        self.loud = 2.0 ** np.round(np.log2(loudest / max(scale, 2.0**-10)) / 2)

    def of(self, q: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Return logits (B, H, Q, K), with the same q (B, Q, d) and k (B, K, d) in every head."""
        n_q, n_k = q.shape[1], k.shape[1]
        at, places = np.arange(n_k - n_q, n_k), np.arange(n_k)
        y = np.stack([self._row(q[:, i], k, at[i], places) for i in range(n_q)], axis=2)
        return np.asarray(np.where(self.causal & (places > at[:, None]), -np.inf, y))

    def at(self, a: np.ndarray, b: np.ndarray, distances: np.ndarray) -> np.ndarray:
        """Return logits (n, H, D) of a query and keys that are ``distances`` before it."""
        last = int(distances.max())
        q, k = self.hot(a, 1)[:, 0], self.hot(b, distances.size)
        return self._row(q, k, last, last - distances)

    def bias_at(self, distances: np.ndarray) -> np.ndarray:
        """Return the logits (H, D) for zero inputs, by the distance of the key."""
        none = np.array([-1])
        return np.asarray(self.at(none, none, distances)[0])

    def bias(self, q_len: int, k_len: int) -> np.ndarray:
        """Return the logits (H, Q, K) for zero inputs, without their rounding errors."""
        if k_len > _MOST_KEYS:
            raise Refused(Inexpressible(f"at most {_MOST_KEYS} keys, got {k_len}"))
        q, k = np.zeros((1, q_len, self.dim)), np.zeros((1, k_len, self.dim))
        places = np.arange(k_len)
        own = places[k_len - q_len :]
        with np.errstate(divide="ignore", invalid="ignore"):
            y = np.log(self._weights(q, k, own, places)[0])
            y = y - y[:, np.arange(q_len), own, None]
        seen = np.isfinite(y)
        if (seen.any(axis=0) != seen.all(axis=0)).any():
            raise Refused(Inexpressible("the weights of far keys are 0 in some heads"))
        return _levelled(y, 32 * ROUNDOFF[self.run.dtype])

    def _row(self, q: np.ndarray, k: np.ndarray, at: int, places: np.ndarray) -> np.ndarray:
        """Return the logits (B, H, K) of one query q (B, d) at a position."""
        own = np.concatenate([k, np.zeros_like(k[:, :1])], axis=1)
        step = max(1, _CHUNK // (own.shape[1] ** 2 * self.heads))
        parts = [
            self._weights(q[i : i + step, None], own[i : i + step], np.array([at]),
                          np.append(places, at))
            for i in range(0, q.shape[0], step)
        ]  # fmt: skip
        weights = np.concatenate(parts)[:, :, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            logits = np.log(weights)
            return np.asarray(logits[..., :-1] - logits[..., -1:])

    def _weights(
        self, q: np.ndarray, k: np.ndarray, q_at: np.ndarray, k_at: np.ndarray
    ) -> np.ndarray:
        """Return the weights (B, H, Q, K) of a call with q (B, Q, d) and k (B, K, d)."""
        n = k.shape[1]
        width = n if self.wide else self.dim
        q, k = (np.repeat(x[:, None], self.heads, axis=1) for x in (q, k))
        parts = []
        for first in range(0, n, width):
            v = np.broadcast_to(np.eye(n, width, -first), (*k.shape[:2], n, width)).copy()
            y = self.run.driver.array(self.run.driver.call(q, k, v, q_at, k_at))
            expected = (*q.shape[:3], width)
            if y.shape != expected:
                raise Malformed(f"expected (B, H, Q, D_v) = {expected}, got {y.shape}")
            parts.append(y)
        self.run.reached(int(k_at.max()))
        weights = np.concatenate(parts, axis=-1)[..., :n]
        slack = 64 * ROUNDOFF[self.run.dtype]
        if np.isnan(weights).any():
            raise Unidentified("the outputs of inputs without NaN contain NaN")
        total = weights.sum(axis=-1)
        if (weights < -slack).any() or (total <= 0).any() or (total > 1 + slack).any():
            raise Unidentified("outputs are no means of the values: are values rotated?")
        return np.asarray(np.maximum(weights, 0.0))


def _levelled(values: np.ndarray, gap: float) -> np.ndarray:
    """Return values of which those that differ by less than ``gap`` are one."""
    order = np.unique(values[np.isfinite(values)])
    starts = [0, *(i + 1 for i, (a, b) in enumerate(pairwise(order)) if b - a > gap), order.size]
    level = values.copy()
    for first, end in pairwise(starts):
        group = order[first:end]
        level[(values >= group[0]) & (values <= group[-1])] = np.round(np.median(group) / gap) * gap
    return level


def identify(run: Run, card: Card) -> None:
    """Fill in the identity card of an attention."""
    precision = run.settings.precision or _PRECISION.get(run.dtype, run.dtype)
    settings = replace(run.settings, precision=precision)
    run = replace(run, settings=settings)
    try:
        measure(run, card, Weights(run, settings.head_dim or 0))
    finally:
        card.limits = [text for text in card.limits if Inexpressible.__name__ not in text]
    if "bias" in card.facts.get("terms", ""):
        card.relations += ("a constant added to the bias of a head changes no output",)
