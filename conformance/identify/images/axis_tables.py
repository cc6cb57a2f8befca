"""Identify tables of several axes: the axis of every column, and its sinusoids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

import numpy as np

from posenc_ref import BoxSine, Sinusoidal2D, Sinusoidal3D
from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.axis_sinusoids import AxisSinusoids
from posenc_ref.box_sine import COORDINATES
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.identify.card import Card, Unidentified, listed
from posenc_ref.conformance.identify.fit.measurement import Factor, Measurement, nice
from posenc_ref.conformance.identify.fit.sinusoids import spacings
from posenc_ref.conformance.identify.measure import origin
from posenc_ref.conformance.phases.measure import Phases, unaliased

_LAYOUTS = ("concat", "grouped", "interleaved")
#: The coordinates of points and boxes, by their number.
COORDINATES_OF = {len(letters): letters for letters in COORDINATES}


@dataclass(frozen=True)
class Axes:
    """A table of several axes, whose rows are read along one axis at a time."""

    run: Run
    count: int
    dim: int
    #: ``rows(axis, positions)`` are the rows (n, dim) with the other axes at their first position.
    rows: Callable[[int, np.ndarray], np.ndarray]
    few: int  #: the number of positions that every axis accepts
    step: float = 1.0  #: their distance: below 1 where fractions are accepted

    def moving(self) -> np.ndarray:
        """Return for each axis the mask of the columns that change with it, (count, dim)."""
        found = []
        for axis in range(self.count):
            at = np.arange(self.few)
            rows = self.rows(axis, at if self.step == 1.0 else (self.step * at).astype(np.float32))
            found.append((rows != rows[:1]).any(axis=0))
        return np.array(found)

    def phases(self, axis: int, sines: np.ndarray, cosines: np.ndarray) -> Phases | None:
        """Return the measured sinusoids of one axis, or None if columns are no such pairs."""

        def tables(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            rows = self.rows(axis, at)
            return rows[:, cosines], rows[:, sines]

        try:
            found = unaliased(tables, self.run.coarse)
        except (Refused, Malformed):
            return None
        return found if found.linear and (found.amplitude > 0).all() else None


@dataclass(frozen=True)
class Sinusoids:
    """The sinusoids of all axes: an encoding with the right columns, and what was measured."""

    shell: AxisSinusoids
    phases: tuple[Phases, ...]  #: in the order of the axes of positions
    sigma: float


def columns_of(e: AxisSinusoids) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Return the sine and the cosine columns of each axis."""
    place = np.argsort(e.columns())
    found, start = {}, 0
    for axis, part in e.parts():
        sines, cosines = part.columns()
        found[axis] = place[start + sines], place[start + cosines]
        start += part.dim
    return found


def sinusoids(axes: Axes) -> Sinusoids | None:
    """Return the arrangement of columns whose sines and cosines turn linearly, or None."""
    moving = axes.moving()
    if (moving.sum(axis=0) > 1).any():
        return None
    for shell in _shells(axes.count, axes.dim, moving):
        found = []
        for axis, (sines, cosines) in sorted(columns_of(shell).items()):
            others = np.delete(moving, axis, axis=0)
            if others[:, np.concatenate([sines, cosines])].any():
                break
            phases = axes.phases(axis, sines, cosines)
            if phases is None or not _falling(phases.frequencies):
                break
            found.append(phases)
        else:
            if _alike(found):
                return Sinusoids(shell, tuple(found), ROUNDOFF[axes.run.coarse])
    return None


def _falling(w: np.ndarray) -> bool:
    """Return whether positive frequencies fall from pair to pair."""
    return bool((w > 0).all() and (np.diff(w) < 0).all())


def _alike(found: list[Phases]) -> bool:
    """Return whether all axes have the same amplitude."""
    sizes = np.concatenate([p.amplitude for p in found])
    return bool(np.ptp(sizes) <= 2.0**-10 * sizes.max())


