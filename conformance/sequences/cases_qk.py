"""Queries and keys for ``apply_qk``: required calls first, then optional ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from posenc_ref import Rotary, XPos
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.drive import Probe
from posenc_ref.conformance.harness.probes import GENERIC, SIZES
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import xpos_truth
from posenc_ref.conformance.oracle.calls import at_length, one_table

#: The largest position for xPos: beyond it, the decay of keys overflows float32.
_XPOS_HIGHEST = 8191


#: The sizes (B, H, S) of queries and keys.
Sizes = tuple[tuple[int, int, int], tuple[int, int, int]]


@dataclass(frozen=True)
class Side:
    """The queries, or the keys, of one call."""

    encoding: Rotary
    x: np.ndarray  #: (B, H, S, D)
    positions: np.ndarray  #: (S,), (B, S) or (A, B, S)
    others: np.ndarray  #: positions of the keys if these are queries, and vice versa
    keys: bool
    length: int  #: the length of the sequence: the largest position of the call plus one
    group: int = 1  #: the number of query heads for each key head

    def numbers(self) -> dict[str, int]:
        """Return numbers of the call that the shape of x does not show."""
        more = self.x.shape[2] - self.others.shape[-1]
        return {"H / H_kv": self.group, "K - Q": more if self.keys else -more}

    def truth(self) -> Truth:
        """Return the expected rotated queries or keys."""
        return self._truth

    @cached_property
    def _truth(self) -> Truth:
        if isinstance(self.encoding, XPos):
            return xpos_truth(self.encoding, self.x, self.positions, keys=self.keys)
        return at_length(self.encoding, self.x, self.positions, self.length)


def one_head(run: Run, positions: np.ndarray) -> Probe:
    """Return a call with one row and one head of queries and keys at these positions."""
    q, k = (run.random((1, 1, positions.size, run.encoding.head_dim), n) for n in (22, 23))
    length = int(positions.max()) + 1
    query = Side(run.encoding, q, positions, positions, keys=False, length=length)
    key = Side(run.encoding, k, positions, positions, keys=True, length=length)
    return Probe("state", f"{positions.size} tokens", (query, key), False, "")


def cases(run: Run) -> Iterator[Probe]:
    """Yield the calls, from short to long; the required ones come first."""
    encoding, dim = run.encoding, run.encoding.head_dim

    def case(name: str, sizes: Sizes, q_at: Any, k_at: Any, required: bool = False) -> Probe:
        q, k = (run.random((*size, dim), 31 * i + sum(size)) for i, size in enumerate(sizes))
        length = max(int(q_at.max()), int(k_at.max())) + 1
        group = q.shape[1] // k.shape[1]
        query = Side(encoding, q, q_at, k_at, keys=False, length=length, group=group)
        key = Side(encoding, k, k_at, q_at, keys=True, length=length, group=group)
        check = "required inputs" if required else "pairs"
        words = f"q of shape {q.shape}, {name}" if required else ""
        return Probe(check, name, (query, key), required, words)

    for size in SIZES:
        at = np.arange(size[2])
        yield case(f"B, H, S = {size} at 0..{at[-1]}", (size, size), at, at, True)
    highest = run.settings.up_to(_XPOS_HIGHEST if isinstance(encoding, XPos) else 2**40)
    for name, sizes, q_at, k_at in _optional(encoding.num_axes, run.settings.seed, highest):
        ends = [int(p.max()) + 1 for p in (q_at, k_at)]
        if max(ends) - 1 <= highest and one_table(encoding, ends):
            yield case(name, sizes, q_at, k_at)


def _optional(
    axes: int, seed: int, highest: int
) -> Iterator[tuple[str, Sizes, np.ndarray, np.ndarray]]:
    """Yield a name, the sizes of queries and keys, and the positions of both."""
    window, rng = np.arange(4), np.random.default_rng(seed + 23)
    yield "fewer key heads", ((2, 6, 4), (2, 2, 4)), window, window
    yield "one key head", ((3, 4, 2), (3, 1, 2)), np.arange(2), np.arange(2)
    yield "the same later positions", ((2, 3, 4), (2, 3, 4)), window + 7, window + 7
    yield "keys before the queries", ((2, 3, 4), (2, 3, 4)), window + 7, window + 2
    yield "one query, ten keys", ((2, 3, 1), (2, 3, 10)), np.array([9]), np.arange(10)
    rows = np.array([[4, 9, 2, 0, 31], [7, 1, 8, 40, 3]])
    yield "positions (B, S)", ((2, 3, 5), (2, 3, 5)), rows, rows[::-1] + 2
    if axes > 1:
        shape = (axes, 2, 5)
        grids = rng.integers(0, 64, (2, *shape))
        yield "positions (A, B, S)", ((2, 3, 5), (2, 3, 5)), *grids
    if axes == 1:  # sizes of heads, and heads that share keys, are told apart
        four = np.array([[12, 3, 50, 9], [40, 2, 8, 41], [3, 61, 5, 22], [25, 7, 1, 30]])
        for heads, shared in ((6, 6), (2, 1), (6, 2), (7, 7)):
            name = f"positions (B, S), {heads} heads, {shared} key heads"
            yield name, ((4, heads, 4), (4, shared, 4)), four, four[[1, 3, 0, 2]] + 1
            if heads == 7:
                continue
            name = f"keys before the queries, {heads} heads, {shared} key heads"
            yield name, ((4, heads, 4), (4, shared, 4)), window + 7, window + 2
    generic, wide = np.sort(GENERIC), np.arange(300)
    q_at, k_at = (p[p <= highest] for p in (generic, np.roll(generic, 3)))
    yield "generic positions", ((1, 2, q_at.size), (1, 2, k_at.size)), q_at, k_at
    yield "300 tokens", ((1, 2, 300), (1, 1, 300)), wide, wide
