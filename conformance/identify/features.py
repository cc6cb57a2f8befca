"""Identify Fourier features of real coordinates: tables of sines and cosines of ``matrix @ v``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product

import numpy as np

from posenc_ref import FourierFeatures
from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.measure import FRACTION, Phases, unwrap
from posenc_ref.fourier import UNITS

from .card import Card
from .fit.measurement import nice
from .measure import origin

#: The share of digits below which another unit than radians is taken.
_SHORTER = 0.8
#: The offsets to try besides 0: those of coordinates in 0 .. 1 that are moved to -1 .. 1.
_OFFSETS = (-0.5,)
#: Coordinates at which columns are compared with the coordinate itself.
_AT = np.array([0.0, 0.25, 0.5, 0.75], np.float32)


def identify(run: Run, card: Card) -> bool:
    """Write Fourier features to the card if the function takes fractions and has such columns."""
    count = run.driver.axes

    def rows(axis: int, at: np.ndarray) -> np.ndarray:
        positions = np.zeros((count, at.size), np.float32)
        positions[axis] = at
        table = run.driver.array(run.driver.call(positions[0] if count == 1 else positions))
        if table.ndim != 2 or table.shape[0] != at.size:
            raise Malformed(f"expected shape ({at.size}, dim), got {table.shape}")
        return table

    try:
        first = [rows(axis, _AT) for axis in range(count)]
    except (Refused, Malformed):
        return False
    if not all(np.isfinite(part).all() for part in first):
        return False
    for shell in _shells(count, first[0].shape[1]):
        phases = list(_phases(run, rows, shell))
        e = _features(run, shell, phases, first) if len(phases) == count else None
        if e is not None:
            _write(card, e, phases)
            return True
    return False


def _phases(
    run: Run, rows: Callable[[int, np.ndarray], np.ndarray], shell: FourierFeatures
) -> Iterator[Phases]:
    """Yield the sinusoids along each axis, up to the first one that has none."""
    sines, cosines = shell.columns()
    for axis in range(shell.num_axes):

        def tables(at: np.ndarray, axis: int = axis) -> tuple[np.ndarray, np.ndarray]:
            found = rows(axis, at)
            return found[:, cosines], found[:, sines]

        try:
            found = unwrap(tables, run.coarse, FRACTION)
        except (Refused, Malformed):
            return
        if not found.linear or not (found.amplitude > 0).all():
            return
        yield found


def _shells(count: int, dim: int) -> Iterator[FourierFeatures]:
    """Yield the arrangements of ``dim`` columns, with any frequencies."""
    each = product((False, True), ("concat", "interleaved", "grouped"), ("sin", "cos"))
    for include_input, layout, first in each:
        pairs, odd = divmod(dim - count * include_input, 2)
        if odd or pairs < 1 or (layout == "grouped" and count == 1):
            continue
        with suppress(ValueError):  # pairs that the layout cannot have
            yield FourierFeatures(
                np.ones((pairs, count)),
                unit="radian", layout=layout, first=first, include_input=include_input,
            )  # fmt: skip


def _features(
    run: Run, shell: FourierFeatures, phases: list[Phases], first: list[np.ndarray]
) -> FourierFeatures | None:
    """Return the encoding of the measured sinusoids, or None if they have no common origin."""
    w = np.stack([p.frequencies for p in phases], axis=1)  # (pairs, axes)
    sigma = np.stack([p.sigma for p in phases], axis=1)
    rounding = ROUNDOFF[run.coarse]
    sizes = np.concatenate([p.amplitude for p in phases])
    if np.ptp(sizes) > BUDGET[run.coarse] * rounding * sizes.max() or not w.any():
        return None
    size = nice(float(np.median(sizes)), 4 * rounding)
    if abs(size - 1) <= BUDGET[run.coarse] * rounding:
        size = 1.0
    step = 1.0
    offsets: tuple[float, ...] = (0.0, *_OFFSETS, origin(_together(phases, w), run.coarse))
    if shell.include_input:
        step = nice(float(4 * (first[0][1, 0] - first[0][0, 0])), 4 * rounding)
        if not step > 0:
            return None
        offsets = (nice(float(first[0][0, 0]) / step, 4 * rounding) if first[0][0, 0] else 0.0,)
        for axis, part in enumerate(first):  # each of these columns is its coordinate
            own = np.zeros((_AT.size, shell.num_axes))
            own[:, axis] = _AT
            wanted = step * (own + offsets[0])
            if np.abs(part[:, : shell.num_axes] - wanted).max() > 8 * rounding:
                return None
    for offset in offsets:
        start = w.sum(axis=1) * offset
        off = np.angle(np.exp(1j * (phases[0].start - start)))
        slack = BUDGET[run.coarse] * (rounding + ROUNDOFF["float32"] * (1 + np.abs(start)))
        if (np.abs(off) <= slack).all():
            unit, matrix = _unit(w / step, sigma / step)
            return shell.replace(
                matrix=matrix, unit=unit, offset=offset, position_scale=step, scale=size
            )
    return None


def _together(phases: list[Phases], w: np.ndarray) -> Phases:
    """Return the phases of positions that are equal on all axes."""
    p = phases[0]
    return Phases(w.sum(axis=1), p.sigma, p.start, p.amplitude)


def _unit(w: np.ndarray, sigma: np.ndarray) -> tuple[str, np.ndarray]:
    """Return the unit in which the frequencies are the shortest numbers, and the matrix."""
    size = np.abs(w)
    noise = np.divide(sigma, size, out=np.zeros_like(w), where=size > 0)
    still = size <= 8 * sigma
    every = {}
    for unit, radians in UNITS.items():
        pairs = zip((w / float(radians)).ravel(), noise.ravel(), still.ravel(), strict=True)
        least = 4 * ROUNDOFF["float32"]
        every[unit] = [
            0.0 if zero else nice(float(v), max(float(e), least)) for v, e, zero in pairs
        ]
    # In other units, numbers without a rule are not shorter.
    digits = {unit: sum(map(_digits, found)) for unit, found in every.items()}
    unit = min(("half-turn", "turn"), key=lambda name: digits[name])
    if digits[unit] > _SHORTER * digits["radian"]:
        unit = "radian"
    return unit, np.array(every[unit]).reshape(w.shape)


def _digits(value: float) -> int:
    """Return the number of significant digits."""
    return len(f"{abs(value):.12g}".partition("e")[0].replace(".", "").strip("0"))


def _write(card: Card, e: FourierFeatures, phases: list[Phases]) -> None:
    card.encoding = e
    card.frequencies = np.concatenate([p.frequencies for p in phases])
    card.uncertainty = np.concatenate([p.sigma for p in phases])
    sines, cosines = e.columns()
    card.facts["columns"] = (
        f"{e.dim}: column {sines[0]} is the sine and column {cosines[0]} the cosine of the first "
        f"pair{', after the coordinates' if e.include_input else ''}"
    )
