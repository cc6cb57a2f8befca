"""Identify a rotary function: layout, dependence on length, frequencies."""

from __future__ import annotations

import numpy as np

import posenc_ref as pr
from posenc_ref import RoPE
from posenc_ref.accuracy import FACTOR_SLACK, ROUNDOFF
from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.probes import SHORT
from posenc_ref.conformance.harness.reach import Access, Reach
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.frequencies import PUBLISHED_BASES
from posenc_ref.conformance.phases.measure import Measured, Phases, Tables, measure, unaliased
from posenc_ref.conformance.rotary.judge import required_inputs

from . import axes as identify_axes
from . import hints
from . import names as identify_names
from . import nearest as identify_near
from .card import Card, Unidentified
from .fit.measurement import Factor, Fit, Measurement
from .fit.schedule import fit
from .length import UNSPACED, Lengths
from .measure import amplitude, like_xpos, origin, uncertainty
from .structure import Structure, structures


def identify(run: Run, card: Card) -> None:
    """Fill in the card of ``fn(x, positions)``."""
    dim = run.settings.head_dim or 0
    if not required_inputs(run, dim):
        first = run.report.findings[0]
        card.unknown.append(f"it cannot be driven: {first.message} ({first.evidence})")
        card.unknown += hints.for_apply(run, dim)
        return
    x = run.random((2, 3, SHORT.size, dim))
    before = run.driver.apply(x, SHORT)
    if not np.array_equal(before, run.driver.apply(x, SHORT)):
        raise Unidentified("the same call gives other values at once: it is not a function of x")
    access = Access(run, dim=dim)
    access.learn()
    measured = measure(access, run.coarse)
    if not np.isfinite(measured.matrices).all():
        raise Unidentified("what comes out is not finite")
    card.fill(_rotation, run, access, measured)
    if card.encoding is None:
        card.unknown += hints.no_rotation(run, x, before)
    state.replay(run, lambda: run.driver.apply(x, SHORT), before, f"positions 0..{SHORT[-1]}")


def _rotation(run: Run, access: Access, measured: Measured, card: Card) -> None:
    if measured.phases is None or not measured.pairs:
        card.facts["pairs"] = measured.describe()
        raise Unidentified(_no_rotation(access, measured))
    tables = measured.tables(access)
    phases = unaliased(tables, run.coarse)
    every = structures(access.dim, measured)
    rest = sorted({*measured.odd, *(() if every else measured.scaled)})
    if rest:
        card.unknown.append(
            f"{len(rest)} channels are neither passed through nor one of a pair (channel "
            f"{rest[0]} first): what follows describes the others alone"
        )
    factor = amplitude(run, access, tables, phases)
    lengths = follow(run, access, tables, phases, card, xpos=True)
    describe_pairs(card, measured, every)
    if run.driver.axes > 1:
        identify_axes.identify(run, access, measured, lengths, factor, card)
        return
    phases = lengths.refined(access)
    numbers(card, phases, factor, run.coarse)
    if not every:
        some = ", ".join(f"({p.a}, {p.b})" for p in measured.pairs[:6])
        raise Unidentified(f"pairs of no layout that is described here: {some}, ...")
    lengths.explain(card, *explain(run, card, every, phases, factor, phases.sign))


def follow(
    run: Run, access: Reach, tables: Tables, phases: Phases, card: Card, *, xpos: bool = False
) -> Lengths:
    """Note on the card whether angles are linear in the position; measure other lengths."""
    card.linear = phases.linear
    if not card.linear:
        card.unknown.append("angles or amplitudes do not follow the position evenly")
        if xpos:
            card.unknown += like_xpos(tables, access, run.coarse)
    return Lengths(run, access, tables, phases, card)


def explain(
    run: Run, card: Card, every: list[Structure], phases: Phases, factor: Factor, sign: int
) -> tuple[Measurement, np.ndarray]:
    """Fill in the encoding; return the fitted measurement and the slots of the pairs."""
    measured = [s.measurement(run.coarse, phases, factor, sign) for s in every]
    tried = list(zip(every, measured, map(closest_fit, measured), strict=True))
    # Prefer the slice with a published base.
    found, measurement, fitted = min(
        tried, key=lambda each: not each[2].named or each[2].base not in PUBLISHED_BASES
    )
    if card.linear or fitted.named:
        card.encoding = encode(card, found, fitted, measurement, sign)
    else:
        card.unknown.append(
            "the angles are not linear in the position, and the frequencies match no known schedule"
        )
    return measurement, found.slots


def closest_fit(m: Measurement) -> Fit:
    """Return the fit with the tolerance of the results, or else that of float32 angles."""
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
    text = (
        f"{len(measured.pairs)} {names.get(layout, 'irregular')}, channels "
        f"{channels[0]}..{channels[-1]}"
    )
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
    card.facts["frequencies"] = f"{w.size} of them, {w[0]:.7g} .. {w[-1]:.7g} rad/position" + (
        f", known to {relative.min():.1g} .. {relative.max():.1g} relative" if relative.size else ""
    )
    size = phases.amplitude
    if np.ptp(size) <= 4 * max(factor.error, FACTOR_SLACK / 8) * np.abs(size).max():
        card.facts["amplitude"] = f"{factor.short:.8g} on every pair"
    else:
        card.facts["amplitude"] = f"{size.min():.6g} .. {size.max():.6g}, not the same on all pairs"
    down = int((w < 0).sum())
    card.facts["sign"] = (
        "turns the other way, by -angle" if down == w.size
        else f"{down} of {w.size} pairs turn the other way" if down else "turns by +angle"
    )  # fmt: skip
    start = origin(phases, dtype)
    if start:
        card.origin = start
        card.facts["origin"] = f"position 0 is turned like position {start:g}"


def encode(card: Card, found: Structure, fitted: Fit, m: Measurement, sign: int) -> RoPE | None:
    """Return the encoding of one axis, and note equivalent ones on the card."""
    scaling, base = fitted.scaling, fitted.base
    bare = 1.0 if scaling is None else scaling.magnitude(None)
    if not fitted.named:
        card.rule, card.nearest = False, identify_near.nearest(m)
        card.unknown.append(f"{UNSPACED}: no base with a scaling described here gives them")
        card.relations += identify_names.unexplained(m)
    elif not m.has_factor(bare):
        size = m.factor.short
        rule = f"base={base:g}" + (f" with {scaling!r}" if scaling is not None else "")
        card.relations += (f"{rule}, with cos and sin multiplied by {size:.7g}",)
        if not size > 0:
            return None
        known = RoPE(m.rotary_dim, layout="half", base=base, scaling=scaling)
        scaling = pr.GivenFrequencies(tuple(known.frequencies().tolist()), attention_factor=size)
        base = 10000.0
    encoding = RoPE(base=base, scaling=scaling, sign=sign, **found.fields)
    aliases, relations = identify_names.same_as(encoding, m)
    card.aliases += aliases
    card.relations += relations
    return encoding


def _no_rotation(access: Access, measured: Measured) -> str:
    dim, at = access.dim, access.within(np.arange(8))
    if access.rows(np.zeros((1, 1, at.size, dim)), at).any():
        return (
            "zeros do not come out as zeros: something is added to x, which is no rotation; "
            "identify what is added, positions -> fn(zeros, positions), as surface 'table'"
        )
    if len(measured.passed) == dim:
        return "the output equals x: it does not depend on positions"
    if not measured.matrices.any():
        return "nothing comes out but zeros"
    if len(measured.passed) + len(measured.scaled) == dim:
        return "channels are only scaled, not rotated"
    return "no two channels are rotated into each other"
