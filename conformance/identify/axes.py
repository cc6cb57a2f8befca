"""Identify rotary functions of several position axes: the axis and frequency of every pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any

import numpy as np

from posenc_ref import MixedRoPE, MultiAxisRoPE, Rotary
from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.probes import unit_pairs
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.frequencies import PUBLISHED_BASES
from posenc_ref.conformance.phases.measure import Measured, Phases, unaliased

from . import names as identify_names
from .card import Card, Unidentified
from .fit.measurement import Factor, Measurement, nice
from .fit.schedule import fit, given
from .length import UNSPACED, Lengths
from .measure import origin, reach, refined, uncertainty

#: Bases of text models, vision towers and image models.
_BASES = (*PUBLISHED_BASES, 100.0, 256.0, 2000.0, 10.0, 20.0)
_SCALES = (1.0, 2 * np.pi, np.pi)


@dataclass(frozen=True)
class Axes:
    """The frequencies (A, pairs) on every axis, and their errors."""

    w: np.ndarray
    sigma: np.ndarray
    first: Phases  #: the measured phases of the first axis
    linear: bool

    @property
    def follows(self) -> np.ndarray:
        """The mask (A, pairs) of the axes on which each pair has a nonzero frequency."""
        noise = 8 * self.sigma + ROUNDOFF["float32"] * np.abs(self.w).max(axis=0, initial=0.0)
        return np.asarray(np.abs(self.w) > noise)


def identify(
    run: Run, access: Access, measured: Measured, lengths: Lengths, factor: Factor,
    card: Card,
) -> None:  # fmt: skip
    """Fill in the card with the axis and the frequency of every pair."""
    axes = _measure(run, access, measured, bool(lengths.changed))
    card.linear = card.linear and axes.linear
    if not axes.linear:
        card.unknown.append("angles do not follow the positions of every axis evenly")
    several = axes.follows.sum(axis=0)
    if (several > 1).any():
        _mixed(card, access.dim, measured, axes, int(np.argmax(several > 1)))
        return
    if (several == 0).any():
        raise Unidentified(f"pair {int(np.argmin(several))} follows no axis")
    axis = np.argmax(axes.follows, axis=0)
    each = axis, np.arange(axis.size)
    phases = replace(axes.first, frequencies=axes.w[each], sigma=axes.sigma[each])
    w, sign = phases.frequencies, phases.sign
    card.frequencies, card.uncertainty = w, uncertainty(phases, run.coarse)
    card.facts["frequencies"] = f"{w.size} of them, {w.max():.7g} .. {w.min():.7g} rad/position"
    sections = tuple(int((axis == a).sum()) for a in range(axes.w.shape[0]))
    card.facts["axes"] = f"pairs by axis {sections}: {_runs(axis)}"
    if 0 in sections:
        raise Unidentified(f"no pair follows axis {sections.index(0)}: describe it with fewer axes")
    start = origin(phases, run.coarse)
    if start:
        card.facts["origin"] = f"positions are counted from {start:g}"
    first = min(p.a for p in measured.pairs)
    fields = {"sections": sections, "sign": sign, "rotary_start": first, "offset": start}
    shape = next(_shapes(access.dim, fields, measured, axis), None)
    if shape is None:
        raise Unidentified("pairs are of no layout that is described here")
    measurement = Measurement.of(run.coarse, sign * w, phases.sigma, factor)
    card.encoding = _spaced(card, shape, measurement)
    lengths.explain(card, measurement, np.arange(w.size))


def _measure(run: Run, access: Access, measured: Measured, by_length: bool) -> Axes:
    """Return the frequency of every pair on each axis, with all other axes at position 0."""
    count, dim = run.driver.axes, access.dim
    first = np.array([p.a for p in measured.pairs])
    out_a, out_b = [p.out_a for p in measured.pairs], [p.out_b for p in measured.pairs]
    every: list[Phases] = []
    for axis in range(count):

        def tables(at: np.ndarray, axis: int = axis) -> tuple[np.ndarray, np.ndarray]:
            positions = np.zeros((count, 1, at.size), dtype=at.dtype)
            positions[axis] = at
            y = run.driver.apply(unit_pairs((1, 1, at.size, dim), first), positions)[0, 0]
            return y[:, out_a], y[:, out_b]

        found = unaliased(tables, run.coarse)
        every.append(found if by_length else refined(tables, found, reach(access), run.coarse))
    return Axes(
        np.stack([p.frequencies for p in every]),
        np.stack([p.sigma for p in every]),
        every[0],
        all(p.linear for p in every),
    )


def _mixed(card: Card, dim: int, measured: Measured, axes: Axes, k: int) -> None:
    names = np.flatnonzero(axes.follows[:, k]).tolist()
    card.facts["axes"] = f"pairs follow several axes at once (pair {k}: axes {names})"
    weight = np.where(axes.follows, axes.w, 0.0)
    for layout in ("half", "interleaved"):
        shape = MixedRoPE(dim, weight, layout=layout)
        if measured.has(shape):
            card.encoding = shape
            card.frequencies = weight.sum(axis=0)
            card.uncertainty = np.sqrt((axes.sigma**2).sum(axis=0))
            return
    raise Unidentified(f"pair {k} follows axes {names}, in a layout that is not described here")


def _shapes(
    dim: int, fields: dict[str, Any], measured: Measured, axis: np.ndarray
) -> Iterator[MultiAxisRoPE]:
    """Yield the layouts and arrangements that give the measured pairs and axes."""
    layouts = ("half", "interleaved", "blockwise")
    arrangements = ("chunked", "interleaved", tuple(axis.tolist()))
    for arrangement, layout, out in product(arrangements, layouts, (None, *layouts)):
        if layout == out:
            continue
        try:
            shape = MultiAxisRoPE(
                dim, layout=layout, arrangement=arrangement, output_layout=out, **fields
            )
        except ValueError:
            continue
        if measured.has(shape) and np.array_equal(shape.axes(), axis):
            yield shape


def _spaced(card: Card, shape: MultiAxisRoPE, m: Measurement) -> Rotary:
    """Return the encoding with the measured frequencies, by a rule or as a list."""
    for tried in _spacings(shape, m):
        if m.agree(tried.frequencies()).all() and m.has_factor(tried.attention_factor()):
            card.aliases += identify_names.same_axes(tried)
            return tried
    card.rule = False
    card.unknown.append(f"{UNSPACED}: none described here gives them")
    return shape.replace(spacing="global", scaling=given(m))


def _spacings(shape: MultiAxisRoPE, m: Measurement) -> Iterator[MultiAxisRoPE]:
    """Yield every spacing, with published bases first and then with fitted ones."""
    if not (m.w > 0).all():
        return
    known = m.noise + 4 * m.roundoff
    first = _scale(float(m.w[0]), float(known[0]))
    for spacing in ("global", "restart", "strided"):
        if spacing == "strided" and len(set(shape.sections)) > 1:
            continue
        plain = shape.replace(spacing=spacing)
        exponent = -np.log(plain.frequencies()) / np.log(plain.base)
        for scale in dict.fromkeys((*_SCALES, first)):
            for base in _BASES:
                if m.agree(scale * base**-exponent).all():
                    yield plain.replace(base=base, position_scale=scale)
    axes = shape.axes()
    groups = [np.flatnonzero(axes == a) for a in range(len(shape.sections))]
    own = tuple(_scale(float(m.w[g[0]]), float(known[g[0]])) for g in groups)
    for scales in ((1.0,) * len(groups), own):
        whole = fit(m.part(slice(None), scales[0]))
        if whole.named:
            yield shape.replace(
                spacing="global", base=whole.base, scaling=whole.scaling, position_scale=scales[0]
            )
        each = [fit(m.part(g, scale)) for g, scale in zip(groups, scales, strict=True)]
        if all(f.named and f.scaling == each[0].scaling for f in each):
            yield shape.replace(
                spacing="restart", base=tuple(f.base for f in each), scaling=each[0].scaling,
                position_scale=scales,
            )  # fmt: skip


def _scale(first: float, error: float) -> float:
    """Return the shortest number or multiple of pi that equals ``first`` within ``error``."""
    plain, turns = nice(first, error), nice(first / np.pi, error)
    return float(turns * np.pi) if len(repr(turns)) < len(repr(plain)) else plain


def _runs(axes: np.ndarray) -> str:
    if (np.diff(axes) != 0).sum() < axes.size // 2:
        bounds = [0, *(np.flatnonzero(np.diff(axes)) + 1).tolist(), axes.size]
        parts = [f"{a}..{b - 1} axis {axes[a]}" for a, b in pairwise(bounds)]
        return ", ".join(parts[:8])
    return "axes " + ", ".join(map(str, axes[:12].tolist())) + ", ..."