def _shells(count: int, dim: int, moving: np.ndarray) -> Iterator[AxisSinusoids]:
    """Yield the arrangements of columns with any base."""
    orders = product(_LAYOUTS, map("".join, permutations("thw"[-count:])), ("sin", "cos"))
    for layout, order, first in orders if count in (2, 3) else ():
        for sections in dict.fromkeys(_sections(dim, moving)) if count == 3 else (None,):
            settings: dict[str, Any] = {"layout": layout, "axis_order": order, "first": first}
            with suppress(ValueError):  # a number of columns that the arrangement cannot have
                yield (
                    Sinusoidal2D(dim, **settings) if sections is None
                    else Sinusoidal3D(sections, **settings)
                )  # fmt: skip
    if (
        count in (4, 6) and moving.any(axis=1).all()
    ):  # each axis has columns of its own, in one block
        letters = COORDINATES_OF[count]
        order = "".join(letters[axis] for axis in np.argsort(moving.argmax(axis=1)))
        with suppress(ValueError):
            yield BoxSine(dim, axes=letters, axis_order=order)


def _sections(dim: int, moving: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Yield the columns of each axis: as measured, and usual shares of slow columns."""
    t, h, w = (int(n) for n in moving.sum(axis=1))
    if t + h + w == dim:
        yield t, h, w
    yield dim // 4, 3 * dim // 8, 3 * dim // 8
    yield dim // 3, dim // 3, dim // 3


def spaced(found: Sinusoids, axes: Axes, card: Card) -> dict[str, Any]:
    """Return base, denominator, offset and scale; raise Unidentified if nothing gives them."""
    first = found.phases[0]
    w = np.concatenate([p.frequencies for p in found.phases])
    card.frequencies = w
    card.uncertainty = np.concatenate([p.sigma for p in found.phases])
    card.facts["frequencies"] = "; ".join(
        f"axis {a}: {listed(_shortened(p))} rad/position" for a, p in enumerate(found.phases)
    )
    rounding = ROUNDOFF[axes.run.coarse]
    size = float(np.median(first.amplitude))
    factor = Factor(size, BUDGET["float32"] * rounding, 4 * rounding)
    card.facts["amplitude"] = f"{factor.short:.8g}"
    fields: dict[str, Any] = {}
    starts = {origin(p, axes.run.coarse) for p in found.phases}
    if len(starts) > 1:
        raise Unidentified("the axes start at different positions")
    start = starts.pop()
    if start:
        fields["offset"] = start
        card.facts["origin"] = f"position 0 has the row of position {start:g}"
    if factor.short != 1.0:
        fields["scale"] = factor.short
    each = [Measurement.of(axes.run.coarse, p.frequencies, p.sigma, factor) for p in found.phases]
    for spacing in spacings(each[0], 2 * first.frequencies.size):
        for name in [n for n, v in spacing.items() if n == "position_scale" and v == 1.0]:
            del spacing[name]
        with suppress(ValueError, TypeError):
            tried = found.shell.replace(**fields, **spacing)
            parts = {axis: part.frequencies() for axis, part in tried.parts()}
            if all(m.agree(parts[axis]).all() for axis, m in enumerate(each)):
                return {**fields, **spacing}
    raise Unidentified("no base and denominator give the frequencies of all axes")


def _shortened(p: Phases) -> np.ndarray:
    """Return the frequencies of one axis with no more digits than were measured."""
    pairs = zip(p.frequencies.tolist(), (p.sigma / p.frequencies).tolist(), strict=True)
    return np.array([nice(w, error) for w, error in pairs])


def boxed(found: Sinusoids, axes: Axes, card: Card) -> BoxSine | None:
    """Return the table of box coordinates or points with the measured sinusoids, or None."""
    e = found.shell
    if e.layout != "interleaved" or e.first != "sin" or e.denominator != "dim":
        return None
    w = found.phases[0].frequencies
    width = axes.dim // axes.count
    base = float((w[0] / w[-1]) ** (width / (2 * (w.size - 1)))) if w.size > 1 else 10000.0
    scale = float(w[0])
    for known in (2 * np.pi, np.pi, 1.0):
        if abs(scale - known) <= BUDGET["float32"] * ROUNDOFF["float32"] * known:
            scale = known
    letters = COORDINATES_OF[axes.count]
    order = "".join(letters[axis] for axis, _ in e.parts())
    with suppress(ValueError):
        return BoxSine(
            axes.dim, axes=letters, axis_order=order, base=nice(base, 2.0**-10), scale=scale
        )
    return None
