"""Identify a rotary function: layout, dependence on length, frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref import RoPE
from posenc_ref.accuracy import BUDGET, FACTOR_SLACK, ROUNDOFF
from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.probes import SHORT
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.fitted_parameters import other_exponents
from posenc_ref.conformance.phases.frequencies import PUBLISHED_BASES
from posenc_ref.conformance.phases.measure import Measured, Phases, measure, unaliased
from posenc_ref.conformance.rotary.judge_inputs import required_inputs

from . import hints
from . import names as identify_names
from .card import Card, Unidentified, require_finite, require_same
from .fit.measurement import Factor, Fit, Measurement
from .fit.schedule import fit
from .length import UNSPACED, Lengths
from .measure import OneSide, amplitude, like_xpos, origin, require_factor, uncertainty, unequal
from .pairs import axes as identify_axes
from .pairs.channels import reading
from .pairs.structure import Structure, structures

UNKNOWN_LAYOUT = "the channel pairs match no known layout (half, interleaved)"


def identify(run: Run, card: Card) -> None:
    """Fill in the identity card of ``fn(x, positions)``."""
    dim = run.settings.head_dim or 0
    if not required_inputs(run, dim):
        if not run.report.findings:  # the suite made no further call
            raise Unidentified("the required calls were not all made")
        first = run.report.findings[0]
        card.unknown.append(f"a required call fails: {first.message} ({first.evidence})")
        card.unknown += hints.for_apply(run, dim)
        return
    x = run.random((2, 3, SHORT.size, dim))
    before = run.driver.apply(x, SHORT)
    require_same(before, run.driver.apply(x, SHORT))
    access = Access(run, dim=dim)
    access.learn()
    measured = measure(access, run.coarse)
    require_finite(measured.matrices)
    card.fill(_rotation, run, access, measured)
    if card.encoding is None:
        card.unknown += hints.no_rotation(run, x, before)
    state.replay(run, lambda: run.driver.apply(x, SHORT), before, f"positions 0..{SHORT[-1]}")


def _rotation(run: Run, access: Access, measured: Measured, card: Card) -> None:
    if measured.phases is None or not measured.pairs:
        card.facts["pairs"] = measured.describe()
        raise Unidentified(_no_rotation(access, measured))
    read = reading(access, measured, run.coarse)
    if read.table:
        card.facts["tables"] = f"each angle is repeated as for {read.table} pairs"
    tables = read.tables(access)
    tables, phases, uneven = unequal(tables, unaliased(tables, run.coarse), run.coarse)
    every = structures(access.dim, measured)
    rest = sorted({*measured.odd, *(() if every else measured.scaled)})
    if rest:
        card.unknown.append(
            f"{len(rest)} channels (channel {rest[0]} is the first) are neither unchanged nor part "
            "of a pair: the card describes the other channels only"
        )
    factor = amplitude(run, access, tables, phases)
    lengths = Lengths(run, access, tables, phases, card)
    if not phases.linear:
        card.unknown += like_xpos(tables, access, run.coarse)
    describe_pairs(card, measured, every)
    if run.driver.axes > 1:
        identify_axes.identify(run, access, read, lengths, factor, card)
        return
    phases = lengths.refined(access)
    numbers(card, phases, factor, run.coarse)
    if uneven is not None:
        card.facts["amplitude"] = uneven.words
    if not every:
        some = ", ".join(f"({p.a}, {p.b})" for p in measured.pairs[:6])
        raise Unidentified(f"{UNKNOWN_LAYOUT}: {some}, ...")
    lengths.explain(card, *explain(run, card, every, phases, factor, phases.sign, uneven))


def explain(
    run: Run,
    card: Card,
    every: list[Structure],
    phases: Phases,
    factor: Factor,
    sign: int,
    uneven: OneSide | None = None,
) -> tuple[Measurement, np.ndarray]:
    """Fill in the encoding; return the fitted measurement and the index of each measured pair."""
    if not (np.isfinite(phases.frequencies).all() and np.isfinite(factor.short)):
        raise Unidentified("the measured frequencies or factors are not finite")
    require_factor(factor)
    measured = [s.measurement(run.coarse, phases, factor, sign) for s in every]
    fits = list(map(closest_fit, measured))
    if uneven is not None:  # a factor that the scaling has belongs on both
        scaled = [s.measurement(run.coarse, phases, uneven.factor, sign) for s in every]
        again = list(map(closest_fit, scaled))
        if all(_brings(found, uneven.factor) for found in again):
            measured, fits = scaled, again
    tried = list(zip(every, measured, fits, strict=True))
    # Prefer the layout with a published base.
    found, measurement, fitted = min(
        tried, key=lambda each: not each[2].named or each[2].base not in PUBLISHED_BASES
    )
    card.shell = RoPE(sign=sign, **found.fields)
    if card.linear or fitted.named:
        card.encoding = encode(card, found, fitted, measurement, sign)
    else:
        card.unknown.append(
            "the angles are not linear in the position, and the frequencies match no known schedule"
        )
    return measurement, found.index


def _brings(found: Fit, factor: Factor) -> bool:
    """Return whether a scaling by itself multiplies cos and sin by the factor."""
    s = found.scaling
    if not found.named or s is None or getattr(s, "attention_factor", None) is not None:
        return False
    return abs(s.magnitude(None) - factor.m) <= factor.error * factor.m


def closest_fit(m: Measurement) -> Fit:
    """Return the fit with the tolerance of the results or, if no rule fits, of float32 angles."""
    found = fit(m)
    if found.named or m.roundoff == ROUNDOFF["float32"]:
        return found
    looser = fit(Measurement(m.w, m.sigma, m.factor))
    return looser if looser.named else found


def describe_pairs(card: Card, measured: Measured, every: list[Structure]) -> None:
    """Describe the channels of the pairs on the card."""
    names = {"interleaved": "interleaved (2k, 2k+1)", "half": "half-split (k, k + d/2)"}
    layout = every[0].fields["layout"] if every else ""
    channels = sorted({c for p in measured.pairs for c in (p.a, p.b)})
    text = f"{len(measured.pairs)} {names.get(layout, 'irregular')}"
    text += f", channels {channels[0]}..{channels[-1]}"
    if not measured.in_out():
        text += ", written to other channels than they are read from"
    if measured.passed:
        text += f"; {len(measured.passed)} channels pass through"
    card.facts["pairs"] = text


def numbers(card: Card, phases: Phases, factor: Factor, dtype: str) -> None:
    """Describe frequencies, amplitude, sign and origin on the card."""
    w = phases.frequencies
    card.frequencies, card.uncertainty = w, uncertainty(phases, dtype)
    relative = card.uncertainty[w != 0] / np.abs(w[w != 0])
    text = f"{w.size} of them, {w[0]:.7g} .. {w[-1]:.7g} rad/position"
    if relative.size:
        text += f", relative uncertainty {relative.min():.1g} .. {relative.max():.1g}"
    card.facts["frequencies"] = text
    size = phases.amplitude
    if np.ptp(size) <= 4 * max(factor.error, FACTOR_SLACK / 8) * np.abs(size).max():
        card.facts["amplitude"] = f"{factor.short:.8g} on every pair"
    else:
        card.facts["amplitude"] = f"{size.min():.6g} .. {size.max():.6g}, not the same on all pairs"
    down = int((w < 0).sum())
    card.facts["sign"] = (
        "rotates by -angle" if down == w.size
        else f"{down} of {w.size} pairs rotate by -angle" if down else "rotates by +angle"
    )  # fmt: skip
    error = BUDGET[dtype] * (ROUNDOFF[dtype] + ROUNDOFF["float32"])
    card.exchanged = down == w.size and bool((np.abs(phases.start - np.pi / 2) <= error).all())
    start = origin(phases, dtype)
    if start:
        card.origin = start
        card.facts["origin"] = f"position 0 is rotated like position {start:g}"


def encode(card: Card, found: Structure, fitted: Fit, m: Measurement, sign: int) -> RoPE | None:
    """Return the encoding of one axis, and note equivalent ones on the card."""
    scaling, base = fitted.scaling, fitted.base
    bare = 1.0 if scaling is None else scaling.magnitude(None)
    if not fitted.named:
        card.rule, card.nearest = False, identify_names.nearest(m)
        card.unknown.append(UNSPACED)
        told = identify_names.unexplained(m)
        card.nearest = told[0] if told else card.nearest
        card.relations += told
    elif not m.has_factor(bare):
        size = m.factor.short
        rule = f"base={base:g}" + (f" with {scaling!r}" if scaling is not None else "")
        card.relations += (f"{rule}, with cos and sin multiplied by {size:.7g}",)
        if not size > 0:
            return None
        known = RoPE(m.rotary_dim, layout="half", base=base, scaling=scaling)
        scaling = pr.GivenFrequencies(tuple(known.frequencies().tolist()), attention_factor=size)
        base = 10000.0
    try:
        encoding = RoPE(base=base, scaling=scaling, sign=sign, **found.fields)
    except ValueError as error:
        card.unknown.append(f"no encoding has the measured frequencies: {error}")
        return None
    same: list[Any] = list(identify_names.same_as(encoding, m))
    if scaling is None:
        n = m.w.size
        same += [
            f"the same frequencies as base={known:g} with the exponents k/{whole:g} of pair k"
            for known, whole in other_exponents(base, n)
        ]
    card.aliases += tuple(other for other in same if not isinstance(other, str))
    card.relations += tuple(text for text in same if isinstance(text, str))
    return encoding


def _no_rotation(access: Access, measured: Measured) -> str:
    dim, at = access.dim, access.within(np.arange(8))
    if access.rows(np.zeros((1, 1, at.size, dim)), at).any():
        return (
            "fn(0, positions) is not 0: the function adds something to x, so it is no rotation; "
            "identify positions -> fn(0, positions) as surface 'table'"
        )
    if len(measured.passed) == dim:
        return "the output equals x: it does not depend on positions"
    if not measured.matrices.any():
        return "the output is 0 for every input"
    if len(measured.passed) + len(measured.scaled) == dim:
        return "channels are only scaled, not rotated"
    return "no two channels are rotated into each other"
