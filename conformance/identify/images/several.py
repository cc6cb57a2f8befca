"""Identify tables of several axes of positions: ``fn(positions (A, S)) -> (S, dim)``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from posenc_ref import BoxSine
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.identify import features
from posenc_ref.conformance.identify.card import Card, Unidentified, require_finite, require_same

from .axis_tables import COORDINATES_OF, Axes, boxed, sinusoids, spaced

#: The positions that every axis must accept: those of small grids, and parts of 1 for boxes.
_FEW = 4
#: The distance of the positions at which columns are compared, where fractions are accepted.
_STEP = 2.0**-5


def identify(run: Run, card: Card) -> None:
    """Fill in the identity card of a table of several axes."""
    count = run.driver.axes

    def rows(axis: int, at: np.ndarray) -> np.ndarray:
        positions = np.zeros((count, at.size), dtype=at.dtype)
        positions[axis] = at
        return _table(run, positions)

    start = np.zeros((count, _FEW), np.int64)
    try:
        first = _table(run, start)
    except (Refused, Malformed) as error:
        raise Unidentified(f"a call with positions ({count}, {_FEW}) fails: {error}") from None
    require_finite(first)
    require_same(first, _table(run, start))
    axes = Axes(run, count, first.shape[1], rows, _FEW)
    scaled = _fractional(axes)
    found = sinusoids(scaled)
    if found is None:
        if features.identify(run, card):
            return
        raise Unidentified("the columns form no sinusoids that belong to one axis each")
    run.reached(_FEW - 1)
    if count in COORDINATES_OF:
        box = boxed(found, axes, card)
        if box is not None and (count > 3 or box.scale != 1.0):
            card.frequencies = np.concatenate([p.frequencies for p in found.phases])
            card.uncertainty = np.concatenate([p.sigma for p in found.phases])
            card.facts["axes"] = f"coordinates {box.axes}, in columns of {box.axis_order}"
            card.encoding = box
            return
    if isinstance(found.shell, BoxSine):
        raise Unidentified("the sinusoids of the coordinates have no base")
    card.facts["axes"] = f"columns of {found.shell.axis_order}, {found.shell.layout}"
    card.encoding = found.shell.replace(**spaced(found, axes, card))


def _table(run: Run, positions: np.ndarray) -> np.ndarray:
    table = run.driver.array(run.driver.call(positions))
    if table.ndim != 2 or table.shape[0] != positions.shape[1] or not table.shape[1]:
        raise Malformed(f"expected shape ({positions.shape[1]}, dim), got {table.shape}")
    return table


def _fractional(axes: Axes) -> Axes:
    """Return access that measures at fractions, if whole positions show no sinusoids.

    Coordinates times 2 pi have the same sines and cosines at all whole positions.
    """
    try:
        axes.rows(0, np.array([0.25, 0.5], np.float32))
    except (Refused, Malformed):
        return axes

    return replace(axes, step=_STEP)
