"""Reference values of calls with an offset, of chunks, and of queries with keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth

from .apply import apply_truth


def at_length(encoding: Rotary, x: np.ndarray, positions: np.ndarray, length: int) -> Truth:
    """Return the reference of ``apply`` with the frequencies of a sequence of ``length`` tokens."""
    return apply_truth(encoding, x, positions, np.array([length]))


def one_table(encoding: Rotary, lengths: Sequence[int]) -> bool:
    """Return whether frequencies and attention factor are the same at all ``lengths``."""
    if not encoding.depends_on_length:
        return True
    first, *others = sorted(set(lengths))
    return all(
        np.array_equal(encoding.frequencies(first), encoding.frequencies(n))
        and encoding.attention_factor(first) == encoding.attention_factor(n)
        for n in others
    )


def logits(q: Truth, k: Truth, scale: float = 1.0) -> Truth:
    """Return the reference of ``q . k * scale`` for rotated queries and keys.

    B is ``B_q |k| + |q| B_k`` summed over channels, times the scale. A is ``A_q A_k`` summed
    over channels, times the scale; channels passed through use their absolute values as A.
    """
    k_value, k_terms, k_angle = (np.swapaxes(t, -1, -2) for t in (k.value, k.terms, k.angle))
    a_q, a_k = np.maximum(q.terms, np.abs(q.value)), np.maximum(k_terms, np.abs(k_value))
    terms = a_q @ a_k * abs(scale)
    angle = np.zeros_like(terms)
    if q.angle.any() or k.angle.any():
        angle = (q.angle @ np.abs(k_value) + np.abs(q.value) @ k_angle) * abs(scale)
    return Truth(q.value @ k_value * scale, terms, angle, terms)
