"""The calls with which a model is judged: batches with padding, a cache, packed sequences."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

#: The number of tokens in each row, and the parts in which a cache receives them.
LENGTHS = (12, 9, 6)
SLOTS = max(LENGTHS)
PARTS = (7, 3, 1, 1)
GENERATED = 3
#: The token id of padding.
PAD = 0


@dataclass(frozen=True)
class Batch:
    """Token ids (B, T), with the position of each token in its own sequence.

    ``positions`` is -1 for padding; ``sequence`` tells packed sequences of a row apart.
    """

    ids: np.ndarray
    positions: np.ndarray
    sequence: np.ndarray = field(default_factory=lambda: np.zeros((1, 1), int))

    @property
    def real(self) -> np.ndarray:
        """Return which slots (B, T) hold tokens."""
        return self.positions >= 0

    def grown(self, count: int) -> Batch:
        """Return the batch with ``count`` generated tokens at the end of each row."""
        last = self.positions.max(axis=1, keepdims=True)
        more = last + 1 + np.arange(count)
        ids = np.concatenate([self.ids, np.ones_like(more)], axis=1)
        return Batch(ids, np.concatenate([self.positions, more], axis=1))


def batch(side: str, vocabulary: int, first: int) -> Batch:
    """Return random tokens padded on a ``side``: "left", "right", or "none" for equal lengths."""
    random = np.random.default_rng(0)
    ids = random.integers(first, vocabulary, (len(LENGTHS), SLOTS))
    positions = np.tile(np.arange(SLOTS), (len(LENGTHS), 1))
    if side == "left":
        positions -= SLOTS - np.array(LENGTHS)[:, None]
    elif side == "right":
        positions[positions >= np.array(LENGTHS)[:, None]] = -1
    positions = np.maximum(positions, -1)
    return Batch(np.where(positions < 0, PAD, ids), positions)


def packed(vocabulary: int, first: int) -> Batch:
    """Return one row with three sequences, whose positions begin at 0 again."""
    random = np.random.default_rng(1)
    lengths = (5, 6, 7)
    ids = random.integers(first, vocabulary, (1, sum(lengths)))
    positions = np.concatenate([np.arange(n) for n in lengths])[None]
    sequence = np.repeat(np.arange(len(lengths)), lengths)[None]
    return Batch(ids, positions, sequence)
