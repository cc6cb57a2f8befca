"""Diagnose functions with cos and sin columns: rotations, their tables, and sinusoids.

Frequencies, amplitude and origin are measured at small positions. If they are right, the precision
of the angles and the positions used are diagnosed at large positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.probes import GENERIC, TELLING
from posenc_ref.conformance.harness.run import Run

from .angle_step import frequency_step, root_of_other, value_step
from .constants import recognise
from .declaration import Declaration, substituted, unit_size
from .decode import Decoder
from .explain import explain
from .fitted_parameters import diagnose_amplitude
from .frequencies import SIGMAS, FrequencyMistake, report
from .half_precision import between, held, held_elsewhere, held_near, held_with, is_strict
from .measure import Phases, Tables, shown, unaliased
from .nonlinear import (
    diagnose_nonlinear,
    growing_errors,
    not_proportional,
    one_right,
    running_sums,
    squared,
    stretched_in_blocks,
)
from .position_map import far_positions, large_angles, position_map
from .rounding_model import Telling
from .start import evened, exchanged_tables, origin_of, straightened

#: A smaller relative error of the frequencies may be measured at large positions only.
_SMALL = 2.0**-8
#: The largest error of cos and sin in fixed point.
_STEP = 2.0**-7
#: The largest error of a tested angle that its measured frequency leaves, and an angle's that is
#: another one.
_TESTED, _OTHER = 0.1, 0.25
#: The largest relative error of a quotient of lengths, and the lengths in which one is tested.
_SAME_RATIO, _LENGTHS = 1e-5, (5, 9, 33)
#: The numbers of tokens of calls that show whether positions are used.
INDEXED = (4, 19)


def diagnose_phases(
    run: Run, tables: Tables, phases: Phases, declared: Declaration
) -> Declaration | None:
    """Explain failed cases of a function whose pairs are the declared ones.

    Wrong positions are tried first, since they show at small positions too, and then the
    frequencies. If a frequency matches no rule, the table may have half precision, or the pairs
    may not rotate at all.

    Return the declaration with the measured numbers if these give all angles, near and far.
    """
    if _token_index(run, tables, declared):
        return None
    if not phases.linear and root_of_other(run, tables, declared):
        return None
    if not phases.linear and (even := evened(run, tables, phases, declared)):
        tables, phases = even
    phases, exchanged = straightened(run, phases, declared)
    tables = exchanged_tables(tables, declared.sign) if exchanged else tables
    w = declared.sign * phases.frequencies
    found = explain(w, phases.sigma, declared.schedule)
    vague = any(e.code == "frequency-spacing" for e in found)
    if vague and phases.linear:  # frequencies above pi alias at integers
        finer = unaliased(tables, run.coarse)
        again = explain(declared.sign * finer.frequencies, finer.sigma, declared.schedule)
        if not any(e.code == "frequency-spacing" for e in again):
            phases, found, vague = finer, again, False
            w = declared.sign * phases.frequencies
    if [e.code for e in found] == ["sign"] and one_right(run, tables, declared):
        return None
    if vague and phases.linear:
        text = frequency_step(w, phases.sigma, declared.frequencies)
        if text:
            k = int(np.argmax(np.abs(w / declared.frequencies - 1)))
            where = f"pair {k}: {w[k]:.9g}, declared {declared.frequencies[k]:.9g}"
            remedy = "Keep frequencies in float32 or float64, or with more bits: this step is not "
            remedy += "small compared with the slowest frequency."
            run.add(
                "angle-precision", text, where, equivalent=("frequency-spacing",), remedy=remedy
            )
            return None
    if (vague or not phases.linear) and (
        half := held(run, tables, declared) or held_elsewhere(run, tables, declared, phases)
    ):
        return half if half.angles else None
    if vague and phases.linear and _stepped(run, tables, declared):
        return None
    if vague and large_angles(run, tables, declared):
        return None
    if not phases.linear:
        if squared(run, tables, declared):
            return None
        position_map(run, tables, declared)
        if not run.report.findings:
            diagnose_nonlinear(run, tables, declared)
        return None
    others = [e for e in found if e.code != "angle-precision"]
    if len(others) < len(found) and (
        half := held_with(
            run, tables, declared, others, phases, besides=("frequencies in", "timescales in")
        )
    ):
        return half if half.angles else None  # positions or angles are coarse too
    if len(others) < len(found) and not between(run, tables, declared, found, phases):
        return held_near(run, tables, declared, others, phases)
    found = _constant(run, tables, declared, found)
    if [e.code for e in found] == ["position-scale"] and (
        stretched_in_blocks(run, tables, phases, declared)
        or not_proportional(run, tables, phases, declared)
    ):
        return None
    theta = declared.frequencies
    k = int(np.argmax(np.abs(w / theta - 1)))
    turns = shown(w[k], phases.sigma[k], 9)
    evidence = f"pair {k} turns by {turns} rad per position, declared {theta[k]:.9g}"
    report(run, found, w, declared.schedule, evidence)
    diagnose_amplitude(run, tables, phases, declared)
    origin = origin_of(run, phases, declared, w, found)
    # Substitute the findings into the declaration; any remaining error is another mistake.
    seen = substituted(declared, phases, found, origin)
    fits = _explained(run, tables, seen, phases.sigma)
    if is_strict(run) and not run.report.codes and held(run, tables, seen):
        return None
    named = list(run.report.findings)
    if not fits and not held(run, tables, seen) and not one_right(run, tables, seen):
        if not squared(run, tables, seen):
            position_map(run, tables, seen)
        known = bool(run.report.codes) or not_proportional(run, tables, phases, seen)
        if not (known or running_sums(run, tables, seen)):
            growing_errors(run, tables, seen)
        if run.report.findings == named and found and _refuted(run, tables, seen, phases):
            _bounded(run, tables, declared, found, phases)
    elif fits and not run.report.codes:
        elsewhere = run.ledger.evidence.beyond_positions()
        if not (root_of_other(run, tables, seen, hidden=True) or elsewhere):
            far_positions(run, tables, seen)
    return seen if fits else None


def _refuted(run: Run, tables: Tables, seen: Declaration, phases: Phases) -> bool:
    """Return whether most far positions have other angles than the findings give."""
    at = GENERIC[run.ledger.highest >= GENERIC]
    at = at[SIGMAS * phases.sigma.max(initial=0) * at < _TESTED]
    if seen.by_length is not None or not at.size:
        return False
    cos, sin = unit_size(tables, at, seen)
    true_cos, true_sin = seen.exact(at)
    off = np.hypot(cos - true_cos, sin - true_sin).max(axis=1)
    return bool(np.isfinite(off).all() and np.mean(off > _OTHER) > 0.5)


def _spread(run: Run, tables: Tables, declared: Declaration, phases: Phases, ratio: object) -> str:
    """Return that positions are stretched by a quotient of the length S, in words, or nothing."""
    ways: dict[str, Callable[[int], float]] = {
        "i S / (S - 1): from 0 to S, both included": lambda n: n / (n - 1),
        "i (S - 1) / S": lambda n: (n - 1) / n,
        "i (S + 1) / S": lambda n: (n + 1) / n,
        "i S / (S + 1)": lambda n: n / (n + 1),
    }
    for words, way in ways.items():
        if not isinstance(ratio, float) or abs(way(phases.length) / ratio - 1) > _SAME_RATIO:
            continue
        for n in _LENGTHS:
            cos, sin = unit_size(tables, np.arange(n), declared)
            angle = (np.arange(n) * way(n) + declared.origin)[:, None] * declared.frequencies
            if not np.abs(cos + 1j * sin - np.exp(1j * angle)).max() < _TESTED:
                break
        else:
            return f"in a call of S tokens, token i has the position {words}; declared i"
    return ""


def _bounded(
    run: Run, tables: Tables, seen: Declaration, found: list[FrequencyMistake], phases: Phases
) -> None:
    """Say of frequencies that far positions refute where they were measured."""
    for i, one in enumerate(run.report.findings):
        if one.message in [e.message for e in found]:
            if spread := _spread(run, tables, seen, phases, one.values.get("measured")):
                remedy = "Use the positions 0, 1, 2, ..., S - 1, as arange(S) has them."
                run.report.findings[i] = replace(one, message=spread, remedy=remedy)
                continue
            text = f"up to position {phases.length - 1}, {one.message}; farther angles are others"
            run.report.findings[i] = replace(one, message=text)


def _constant(
    run: Run, tables: Tables, declared: Declaration, found: list[FrequencyMistake]
) -> list[FrequencyMistake]:
    """Return a small error of the frequencies as the rule that large positions show, if any does.

    At small positions, a base and a factor that are 1e-5 off have the same effect.
    """
    if len(found) != 1 or found[0].code == "sign":
        return found
    if np.abs(found[0].predicted / declared.frequencies - 1).max() > _SMALL:
        return found
    angles = Telling(run, tables, declared, TELLING[run.ledger.highest >= TELLING]).angles
    rule = None if angles is None else recognise(angles, declared.schedule)
    return found if rule is None else [rule]


def _explained(run: Run, tables: Tables, seen: Declaration, sigma: np.ndarray) -> bool:
    """Return whether the substituted declaration matches the function at large positions too."""
    at = GENERIC[run.ledger.highest >= GENERIC]
    angle = np.abs(at[:, None] + seen.origin)
    slack = run.budget * (
        ROUNDOFF[run.coarse] + ROUNDOFF["float32"] * angle * np.abs(seen.frequencies)
    )
    slack = slack + SIGMAS * sigma * angle
    return all(
        bool((np.abs(got / seen.amplitude - true) <= slack).all())
        for got, true in zip(tables(at), seen.exact(at), strict=True)
    )


def _token_index(run: Run, tables: Tables, declared: Declaration) -> bool:
    """Report a function that uses the index in the call as position; return whether it does.

    Calls of two lengths tell it from a table that is kept for all calls of one length.
    """
    decoder = Decoder.of(declared.frequencies, reach=64)
    for n in INDEXED:
        try:
            cos, sin = unit_size(tables, np.arange(9, 9 + n), declared)
        except (Refused, Malformed):
            return False
        used, misfit = decoder.positions(cos, sin)
        used = used - round(declared.origin)
        if misfit.max() > 0.1 or not np.array_equal(used, np.arange(n)):
            return False
    if not _index_of_gaps(tables, declared, decoder):
        return False
    run.add(
        "decode-offset",
        "given positions are ignored: tokens are counted from 0 in every call",
        f"positions 9..{8 + n} have the angles of positions {used[0]}..{used[-1]}",
    )
    return True


def _index_of_gaps(tables: Tables, declared: Declaration, decoder: Decoder) -> bool:
    """Return whether tokens with gaps between them have their index, or 0 in a call of their own.

    A refused call shows nothing.
    """
    at = np.array([9, 4, 21, 2, 3])
    try:
        cos, sin = unit_size(tables, at, declared)
    except (Refused, Malformed):
        return True
    used, misfit = decoder.positions(cos, sin)
    used = used - round(declared.origin)
    return bool(
        misfit.max() <= 0.1 and (not used.any() or np.array_equal(used, np.arange(at.size)))
    )


def _stepped(run: Run, tables: Tables, declared: Declaration) -> bool:
    """Report cos and sin in fixed point, close to the declared ones; return whether they are."""
    at = np.arange(1, 33)
    cos, sin = unit_size(tables, at, declared)
    exact = declared.exact(at)
    seen, true = np.stack([cos, sin]), np.stack([exact[0], declared.sign * exact[1]])
    found = value_step(run, seen, true) if np.abs(seen - true).max() <= _STEP else None
    if found is not None and "fixed point" in found[0]:
        run.add("table-precision", found[0], f"{at.size} positions", remedy=found[1])
        return True
    return False
