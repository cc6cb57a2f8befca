"""Reference outputs of attention, computed by the declared steps or by others.

The values and the error unit are computed here in NumPy, apart from
:meth:`posenc_ref.Attention.output`: see the error unit of that class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posenc_ref import Attention, Bias, Encoding, ModelEncoding, Rotary
from posenc_ref.accuracy import Truth

from .calls import at_length
from .scores import Parts, Scored
from .transforms import adjoint

#: A rotation: the encoding, and its positions.
Turn = tuple[Rotary, np.ndarray]


def attention_of(declared: Any) -> Attention:
    """Return the attention that an encoding, or a model with one layer type, declares.

    Raises TypeError or ValueError for an encoding without attention of its own.
    """
    if isinstance(declared, Attention):
        return declared
    if isinstance(declared, ModelEncoding):
        return declared.attention()
    assert declared is None or isinstance(declared, Encoding)
    return Attention(declared)


def most_tokens(encoding: Any) -> int | None:
    """Return the largest number of tokens that an encoding is defined for, or None."""
    return next((n for name in ("tokens", "rows") if (n := getattr(encoding, name, None))), None)


def whole_tokens(encoding: Any) -> int | None:
    """Return the number of tokens of a window or an image, which is always passed as a whole."""
    window = isinstance(encoding, Bias) and encoding.sees_future
    most = most_tokens(encoding)
    return most if window or getattr(encoding, "grid", None) is not None else None


def sum_of_terms(call: Scored) -> Truth:
    """Return the reference of the logits, with their constants."""
    return summed(call.parts())


def summed(parts: Parts) -> Truth:
    """Return the sum of the parts of logits."""
    names = ("value", "terms", "angle")
    return Truth(*(np.asarray(sum(getattr(t, n) for t in parts.values())) for n in names))


@dataclass(frozen=True)
class Attended:
    """A call of attention, with the steps by which it is computed."""

    scored: Scored  #: queries (B, H, Q, d), all keys (B, H_kv, K, d), and their positions
    v: np.ndarray
    seen: np.ndarray  #: the keys (Q, K) that each query sees
    sinks: np.ndarray | None  #: the logits (H,) of the sinks
    turn: Turn | None  #: the rotation of the values
    back: Turn | None  #: the rotation of the output
    length: int  #: the length of the sequence, for frequencies that depend on it
    heads: np.ndarray  #: the key head of each query head, (H,)
    value_heads: np.ndarray  #: the value head of each query head, (H,)
    logits: Callable[[Scored], Truth | None] = sum_of_terms
    raised: bool = False  #: whether the largest logit of a row is added to its sink
    #: returns the weights of the logits, -inf for hidden keys, in place of the softmax
    weigh: Callable[[np.ndarray], np.ndarray] | None = None
    gain: float = 1.0  #: a factor on the rotated channels of the output
    #: moves the numbers of the output to other places
    moved: Callable[[np.ndarray], np.ndarray] | None = None

    def replace(self, **changes: Any) -> Attended:
        """Return the same call with some steps replaced."""
        return replace(self, **changes)

    def repeated(self) -> Scored:
        """Return the call of the logits, with the keys that each query head reads."""
        group = self.heads.size // self.v.shape[1]
        return self.scored.replace(k=self.scored.k[:, self.heads], group=group)

    def truth(self) -> Truth | None:
        """Return the reference of the output (B, H, Q, d_v), None if there are no such logits."""
        logits = self.logits(self.repeated())
        if logits is None:
            return None
        a = self._weights(logits.value)
        turned = self._turned(self.turn, self.v[:, self.value_heads])
        value, terms, angle = turned.value, turned.terms, turned.angle
        o, a = a @ value, np.abs(a)
        # The error of a logit moves weight between its value and the output.
        away = np.abs(value[:, :, None] - o[:, :, :, None])  # (B, H, Q, K, d)
        out = Truth(
            o,
            a @ np.maximum(terms, np.abs(value)) + _moved(a * logits.terms, away),
            a @ angle + _moved(a * logits.angle, away),
        )
        out = self._turned_back(out)
        if self.moved is None:
            return out
        return Truth(*(self.moved(part) for part in (out.value, out.terms, out.angle)))

    def _weights(self, logits: np.ndarray) -> np.ndarray:
        """Return the weights (B, H, Q, K) of the keys; a query that sees no key has none."""
        logits = np.where(self.seen, logits, -np.inf)
        if self.weigh is not None:
            return self.weigh(logits)
        top = np.max(logits, axis=-1, keepdims=True, initial=-1e300)
        sink = None if self.sinks is None else self.sinks[:, None, None]
        if sink is not None:
            sink = sink + top if self.raised else sink
            top = np.maximum(top, sink)
        e = np.exp(logits - top)
        total = e.sum(axis=-1, keepdims=True)
        total = total if sink is None else total + np.exp(sink - top)
        return np.asarray(e / np.where(total > 0, total, 1.0))

    def _turned(self, turn: Turn | None, x: np.ndarray) -> Truth:
        """Return the reference of a rotation without its attention factor.

        Channels past those of the encoding are not rotated.
        """
        if turn is None:
            return Truth(x, np.abs(x), np.zeros_like(x))
        if x.shape[-1] > turn[0].head_dim:
            rotated, rest = np.split(x, [turn[0].head_dim], axis=-1)
            parts = self._turned(turn, rotated), self._turned(None, rest)
            joined = ([getattr(t, n) for t in parts] for n in ("value", "terms", "angle"))
            return Truth(*(np.concatenate(one, axis=-1) for one in joined))
        truth, rotates = at_length(*turn[:1], x, turn[1], self.length), np.zeros(x.shape[-1], bool)
        rotates[np.ravel(turn[0].output_pairs())] = True
        by = np.where(rotates, 1.0 / self._factor(turn[0]), 1.0)
        return Truth(truth.value * by, truth.terms * np.abs(by), truth.angle * np.abs(by))

    def _turned_back(self, out: Truth) -> Truth:
        """Return the reference of the output after its rotation; it has errors of its own."""
        if self.back is None:
            return out
        encoding, at = self.back
        own = self._turned(self.back, out.value)
        cos, sin = encoding.cos_sin(at, seq_len=self.length if encoding.depends_on_length else None)
        cos, sin = (np.abs(t / self._factor(encoding)) for t in (cos, sin))
        if cos.ndim == 3:
            cos, sin = cos[:, None], sin[:, None]
        (first, second), (one, other) = encoding.pairs(), encoding.output_pairs()
        terms, angle = np.array(out.terms), np.array(out.angle)
        for made, of in ((terms, out.terms), (angle, out.angle)):
            made[..., one] = of[..., first] * cos + of[..., second] * sin
            made[..., other] = of[..., second] * cos + of[..., first] * sin
        by = np.ones(out.value.shape[-1])
        by[np.ravel((one, other))] = self.gain
        size = np.abs(by)
        terms = np.maximum(terms, own.terms)
        return Truth(own.value * by, terms * size, (angle + own.angle) * size)

    def _factor(self, encoding: Rotary) -> float:
        return encoding.attention_factor(self.length if encoding.depends_on_length else None)


def _moved(weights: np.ndarray, away: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("bhqk,bhqkd->bhqd", weights, away))


def attended(
    declared: Any,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    q_at: np.ndarray,
    k_at: np.ndarray,
    sinks: np.ndarray | None = None,
) -> Attended:
    """Return the declared steps of a call with positions (S,) or (A, B, S)."""
    of = attention_of(declared)
    (_, h, n_q, d), n_k = q.shape, k.shape[2]
    scale = of.softmax_scale
    if scale is None:
        scale = d**-0.5 if of.encoding is None else of.encoding.own_scale(d)
    factor = None if of.query_scale is None else np.asarray(of.query_scale.factor(q_at))
    seen = np.ones((n_q, n_k), bool)
    if of.causal:
        seen = np.arange(n_k) <= np.arange(n_k - n_q, n_k)[:, None]
    turns: tuple[Turn | None, Turn | None] = (None, None)
    if isinstance(of.encoding, Rotary) and of.values != "plain":
        turns = (of.encoding, k_at), (adjoint(of.encoding), q_at)
    heads = np.arange(h) // (h // k.shape[1])
    length = 1 + int(max(np.max(q_at, initial=0), np.max(k_at, initial=0)))
    scored = Scored(of.encoding, q, k, scale, factor, q_at, k_at)
    return Attended(scored, v, seen, sinks, *turns, length, heads, heads)
