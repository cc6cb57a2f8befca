"""Find the layout and the rotated slice of measured pairs, as fields of ``RoPE``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref.conformance.phases.measure import Measured, Phases
from posenc_ref.rope import layout_pairs

from .fit.measurement import Factor, Measurement


@dataclass(frozen=True)
class Structure:
    """Fields of ``RoPE``, and the slot of every measured pair; other slots have frequency 0."""

    fields: dict[str, Any]
    slots: np.ndarray
    count: int

    def measurement(self, dtype: str, phases: Phases, factor: Factor, sign: int = 1) -> Measurement:
        """Return the frequency of every slot, 0 for slots without a measured pair."""
        w, sigma = np.zeros(self.count), np.zeros(self.count)
        w[self.slots], sigma[self.slots] = sign * phases.frequencies, phases.sigma
        return Measurement.of(dtype, w, sigma, factor)


def structures(dim: int, measured: Measured) -> list[Structure]:
    """Return the layouts and slices that contain the measured pairs, the smallest slice first.

    Pairs of a layout may be missing if their channels pass through: their frequency is 0.
    """
    every = []
    found = [(p.a, p.b) for p in measured.pairs]
    written = [(p.out_a, p.out_b) for p in measured.pairs]
    alone = {*measured.passed, *measured.scaled}
    for layout, count, start in dict.fromkeys(_candidates(dim, found)):
        slots = _slots(layout, count, start)
        if start < 0 or start + 2 * count > dim or any(pair not in slots for pair in found):
            continue
        still = set(slots) - set(found)
        if any(c not in alone for pair in still for c in pair):
            continue
        fields: dict[str, Any] = {"head_dim": dim, "layout": layout}
        if 2 * count != dim:
            fields |= {"rotary_dim": 2 * count, "rotary_start": start}
        index = np.array([slots[pair] for pair in found])
        if written != found:
            out = "half" if layout == "interleaved" else "interleaved"
            there = list(_slots(out, count, start))
            if [there[i] for i in index] != written:
                continue
            fields["output_layout"] = out
        every.append(Structure(fields, index, count))
    return every


def _candidates(dim: int, found: list[tuple[int, int]]) -> Iterator[tuple[str, int, int]]:
    """Yield layout, number of pairs and first channel, for the smallest slice first."""
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


def _slots(layout: str, count: int, start: int) -> dict[tuple[int, int], int]:
    """Return the slot of every pair of channels."""
    first, second = layout_pairs(layout, count, start)
    return {(int(a), int(b)): k for k, (a, b) in enumerate(zip(first, second, strict=True))}
