"""Find runs of consecutive channel pairs in a rotary encoding, which slices can address."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posenc_ref import Rotary

#: With more runs than this, ``Rotary.apply`` is faster.
_MOST = 12


@dataclass(frozen=True)
class PairRun:
    """Consecutive pairs on consecutive channels.

    If ``interleaved``, the channels of a pair are adjacent; otherwise, the first channels of all
    pairs come before the second channels ("halves").
    """

    interleaved: bool
    start: int  #: the first channel
    first_pair: int
    size: int  #: the number of pairs

    @property
    def channels(self) -> slice:
        """The channels, twice as many as pairs."""
        return slice(self.start, self.start + 2 * self.size)

    @property
    def pairs(self) -> slice:
        """The columns of a cos or sin table that these pairs use."""
        return slice(self.first_pair, self.first_pair + self.size)


def unrotated(runs: tuple[PairRun, ...], dim: int) -> tuple[slice, ...]:
    """Return the channels below ``dim`` outside all runs; ``runs`` are sorted by channel."""
    free, at = [], 0
    for run in runs:
        if run.start > at:
            free.append(slice(at, run.start))
        at = run.channels.stop
    if at < dim:
        free.append(slice(at, dim))
    return tuple(free)


def pair_runs(encoding: Rotary) -> tuple[PairRun, ...] | None:
    """Return the pair runs of ``encoding``, sorted by channel, or None if there are more than 12.

    The sections of a multi-axis encoding add no runs: they change the tables, not the channels.
    """
    first, second = encoding.pairs()
    if not all(map(np.array_equal, encoding.pairs(), encoding.output_pairs())):
        return None
    runs: list[PairRun] = []
    at = 0
    while at < first.size:
        gap = int(second[at] - first[at])
        steps = np.arange(first.size - at)
        if gap == 1:
            adjacent = (first[at:] == first[at] + 2 * steps) & (second[at:] == first[at:] + 1)
            size = int(np.argmin(adjacent)) if not adjacent.all() else adjacent.size
        else:
            size = gap
            a, b = first[at : at + gap], second[at : at + gap]
            together = np.arange(gap) + first[at]
            if gap < 1 or not (np.array_equal(a, together) and np.array_equal(b, together + gap)):
                return None
        runs.append(PairRun(gap == 1, int(first[at]), at, size))
        at += size
        if len(runs) > _MOST:
            return None
    return tuple(sorted(runs, key=lambda run: run.start))
