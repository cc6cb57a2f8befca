"""An encoding of one's own, and two functions judged against it: python capped.py."""

from dataclasses import dataclass

import numpy as np

from posenc_ref.bias import Bias
from posenc_ref.conformance import check


@dataclass(frozen=True, eq=False, repr=False)
class Capped(Bias):
    """A penalty for the distance that stops growing at a window.

    Formula
        ``b(i, j) = -slope min(|i - j|, window)`` for every head.
    """

    slope: float
    window: int
    num_heads: int = 1

    def _of_offset(self, offset):
        distance = np.minimum(np.abs(offset), self.window)
        return -self.slope * np.expand_dims(distance, axis=-3)


def bias(q_len, k_len):
    """Return the bias of the last q_len of k_len tokens, shape (1, q_len, k_len)."""
    offset = np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len)
    return np.float32(-0.125) * np.minimum(np.abs(offset), 64)[None].astype(np.float32)


def from_the_first(q_len, k_len):
    """Mistake: query i has position i, also when earlier keys are cached."""
    offset = np.arange(q_len)[:, None] - np.arange(k_len)
    return np.float32(-0.125) * np.minimum(np.abs(offset), 64)[None].astype(np.float32)


if __name__ == "__main__":
    for function in (bias, from_the_first):
        print(check(function, Capped(slope=0.125, window=64), "bias"))
