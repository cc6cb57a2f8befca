"""Decode the position of a token from its angles.

It is used only if the declared positions do not match.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

#: Candidates are the integers below this one; near zero, negative ones too.
REACH = 2**17 + 64
_NEGATIVE = 64


@dataclass(frozen=True)
class Decoder:
    """The cos and sin of candidate positions; the nearest candidate is the decoded position."""

    frequencies: np.ndarray
    candidates: np.ndarray
    table: np.ndarray  # complex, (candidates, chosen pairs)
    chosen: np.ndarray

    @classmethod
    def of(cls, frequencies: np.ndarray, reach: int = REACH) -> Decoder:
        """Return a decoder for these frequencies; it compares at most eight of the pairs."""
        return _decoder(frequencies.astype(np.float64).tobytes(), reach)

    @classmethod
    def made(cls, frequencies: np.ndarray, reach: int) -> Decoder:
        """Return a new decoder, with its table."""
        count = min(8, frequencies.size)
        chosen = np.unique(np.linspace(0, frequencies.size - 1, count).astype(int))
        candidates = np.arange(-_NEGATIVE, reach)
        table = np.exp(1j * candidates[:, None] * frequencies[chosen])
        return cls(frequencies, candidates, table, chosen)

    def position(self, cos: np.ndarray, sin: np.ndarray) -> tuple[int, float]:
        """Return the nearest position for cos and sin (pairs,), and the largest misfit."""
        seen = (cos + 1j * sin)[self.chosen]
        misfit = self._misfit(self.table - seen)
        at = int(np.argmin(misfit))
        return int(self.candidates[at]), float(misfit[at])

    def rotated(self, before: np.ndarray, after: np.ndarray, row: int | None = None) -> int:
        """Return the position whose rotation maps ``before`` to ``after``, complex (pairs,).

        With ``row``, only the first (0) or the second (1) channel of every pair is compared.
        """
        x, y = before[self.chosen], after[self.chosen]
        if not self.chosen.size:
            return int(self.candidates[0])
        parts: dict[int | None, Callable[[np.ndarray], np.ndarray]]
        parts = {None: np.abs, 0: np.real, 1: np.imag}
        part = parts[row]
        # The error of one pair is at most that of all: it leaves few candidates.
        one = np.abs(part(self.table[:, 0] * x[0] - y[0]))
        least = self._misfit(part(self.table[[np.argmin(one)]] * x - y)).min()
        near = np.flatnonzero(~(one > least))
        misfit = self._misfit(part(self.table[near] * x - y))
        return int(self.candidates[near[np.argmin(misfit)]])

    def _misfit(self, off: np.ndarray) -> np.ndarray:
        """Return the largest error of each candidate; without pairs, none fits."""
        return np.asarray(np.abs(off).max(axis=1, initial=0.0 if self.chosen.size else np.inf))

    def positions(self, cos: np.ndarray, sin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return :meth:`position` for every token of cos and sin (..., pairs)."""
        shape, pairs = cos.shape[:-1], cos.shape[-1]
        each = zip(cos.reshape(-1, pairs), sin.reshape(-1, pairs), strict=True)
        found, misfit = np.array([self.position(c, s) for c, s in each]).reshape(-1, 2).T
        return found.astype(np.int64).reshape(shape), misfit.reshape(shape)


@lru_cache(maxsize=8)
def _decoder(frequencies: bytes, reach: int) -> Decoder:
    return Decoder.made(np.frombuffer(frequencies), reach)
