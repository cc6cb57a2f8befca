"""How the channel pairs of a rotary encoding lie in memory, for kernels that want slices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posenc_ref import Rotary

#: More slices than this cost more to start than they save.
_MOST = 12


@dataclass(frozen=True)
class Run:
    """Consecutive pairs on consecutive channels, either side by side or in two halves."""

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
        """The columns of a table that these pairs use."""
        return slice(self.first_pair, self.first_pair + self.size)


def untouched(runs: tuple[Run, ...], dim: int) -> tuple[slice, ...]:
    """The channels of ``dim`` that no run turns; ``runs`` are in the order of channels."""
    free, at = [], 0
    for run in runs:
        if run.start > at:
            free.append(slice(at, run.start))
        at = run.channels.stop
    if at < dim:
        free.append(slice(at, dim))
    return tuple(free)


def pair_runs(encoding: Rotary) -> tuple[Run, ...] | None:
    """The runs of ``encoding`` in the order of channels; None where a few do not hold its pairs.

    Sections of a multi-axis encoding need none of their own: an axis changes tables, not channels.
    """
    first, second = encoding.pairs()
    if not all(map(np.array_equal, encoding.pairs(), encoding.output_pairs())):
        return None
    runs: list[Run] = []
    at = 0
    while at < first.size:
        gap = int(second[at] - first[at])
        steps = np.arange(first.size - at)
        if gap == 1:
            side_by_side = (first[at:] == first[at] + 2 * steps) & (second[at:] == first[at:] + 1)
            size = int(np.argmin(side_by_side)) if not side_by_side.all() else side_by_side.size
        else:
            size = gap
            a, b = first[at : at + gap], second[at : at + gap]
            together = np.arange(gap) + first[at]
            if gap < 1 or not (np.array_equal(a, together) and np.array_equal(b, together + gap)):
                return None
        runs.append(Run(gap == 1, int(first[at]), at, size))
        at += size
        if len(runs) > _MOST:
            return None
    return tuple(sorted(runs, key=lambda run: run.start))
