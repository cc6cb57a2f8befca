"""The layouts and channel ranges that contain the measured pairs of a rotation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref.conformance.identify.fit.measurement import Factor, Measurement
from posenc_ref.conformance.phases.measure import Measured, Phases
from posenc_ref.rope import layout_pairs


@dataclass(frozen=True)
class Structure:
    """The fields of a ``RoPE`` layout, and the index of each measured pair among its pairs."""

    fields: dict[str, Any]
    index: np.ndarray  #: all other pairs have frequency 0
    count: int  #: the number of pairs of the layout

    def pairs(self) -> list[tuple[int, int]]:
        """Return the channels of all pairs of the layout."""
        return _pairs(self.fields["layout"], self.count, self.fields.get("rotary_start", 0))

    def measurement(self, dtype: str, phases: Phases, factor: Factor, sign: int = 1) -> Measurement:
        """Return the frequency of every pair of the layout."""
        w, sigma = np.zeros(self.count), np.zeros(self.count)
        w[self.index], sigma[self.index] = sign * phases.frequencies, phases.sigma
        return Measurement.of(dtype, w, sigma, factor)


def structures(dim: int, measured: Measured) -> list[Structure]:
    """Return the layouts and channel ranges that contain the measured pairs, smallest first.

    Other pairs of the range must not be rotated: their frequency is 0.
    """
    every = []
    found = [(p.a, p.b) for p in measured.pairs]
    written = [(p.out_a, p.out_b) for p in measured.pairs]
    alone = {*measured.passed, *measured.scaled}
    for layout, count, start in dict.fromkeys(_candidates(dim, found)):
        pairs = _pairs(layout, count, start)
        others = {channel for pair in set(pairs) - set(found) for channel in pair}
        inside = start >= 0 and start + 2 * count <= dim and set(found) <= set(pairs)
        if not inside or not others <= alone:
            continue
        fields: dict[str, Any] = {"head_dim": dim, "layout": layout}
        if 2 * count != dim:
            fields |= {"rotary_dim": 2 * count, "rotary_start": start}
        index = [pairs.index(pair) for pair in found]
        if written != found:
            out = "half" if layout == "interleaved" else "interleaved"
            there = _pairs(out, count, start)
            if [there[i] for i in index] != written:
                continue
            fields["output_layout"] = out
        every.append(Structure(fields, np.array(index), count))
    return every


def _candidates(dim: int, found: list[tuple[int, int]]) -> Iterator[tuple[str, int, int]]:
    """Yield layout, number of pairs and first channel of each candidate, fewest pairs first."""
    first, last = min(a for a, _ in found), max(b for _, b in found)
    apart = {b - a for a, b in found}
    half = apart.pop() if len(apart) == 1 else 0
    if half == len(found):
        yield "half", half, first
    if half == 1:
        yield "interleaved", (last + 1 - first) // 2, first
        yield "interleaved", dim // 2, 0
    elif half:
        # The channel distance is the number of pairs; the last ones may have frequency 0.
        yield "half", half, 0 if 2 * half == dim else first


def _pairs(layout: str, count: int, start: int) -> list[tuple[int, int]]:
    first, second = layout_pairs(layout, count, start)
    return list(zip(first.tolist(), second.tolist(), strict=True))
