"""Diagnose the angles at position 0: exchanged cos and sin, an opposite sign, and the origin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from posenc_ref.accuracy import FACTOR_SLACK, ROUNDOFF
from posenc_ref.conformance.harness.run import Run

from .declaration import Declaration
from .factor_mistakes import two_factors
from .frequencies import FrequencyMistake
from .measure import Phases, Tables, unwrap, wrap

#: The largest error of an angle at position 0 that an origin explains, and that of a quarter turn.
_OTHER, _NEAR = 0.25, 0.1
#: The fewest pairs that show a quarter turn and an origin at once.
_FEWEST = 3
#: The least square of a sine that shows its factor.
_TOLD = 0.1


def straightened(run: Run, phases: Phases, declared: Declaration) -> tuple[Phases, bool]:
    """Report exchanged sin and cos; return the phases without this, and whether they are.

    Exchanged, the angles start at a quarter turn and decrease. Where they start at a half turn,
    the amplitude is negative: it is removed from the phases.
    """
    start, w = declared.sign * phases.start, declared.sign * phases.frequencies
    quarter, exchanged = _quarter(start, w, declared.origin, phases.linear), False
    if quarter % 2 and (w < 0).all():
        run.add(
            "phase-order",
            "sin and cos are exchanged",
            f"the angle of pair 0 at position 0 is {phases.start[0]:.6g} rad, and falls",
            remedy="Exchange cos and sin: at position 0, cos is 1 and sin is 0.",
        )
        start, w = wrap(np.pi / 2 - start), -w
        quarter, exchanged = 0 if quarter == 1 else 2, True
        phases = replace(phases, frequencies=declared.sign * w, start=declared.sign * start)
    if quarter == 2:
        start = declared.sign * wrap(start - np.pi)
        phases = replace(phases, start=start, amplitude=-phases.amplitude)
    return phases, exchanged


def exchanged_tables(tables: Tables, sign: int) -> Tables:
    """Return tables whose cos and sin are exchanged; ``sign`` is that of the declared rotation."""

    def exchanged(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cos, sin = tables(at)
        return sign * sin, sign * cos

    return exchanged


def evened(
    run: Run, tables: Tables, phases: Phases, declared: Declaration
) -> tuple[Tables, Phases] | None:
    """Report different factors on cos and sin; return tables and phases without them.

    Cos at position 0 is its own factor, and the factor of sin follows from the sum of the squares.
    None: the values are not those of one angle even without such factors.
    """
    m, at = declared.amplitude, np.arange(phases.length)
    cos, sin = tables(at)
    a = float(np.median(cos[0]))
    if declared.origin or not a > FACTOR_SLACK or not np.abs(cos).max() <= a * (1 + FACTOR_SLACK):
        return None
    rest = 1 - (cos / a) ** 2
    told = rest > _TOLD
    if told.sum() < _FEWEST:
        return None
    b = float(np.median(np.abs(sin[told]) / np.sqrt(rest[told])))
    if not b > FACTOR_SLACK or abs(a - b) <= FACTOR_SLACK * abs(m):
        return None

    def even(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cos, sin = tables(positions)
        return cos * (m / a), sin * (m / b)

    again = unwrap(even, run.coarse, below=phases.length)
    if not again.linear:
        return None
    where = f"cos at position 0 is {a:.6g}; the sum of the squares of cos / {a:.6g} and sin / "
    where += f"{b:.6g} is 1 at positions 0..{at[-1]}"
    run.add(
        declared.amplitude_code, two_factors(a, b, m), where, remedy=declared.factor_remedy,
        values={"declared": m, "measured": [a, b]},
    )  # fmt: skip
    return even, again


def _quarter(start: np.ndarray, w: np.ndarray, origin: float, linear: bool) -> int:
    """Return the quarter turns (-1, 0, 1 or 2) that are added to the angle of every pair.

    An origin, preferably the declared one, explains the rest of the angles at position 0.
    """
    turns = (0, 2, 1, -1)
    rest = {q: start - q * np.pi / 2 for q in turns}
    for q in turns if start.size > 1 else ():
        if np.abs(np.exp(1j * rest[q]) - np.exp(1j * origin * w)).max() < _NEAR:
            return q
    k = int(np.argmax(np.abs(w)))
    for q in turns if linear and start.size >= _FEWEST and w[k] else ():
        if start_of(rest[q], w, k)[1] < _NEAR:
            return q
    return 0


def start_of(start: np.ndarray, w: np.ndarray, k: int) -> tuple[float, float]:
    """Return the origin that gives the angles ``start`` best, and its largest misfit.

    The fastest pair ``k`` gives it up to whole turns; the slower pairs select one.
    """
    options = start[k] / w[k] + 2 * np.pi / np.abs(w[k]) * np.arange(-8, 9)
    misfit = [float(np.abs(np.exp(1j * start) - np.exp(1j * o * w)).max()) for o in options]
    return float(options[int(np.argmin(misfit))]), min(misfit)


def origin_of(
    run: Run,
    phases: Phases,
    declared: Declaration,
    w: np.ndarray,
    mistakes: Sequence[FrequencyMistake] = (),
) -> float:
    """Return the position whose angles occur at position 0; report it if it is wrong.

    If the frequencies ``w`` have ``mistakes``, position 0 may still have the declared angles: the
    position that gives them with ``w`` is then another one, but nothing is wrong with it.
    """
    grain = run.budget * ROUNDOFF[run.coarse]
    k = int(np.argmax(np.abs(w)))
    if w[k] == 0:
        return declared.origin
    start = declared.sign * phases.start
    found, misfit = start_of(start, w, k)
    if misfit > _OTHER:
        text = "at position 0 the pairs have angles that no single position gives"
        turned = np.exp(1j * (start - start[0]))
        if np.abs(turned - 1).max() <= run.budget * ROUNDOFF[run.coarse] * (1 + abs(start[0])):
            text = f"a constant angle of {start[0]:.6g} rad is added to every pair"
            if abs(np.exp(1j * start[0]) - np.exp(-0.5j * np.pi)) <= grain:
                text += ": sin and cos are exchanged, and then the sine has the opposite sign"
            if abs(np.exp(1j * start[0]) - np.exp(1j * declared.origin)) <= grain:
                text += f": the offset {declared.origin:g} is added to angles, not to positions"
        run.add(
            "not-a-rotation",
            text,
            ", ".join(f"pair {i}: {a:.4g} rad" for i, a in enumerate(start[:4])),
            remedy=f"Turn every pair by (p + {declared.origin:g}) theta_k: add no angle of its own "
            "to a pair.",
        )
        return declared.origin
    if abs(found - declared.origin) * abs(w[k]) <= grain * (1 + abs(declared.origin * w[k])):
        return declared.origin
    true = declared.origin * declared.frequencies
    off = float(np.abs(np.exp(1j * start) - np.exp(1j * true)).max())
    if mistakes and declared.origin and off <= grain * (1 + np.abs(true).max()):
        _begun(run, mistakes, declared.frequencies)
        return found
    report_origin(
        run, found, declared, f"angle of the fastest pair at position 0: {start[k]:.6g} rad"
    )
    return found


def _begun(run: Run, mistakes: Sequence[FrequencyMistake], target: np.ndarray) -> None:
    """Say of wrong frequencies that position 0 has the declared angles nevertheless."""
    known = {e.message: e for e in mistakes}
    for i, one in enumerate(run.report.findings):
        if e := known.get(one.message):
            remedy = one.remedy
            if e.code == "position-scale":
                ratio = np.median(target / e.predicted)
                remedy = f"Multiply the distance between two positions by {ratio:.10g}."
            run.report.findings[i] = replace(
                one,
                message=f"{one.message}, but position 0 has the declared angles",
                remedy=f"{remedy} Leave the angles of position 0 as they are.",
            )


def report_origin(run: Run, found: float, declared: Declaration, evidence: str) -> None:
    """Report the position whose angles position 0 has."""
    text = f"position 0 has the angles of position {found:.6g}, declared {declared.origin:g}"
    remedy = (
        f"{'Subtract' if found > declared.origin else 'Add'} "
        f"{abs(found - declared.origin):.6g} {'from' if found > declared.origin else 'to'} every "
        f"position: the first one is {declared.origin:g}."
    )
    scale = 1.0 / declared.schedule.factor
    if scale != 1.0 and declared.origin and f"{found * scale:.4g}" == f"{declared.origin:.4g}":
        text += f": the offset is added after the multiplication by {scale:g}, not before"
        remedy = f"Add {declared.origin:g} to the position, then multiply by {scale:g}."
    run.add(
        "position-origin",
        text,
        evidence,
        values={"declared": declared.origin, "measured": found},
        remedy=remedy,
    )
