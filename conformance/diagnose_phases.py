"""What all functions with cos and sin columns share: rotations, their tables, sinusoids.

At small positions: frequencies, amplitude, origin.  Only where those fit, at long positions: how
the angles are held, and which positions were really used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from posenc_ref.accuracy import ROUNDOFF, VISIBLE

from .access import Reach
from .decode import Decoder
from .frequencies import Schedule, explain
from .measure import Phases, Tables
from .precision import classify
from .probes import GENERIC, REPORTED, error_window
from .report import Accuracy
from .run import Run

#: Every position below it is tried when the first visible error is looked for.
SCAN = 2**16


@dataclass(frozen=True)
class Declared:
    """The declaration, as numbers: angle_k(p) = sign (p + origin) theta_k, times amplitude."""

    schedule: Schedule
    frequencies: np.ndarray
    exact: Tables  #: true cos and sin of amplitude 1, sign and origin included
    amplitude: float = 1.0
    amplitude_code: str = "amplitude"
    sign: int = 1
    origin: float = 0.0


def small_positions(run: Run, phases: Phases, declared: Declared) -> None:
    """Findings about frequencies, amplitude and origin."""
    w = declared.sign * phases.frequencies
    theta = declared.frequencies
    k = int(np.argmax(np.abs(w / theta - 1)))
    evidence = f"pair {k} turns by {w[k]:.9g} rad per position, declared {theta[k]:.9g}"
    for e in explain(w, phases.sigma, declared.schedule):
        run.add(e.code, e.message, evidence, values=e.values, equivalent=e.equivalent)
    grain = run.budget * ROUNDOFF[run.precision or run.dtype]
    if (np.abs(phases.amplitude - declared.amplitude) > grain * declared.amplitude).any():
        factor = float(np.median(phases.amplitude))
        run.add(
            declared.amplitude_code,
            f"cos and sin are multiplied by {factor:.6g}, declared {declared.amplitude:.6g}",
            f"norm of every (cos, sin) pair, {phases.amplitude.min():.6g} to "
            f"{phases.amplitude.max():.6g}",
            values={"declared": declared.amplitude, "measured": factor},
        )
    _origin(run, phases, declared, w, grain)


def _origin(run: Run, phases: Phases, declared: Declared, w: np.ndarray, grain: float) -> None:
    """The angle at position 0, in positions of the fastest pair; every pair must agree."""
    k = int(np.argmax(np.abs(w)))
    if w[k] == 0:
        return
    start = declared.sign * phases.start
    turn = 2 * np.pi / np.abs(w[k])
    found = start[k] / w[k]
    # Known up to whole turns of one pair: the slower pairs tell which.
    options = found + turn * np.arange(-8, 9)
    misfit = [float(np.abs(np.exp(1j * start) - np.exp(1j * o * w)).max()) for o in options]
    found = float(options[int(np.argmin(misfit))])
    if abs(found - declared.origin) * abs(w[k]) <= grain * (1 + abs(declared.origin * w[k])):
        return
    run.add(
        "position-origin",
        f"position 0 has the angles of position {found:.6g}, declared {declared.origin:g}",
        f"angle of the fastest pair at position 0: {start[k]:.6g} rad",
        values={"declared": declared.origin, "measured": found},
    )


def long_positions(run: Run, tables: Tables, declared: Declared) -> None:
    """The precision of the angles, or else the map from declared to used positions."""
    at = GENERIC[run.highest >= GENERIC]
    cos, sin = _unit(tables, at, declared)
    model = classify(at, cos, sin, declared.frequencies, run.dtype, declared.origin)
    if model and model.code:
        run.add(model.code, f"measured: {model.name}", f"recomputed at {at.size} positions")
        return
    position_map(run, tables, declared)


def position_map(run: Run, tables: Tables, declared: Declared) -> None:
    """Decode the positions that were used, and name the map from declared to used."""
    decoder = Decoder.of(declared.frequencies)
    at = np.unique(np.r_[np.arange(1, 9), 255, 256, 300, 511, 512, GENERIC])
    at = at[at <= max(run.highest, 8)]
    cos, sin = _unit(tables, at, declared)
    used, misfit = decoder.positions(cos, sin)
    used = used - round(declared.origin)
    wrong = (used != at) & (misfit < 0.25)
    if not wrong.any():
        return
    first = int(np.argmax(wrong))
    evidence = f"position {at[first]} has the angles of position {used[first]}"
    tail = used[wrong]
    size = int(at[first] - used[first])
    if wrong.sum() > 1 and (tail == tail[0]).all():
        run.add("position-range", f"positions are clamped to {tail[0]}", evidence)
    elif size > 0 and wrong[first:].all() and (used[first:] == at[first:] % size).all():
        run.add("position-range", f"positions wrap round modulo {size}", evidence)
    else:
        run.add("wrong-row", f"{int(wrong.sum())} of {at.size} positions are others", evidence)


def _unit(tables: Tables, at: np.ndarray, declared: Declared) -> tuple[np.ndarray, np.ndarray]:
    cos, sin = tables(at)
    return cos / declared.amplitude, declared.sign * sin / declared.amplitude


def measure_accuracy(run: Run, reach: Reach, tables: Tables, declared: Declared) -> None:
    """Absolute errors at long positions, where they become visible, and the precision class."""

    def error(positions: np.ndarray) -> np.ndarray:
        off = np.zeros(positions.size)
        for got, true in zip(tables(positions), declared.exact(positions), strict=True):
            off = np.maximum(off, np.abs(got / declared.amplitude - true).max(axis=1, initial=0.0))
        return np.where(np.isnan(off), np.inf, off)

    highest = reach.reach(REPORTED[-1])
    errors = {p: float(error(error_window(p)).max()) for p in REPORTED if p <= highest}
    # A half-precision result is one rounding off by itself.
    visible = VISIBLE + (ROUNDOFF[run.dtype] if run.dtype in ("bfloat16", "float16") else 0.0)
    step = SCAN if reach.mode == "prefix" else 4096
    degrades = _degrades_at(error, highest, visible, step)
    at = GENERIC[highest >= GENERIC]
    cos, sin = _unit(tables, at, declared)
    model = classify(at, cos, sin, declared.frequencies, run.dtype, declared.origin)
    name = model.name if model else ""
    run.report.accuracy = Accuracy(0.0, 0.0, "", name, errors, degrades, run.highest)


def _degrades_at(
    error: Callable[[np.ndarray], np.ndarray], highest: int, visible: float, step: int
) -> int | None:
    """The first position with an error over ``visible``.

    Every position below SCAN is tried, if windows show that there is something to find; windows
    alone beyond it.
    """
    ends = np.unique(np.round(np.geomspace(16, max(highest, 16), 64)).astype(int))
    ends = ends[ends <= highest]
    suspects = [
        int(e) for e in ends if (error(np.arange(max(e - 8, 0), e + 1)) > visible / 4).any()
    ]
    if not suspects:
        return None
    for start in range(0, min(SCAN, highest + 1), step):
        positions = np.arange(start, min(start + step, highest + 1))
        over = error(positions) > visible
        if over.any():
            return int(positions[int(np.argmax(over))])
    for end in suspects:
        positions = np.arange(max(end - 8, 0), end + 1)
        over = error(positions) > visible
        if over.any():
            return int(positions[int(np.argmax(over))])
    return None
