"""What an unknown rotary function is: structure, axes, frequencies, length, then a full check."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref import MultiAxisRoPE, RoPE, Rotary
from posenc_ref.accuracy import BUDGET, FACTOR_SLACK, ROUNDOFF
from posenc_ref.rope import layout_pairs

from .access import Access
from .card import Card
from .fit_schedule import Fit, Measurement, fit
from .frequencies import PUBLISHED_BASES, agree
from .identify_length import by_length
from .judge_axes import AxisPhases
from .judge_axes import measure as measure_axes
from .measure import Measured, Phases
from .run import Run


def identify(run: Run, access: Access, measured: Measured, card: Card) -> None:
    """Fill in the card from what was measured."""
    phases = measured.phases
    if phases is None or not measured.pairs:
        card.facts["pairs"] = measured.describe()
        card.unknown.append("no two channels are turned into each other: this is no rotation")
        return
    card.linear = phases.linear
    if measured.odd:
        card.unknown.append(
            f"{len(measured.odd)} channels are neither passed through nor one of a pair "
            f"(channel {measured.odd[0]} first): the rest is described alone"
        )
    sign, w = _signed(phases)
    card.frequencies, card.uncertainty = phases.frequencies, phases.sigma
    _facts(card, measured, phases, sign, run)
    if run.subject.axes > 1:
        found = measure_axes(run, run.subject.axes, access.dim, measured.pairs, sign)
        card.encoding = _several_axes(card, access.dim, measured, found, sign, phases)
        return
    structure = _structure(access.dim, measured)
    if structure is None:
        card.unknown.append("pairs are neither interleaved nor half-split in any slice")
        return
    fields, denominator = structure
    m = float(np.median(phases.amplitude))
    error = run.budget * ROUNDOFF[run.coarse] if run.coarse in ("float32", "float64") else 0.0
    measurement = Measurement(w, phases.sigma, denominator, m, error + FACTOR_SLACK / 8)
    if not card.linear:
        card.unknown.append("angles do not grow linearly with the position")
    fitted = fit(measurement)
    card.encoding = _encoding(access.dim, fields, fitted, measurement, sign)
    card.aliases += fitted.aliases
    if card.encoding is not None:
        by_length(run, access, measured, card, sign)


def _signed(phases: Phases) -> tuple[int, np.ndarray]:
    """The sign of the rotation, and frequencies without it."""
    sign = -1 if (phases.frequencies < 0).all() else 1
    return sign, sign * phases.frequencies


def _facts(card: Card, measured: Measured, phases: Phases, sign: int, run: Run) -> None:
    w = phases.frequencies
    card.facts["pairs"] = _pairs_text(measured)
    relative = phases.sigma / np.maximum(np.abs(w), np.finfo(np.float64).tiny)
    card.facts["frequencies"] = (
        f"{w.size} of them, {w[0]:.7g} .. {w[-1]:.7g} rad/position, known to "
        f"{relative.min():.1g} .. {relative.max():.1g} relative"
    )
    size = phases.amplitude
    if np.ptp(size) <= 2 * run.budget * ROUNDOFF[run.coarse] * np.abs(size).max():
        card.facts["amplitude"] = f"{float(np.median(size)):.6g} on every pair"
    else:
        card.facts["amplitude"] = f"{size.min():.6g} .. {size.max():.6g}, not the same on all pairs"
    card.facts["sign"] = "turns the other way, by -angle" if sign < 0 else "turns by +angle"


def _pairs_text(measured: Measured) -> str:
    names = {"interleaved": "interleaved (2k, 2k+1)", "half": "half-split (k, k + d/2)"}
    channels = sorted({c for p in measured.pairs for c in (p.a, p.b)})
    text = (
        f"{len(measured.pairs)} {names.get(measured.layout(), 'irregular')}, channels "
        f"{channels[0]}..{channels[-1]}"
    )
    if not measured.in_out():
        text += ", written to other channels than they are read from"
    if measured.passed:
        text += f"; {len(measured.passed)} channels pass through"
    return text


def _structure(dim: int, measured: Measured) -> tuple[dict[str, Any], int] | None:
    """Layout, slice and output layout as RoPE's fields, and the width of the exponents."""
    n, start = len(measured.pairs), min(p.a for p in measured.pairs)
    found = [(p.a, p.b) for p in measured.pairs]
    half = dim // 2
    if n < half and dim % 2 == 0 and found == [(k, k + half) for k in range(n)]:
        return {"layout": "half"}, dim  # the slow pairs do not turn: proportional
    layout = measured.layout()
    if not layout:
        return None
    fields: dict[str, Any] = {"layout": layout}
    if 2 * n != dim:
        fields |= {"rotary_dim": 2 * n, "rotary_start": start}
    written = [(p.out_a, p.out_b) for p in measured.pairs]
    for other in ("interleaved", "half"):
        if other != layout and written == [
            (int(a), int(b)) for a, b in zip(*layout_pairs(other, n, start), strict=True)
        ]:
            fields["output_layout"] = other
    return fields, 2 * n


