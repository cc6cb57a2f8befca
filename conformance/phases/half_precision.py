"""Diagnose angles, positions, frequencies and tables in half precision, beside other mistakes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.probes import GENERIC
from posenc_ref.conformance.harness.run import Run

from .declaration import Declaration, substituted, unit_size
from .explain import explain, near
from .fitted_parameters import diagnose_amplitude
from .frequencies import SIGMAS, FrequencyMistake, report, scaled, shorter
from .measure import Phases, Tables
from .precision import Model, classify
from .start import report_origin

#: Names the dtype of the tables in the values of a finding.
TABLE = "tables in"
#: The largest relative error of frequencies that are measured in half precision.
_COARSE = 2.0**-6
#: The largest position that float16 holds, but for its rounding.
_WHOLE = 65504
#: Positions whose angles position 0 may have, where the declared ones do not fit.
_ORIGINS = (0, 1, -1)


def held(
    run: Run, tables: Tables, declared: Declaration, *, besides: tuple[str, ...] = ()
) -> Declaration | None:
    """Report angles, frequencies or tables in half precision, if there are any.

    Return the declaration with rounded angles; None if no half precision gives all values.
    ``besides`` are the beginnings of names of models that are known already.
    """
    at = np.unique(np.r_[np.arange(1, 17), GENERIC])
    at = at[at <= max(run.ledger.highest, 16)]
    cos, sin = unit_size(tables, at, declared)
    finite = (np.isfinite(cos) & np.isfinite(sin)).all(axis=1)
    if not finite[at <= _WHOLE].all():
        return None
    at, cos, sin = at[finite], cos[finite], sin[finite]  # float16 positions overflow
    model = classify(at, cos, sin, declared.frequencies, run.dtype, declared.origin)
    if model is not None and model.name == "float32 angles" and is_strict(run):
        text = "angles are float32, but float64 is required"
        remedy = "Compute positions, frequencies and their product in float64."
        for name, seen, true in zip(("cos", "sin"), (cos, sin), declared.exact(at), strict=True):
            slack = run.budget * ROUNDOFF["float64"] * (1 + at[:, None])
            if (np.abs(seen - true) <= slack).all():
                other = "sin" if name == "cos" else "cos"
                text = f"{other} is rounded to float32, {name} is not; float64 is required"
                remedy = f"Keep {other} in float64, as {name}."
        run.add("angle-precision", text, f"recomputed at {at.size} positions", remedy=remedy)
        return declared
    if model is None or model.name.startswith(besides):
        return None
    if not model.code or (model.table and model.table == run.settings.precision):
        return None
    where = f"recomputed at {at.size} positions"
    values = {TABLE: model.table} if model.table else {}
    run.add(model.code, f"measured: {model.name}", where, remedy=model.remedy, values=values)
    return _rounded(declared, model)


def _rounded(declared: Declaration, model: Model) -> Declaration:
    """Return the declaration with the angles of a model; those of rounded tables are exact."""
    return declared if model.table else replace(declared, angles=model.angles)


def held_elsewhere(
    run: Run, tables: Tables, declared: Declaration, phases: Phases
) -> Declaration | None:
    """Report half precision of other frequencies, or from another origin, than declared.

    Return the declaration with these and rounded angles; None if there is no half precision.
    """
    if declared.by_length is not None:
        return None
    w = declared.sign * phases.frequencies
    backwards = bool((w < 0).all() and (declared.frequencies > 0).all())
    sign = explain(-declared.frequencies, 0 * w, declared.schedule) if backwards else []
    others = [*near(np.abs(w), declared.schedule, _COARSE), *_nearly_scaled(np.abs(w), declared)]
    ways = [sign, *([*sign, other] for other in others)]
    for move in _ORIGINS:
        moved = replace(declared, origin=declared.origin + move)
        for found in ways:
            if seen := held_with(run, tables, moved, found, phases):
                if move:
                    report_origin(run, declared.origin + move, declared, "the angles recomputed")
                return seen
    return None


def _nearly_scaled(w: np.ndarray, declared: Declaration) -> list[FrequencyMistake]:
    """Return factors with few digits that give the measured frequencies nearly."""
    ratio = w / np.abs(declared.frequencies)
    middle = float(np.median(ratio))
    if not middle or np.abs(ratio / middle - 1).max() > _COARSE or abs(middle - 1) <= _COARSE:
        return []
    return [scaled(declared.frequencies, short) for short in shorter(middle, 3)]


def held_with(
    run: Run,
    tables: Tables,
    declared: Declaration,
    found: list[FrequencyMistake],
    phases: Phases,
    *,
    besides: tuple[str, ...] = (),
) -> Declaration | None:
    """Report mistakes in the frequencies, and half precision with these; see :func:`held`."""
    known, w = list(run.report.findings), declared.sign * phases.frequencies
    seen = substituted(declared, None, found, declared.origin)
    size = float(np.median(phases.amplitude))
    if np.abs(size / declared.amplitude - 1) > _COARSE:  # or else it is half precision
        seen = replace(seen, amplitude=size)
    rounded = held(run, tables, seen, besides=besides)
    if rounded is None:
        return None
    precision = run.report.findings[len(known) :]
    run.report.findings[:] = known
    k = int(np.argmax(np.abs(w / declared.frequencies - 1)))
    evidence = f"pair {k} turns by {w[k]:.4g} rad per position"
    report(run, found, seen.frequencies, declared.schedule, evidence)
    if seen.amplitude != declared.amplitude:
        diagnose_amplitude(run, tables, phases, declared)
    run.report.findings += precision
    return rounded


def between(
    run: Run, tables: Tables, declared: Declaration, found: list[FrequencyMistake], phases: Phases
) -> bool:
    """Return whether frequencies give the angles of all small positions.

    They are measured at powers of two, where rounded angles are those of rounded frequencies.
    """
    seen = substituted(declared, phases, found, declared.origin)
    at = np.arange(1, phases.length)
    slack = run.budget * ROUNDOFF[run.coarse] * (1 + at[:, None] * np.abs(seen.frequencies))
    slack = slack + SIGMAS * phases.sigma * at[:, None]
    pairs = zip(tables(at), seen.exact(at), strict=True)
    return all(bool((np.abs(got / seen.amplitude - true) <= slack).all()) for got, true in pairs)


def held_near(
    run: Run, tables: Tables, declared: Declaration, found: list[FrequencyMistake], phases: Phases
) -> Declaration | None:
    """Report half precision that gives the angles of small positions, beside frequencies found.

    Farther positions are others, as where they wrap round. Return the declaration with the angles.
    """
    seen = substituted(declared, phases, found, declared.origin)
    at = np.arange(1, phases.length)
    cos, sin = tables(at)
    cos, sin = cos / seen.amplitude, seen.sign * sin / seen.amplitude
    model = classify(at, cos, sin, seen.frequencies, run.dtype, declared.origin)
    w = declared.sign * phases.frequencies
    where = f"recomputed at positions 1..{at[-1]}"
    report(run, found, w, declared.schedule, where)
    diagnose_amplitude(run, tables, phases, declared)
    if model is None or not model.code or model.table:
        text = "angles are coarse: consistent with frequencies or angles in half precision"
        remedy = "Compute positions, frequencies and angles in float32 or better."
        run.add("angle-precision", text, where, remedy=remedy)
        return None
    run.add(model.code, f"measured: {model.name}", where, remedy=model.remedy)
    return _rounded(seen, model)


def is_strict(run: Run) -> bool:
    """Return whether float32 angles are not accurate enough."""
    angles = run.settings.angles
    return angles in ("float64", "exact") or (angles is None and run.coarse == "float64")
