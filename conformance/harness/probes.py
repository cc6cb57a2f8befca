"""The inputs of the judges, from short to long, and the reasons for their sizes."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

#: (B, H, S) with distinct sizes, so that a transposed axis changes the shape.
SIZES = ((2, 3, 5), (3, 2, 1), (4, 2, 4), (1, 4, 1))
#: (B, H, S) of larger calls from position 0: equal sizes, for which a guessed layout is ambiguous;
#: powers of two, as in models; more heads, rows and tokens than one tile of a kernel.
WIDE = ((2, 5, 5), (5, 3, 5), (2, 8, 64), (1, 32, 128), (9, 9, 130), (1, 33, 257), (1, 1, 2050))
#: Positions of the first call, which is repeated last: both results must be equal.
SHORT = np.arange(4)
#: Positions of one-hot inputs: 0, 1, and larger odd numbers that are no multiple of a table length.
ONE_HOT = np.array([0, 1, 37, 211, 1021])
#: Scattered positions. Powers of two alone are exact in every dtype, and so would hide roundings.
GENERIC = np.array(
    [3, 101, 257, 777, 1001, 1857, 2049, 3001, 4095, 5003, 16001, 32767, 65537, 100003, 131071]
)
#: Starts of contiguous windows: rounding to half precision makes consecutive positions equal.
WINDOWS = (1001, 4093, 32765, 131065)
#: The report gives the absolute error at the end of contexts of these lengths.
REPORTED = (2**12, 2**15, 2**17, 2**20)
#: A call ends in the last row of a table of each of these lengths, which may be a row short. Calls
#: that reach farther may not use the table. The end of a context of 4096 is such a call, too.
TABLES = (2**9, 2**10, 2**11, 2**13)
#: The cases of one token per row, as in decoding: the first row of the batch, and all other rows.
ONE_TOKEN, ONE_EACH = "one token at position 37", "one token at position 37, other batch rows"
#: The start of the names of the cases of one token at another, farther position.
FAR_TOKEN = "one token at the far position"
#: The case of positions (B, S) that differ between the rows of a batch.
PER_ROW = "per-row positions (B, S)"
#: Positions from 0 or a little later, or around larger ones, where tables and narrow integers end.
NEAR, AROUND = "small", (2**10, 2**13, 2**17, 2**20)
#: Positions that models do not send. A function that answers them wrongly gets a note, no error.
SELDOM = ("negative positions", "fractional positions")
#: Below this position, every position is searched for the first visible error.
SCAN = 2**14
#: Positions at which the precision of the angles is classified; the largest ones reveal float32
#: angles even in bfloat16 results.
TELLING = np.array([*GENERIC, 400009, 700001, 999983, 1048573])
#: (q_len, k_len) of biases: square, decoding, prefill with a cache, and long sequences.
LENGTHS = ((5, 5), (1, 7), (3, 11), (64, 64), (1, 128), (16, 256), (1, 300), (1, 1024), (4, 2050))
#: Numbers of heads: powers of two and their neighbours.
HEADS = (*range(1, 17), 20, 24, 25, 32, 40, 48, 64, 71, 96, 112, 128)
#: More numbers of heads, just past each power of two up to 256: hard-coded tables often end there.
MORE_HEADS = (17, 18, 33, 36, 56, 65, 80, 97, 104, 127, 129, 144, 160, 192, 255, 256, 257)


def dense(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Return normal random numbers; the same seed gives the same numbers."""
    return _dense(shape, seed).copy()


@lru_cache(maxsize=64)
def _dense(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def grid(sizes: tuple[int, ...]) -> np.ndarray:
    """Return the positions (A, tokens) of a whole grid, the last axis fastest."""
    return np.indices(sizes).reshape(len(sizes), -1)


def sides(tokens: int, axes: int) -> tuple[int, ...]:
    """Return the sizes of a grid of at most this many tokens, wider than high.

    All axes but the last two have size 1.
    """
    height = max(math.isqrt(tokens) - 1, 1)
    return (*[1] * (axes - 2), height, tokens // height)


def unit_pairs(shape: tuple[int, ...], first: np.ndarray) -> np.ndarray:
    """Return x with 1 in the channels ``first``, one per pair: rotated, a pair is (cos, sin)."""
    x = np.zeros(shape)
    x[..., first] = 1.0
    return x


def error_window(length: int) -> np.ndarray:
    """Return the last 10 positions of a context of ``length`` tokens."""
    return np.arange(max(length - 10, 0), length)