def _encoding(
    dim: int, fields: dict[str, Any], fitted: Fit, m: Measurement, sign: int
) -> Rotary | None:
    scaling = fitted.scaling
    if m.w.size * 2 < m.rotary_dim:  # proportional: the pairs that turn are those of a wider head
        whole = fit_proportional(m)
        if whole is None:
            padded = (*m.w.tolist(), *[0.0] * (m.rotary_dim // 2 - m.w.size))
            scaling = pr.GivenFrequencies(padded, attention_factor=m.m)
            return RoPE(dim, scaling=scaling, sign=sign, **fields)
        return RoPE(dim, base=whole[0], scaling=whole[1], sign=sign, **fields)
    known = 1.0 if scaling is None else scaling.magnitude(None)
    if abs(known - m.m) > m.m_error * max(1.0, abs(m.m)):
        frequencies = tuple(RoPE(m.rotary_dim, layout="half", base=fitted.base,
                                 scaling=scaling).frequencies().tolist())  # fmt: skip
        scaling = pr.GivenFrequencies(frequencies, attention_factor=abs(m.m))
    return RoPE(dim, base=fitted.base, scaling=scaling, sign=sign, **fields)


def fit_proportional(m: Measurement) -> tuple[float, pr.Proportional] | None:
    """A base and a fraction whose turning pairs have the measured frequencies."""
    n, half = m.w.size, m.rotary_dim // 2
    for base in PUBLISHED_BASES:
        predicted = base ** (-np.arange(n) / half)
        if agree(m.w, predicted, m.sigma).all():
            return base, pr.Proportional(n / half)
    return None


def _several_axes(
    card: Card, dim: int, measured: Measured, found: AxisPhases, sign: int, phases: Phases
) -> Rotary | None:
    follows = np.abs(found.frequencies) > ROUNDOFF["float32"] * np.abs(found.frequencies).max(
        axis=0, initial=0.0
    )
    if not found.linear or (follows.sum(axis=0) != 1).any():
        k = int(np.argmax(follows.sum(axis=0) != 1))
        axes = np.flatnonzero(follows[:, k]).tolist()
        card.unknown.append(f"pair {k} follows axes {axes}: not one axis for each pair")
        return None
    axes = np.argmax(follows, axis=0)
    w = found.frequencies[axes, np.arange(axes.size)]
    sections = tuple(int((axes == a).sum()) for a in range(found.frequencies.shape[0]))
    card.facts["axes"] = f"pairs by axis {sections}: {_runs(axes)}"
    if 0 in sections:
        card.unknown.append(f"no pair follows axis {sections.index(0)}")
        return None
    start = min(p.a for p in measured.pairs)
    base_fields: dict[str, Any] = {"sections": sections, "sign": sign, "rotary_start": start}
    origin = _origin(found, axes, w)
    if origin:
        base_fields["offset"] = origin
    for arrangement in ("chunked", "interleaved", tuple(int(a) for a in axes)):
        for layout in ("half", "interleaved", "blockwise"):
            try:
                shape = MultiAxisRoPE(dim, layout=layout, arrangement=arrangement, **base_fields)
            except ValueError:
                continue
            pairs = [(int(a), int(b)) for a, b in zip(*shape.pairs(), strict=True)]
            if pairs != [(p.a, p.b) for p in measured.pairs]:
                continue
            if not np.array_equal(shape.axes(), axes):
                continue
            return _spaced(shape, w, phases)
    card.unknown.append("pairs are of no layout that is described here")
    return None


def _spaced(shape: MultiAxisRoPE, w: np.ndarray, phases: Phases) -> MultiAxisRoPE:
    """The spacing and the base that give the measured frequencies."""
    for spacing in ("global", "restart", "strided"):
        try:
            spaced = shape.replace(spacing=spacing)
        except ValueError:
            continue
        for base in (*PUBLISHED_BASES, 100.0, 256.0, 2000.0):
            for scale in (1.0, 2 * np.pi, np.pi, float(abs(w[0]))):
                tried = spaced.replace(base=base, position_scale=scale)
                if agree(w, tried.frequencies(), phases.sigma).all():
                    return tried
    given = pr.GivenFrequencies(tuple(w.tolist()), attention_factor=float(phases.amplitude[0]))
    return shape.replace(spacing="global", scaling=given)


def _origin(found: AxisPhases, axes: np.ndarray, w: np.ndarray) -> float:
    """The offset of all axes, where the angles at 0 have one."""
    for offset in (0.0, 1.0, -1.0, 0.5):
        off = np.angle(np.exp(1j * (found.start - offset * w)))
        if (np.abs(off) <= BUDGET["float32"] * ROUNDOFF["float32"] * (1 + abs(offset))).all():
            return offset
    return 0.0


def _runs(axes: np.ndarray) -> str:
    """Consecutive pairs of one axis, or the first pairs where they alternate."""
    if (np.diff(axes) != 0).sum() < axes.size // 2:
        bounds = [0, *(np.flatnonzero(np.diff(axes)) + 1).tolist(), axes.size]
        parts = [f"{a}..{b - 1} axis {axes[a]}" for a, b in pairwise(bounds)]
        return ", ".join(parts[:8])
    return "axes " + ", ".join(map(str, axes[:12].tolist())) + ", ..."
