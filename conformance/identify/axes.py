"""Identify rotary functions of several position axes: the axis and frequency of every pair."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
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
from .measure import origin, reach, refined, require_factor, uncertainty

#: Bases of text models, vision towers and image models.
_BASES = (*PUBLISHED_BASES, 100.0, 256.0, 2000.0, 10.0, 20.0)
_SCALES = (1.0, 2 * np.pi, np.pi)


def identify(
    run: Run, access: Access, measured: Measured, lengths: Lengths, factor: Factor, card: Card
) -> None:
    """Write the axis and the frequency of every channel pair to the identity card."""
    require_factor(factor)
    phases = _measure(run, access, measured, bool(lengths.changed))
    card.linear = card.linear and phases.linear
    if not phases.linear:
        card.unknown.append("angles are not linear in the position on every axis")
    w, sigma = phases.frequencies, phases.sigma
    follows = np.abs(w) > 8 * sigma + ROUNDOFF["float32"] * np.abs(w).max(axis=0, initial=0.0)
    several = follows.sum(axis=0)
    if (several > 1).any():
        _mixed(card, access.dim, measured, np.where(follows, w, 0.0), int(np.argmax(several > 1)))
        card.uncertainty = np.sqrt((sigma**2).sum(axis=0))
        return
    if (several == 0).any():
        raise Unidentified(f"pair {int(np.argmin(several))} is not rotated by any axis")
    axis = np.argmax(follows, axis=0)
    each = axis, np.arange(axis.size)
    phases = replace(phases, frequencies=w[each], sigma=sigma[each])
    w, sign = phases.frequencies, phases.sign
    card.frequencies, card.uncertainty = w, uncertainty(phases, run.coarse)
    card.facts["frequencies"] = f"{w.size} of them, {w.max():.7g} .. {w.min():.7g} rad/position"
    sections = tuple(np.bincount(axis, minlength=len(sigma)).tolist())
    card.facts["axes"] = f"pairs by axis {sections}: {_runs(axis)}"
    if 0 in sections:
        raise Unidentified(
            f"axis {sections.index(0)} rotates no pair: call identify with fewer axes"
        )
    start = origin(phases, run.coarse)
    if start:
        card.facts["origin"] = f"positions are counted from {start:g}"
    first = min(p.a for p in measured.pairs)
    fields = {"sections": sections, "sign": sign, "rotary_start": first, "offset": start}
    shape = next(_shapes(access.dim, fields, measured, axis), None)
    if shape is None:
        raise Unidentified("the channel pairs match no known layout (half, interleaved, blockwise)")
    measurement = Measurement.of(run.coarse, sign * w, phases.sigma, factor)
    card.encoding = _spaced(card, shape, measurement)
    lengths.explain(card, measurement, np.arange(w.size))


def _measure(run: Run, access: Access, measured: Measured, by_length: bool) -> Phases:
    """Return the frequencies (axes, pairs), each axis measured with the others at position 0."""
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
    return replace(
        every[0],
        frequencies=np.stack([p.frequencies for p in every]),
        sigma=np.stack([p.sigma for p in every]),
        linear=all(p.linear for p in every),
    )


def _mixed(card: Card, dim: int, measured: Measured, weight: np.ndarray, k: int) -> None:
    names = np.flatnonzero(weight[:, k]).tolist()
    card.facts["axes"] = f"several axes rotate one pair (pair {k}: axes {names})"
    for shape in (MixedRoPE(dim, weight, layout=name) for name in ("half", "interleaved")):
        if measured.has(shape):
            card.encoding, card.frequencies = shape, weight.sum(axis=0)
            return
    raise Unidentified(
        f"axes {names} rotate pair {k}, but the pairs match no known layout (half, interleaved)"
    )


def _shapes(
    dim: int, fields: dict[str, Any], measured: Measured, axis: np.ndarray
) -> Iterator[MultiAxisRoPE]:
    """Yield the encodings whose channel pairs and axes of pairs equal the measured ones."""
    layouts = ("half", "interleaved", "blockwise")
    arrangements = ("chunked", "interleaved", tuple(axis.tolist()))
    for arrangement, layout, out in product(arrangements, layouts, (None, *layouts)):
        with suppress(ValueError):  # an invalid combination
            shape = MultiAxisRoPE(
                dim, layout=layout, arrangement=arrangement, output_layout=out, **fields
            )
            if measured.has(shape) and np.array_equal(shape.axes(), axis):
                yield shape


def _spaced(card: Card, shape: MultiAxisRoPE, m: Measurement) -> Rotary:
    """Return the encoding with the measured frequencies, from a rule or as a list."""
    for tried in _spacings(shape, m):
        if m.agree(tried.frequencies()).all() and m.has_factor(tried.attention_factor()):
            card.aliases += identify_names.same_axes(tried)
            return tried
    card.rule = False
    card.unknown.append(UNSPACED)
    return shape.replace(spacing="global", scaling=given(m))


def _spacings(shape: MultiAxisRoPE, m: Measurement) -> Iterator[MultiAxisRoPE]:
    """Yield the encoding with every ``spacing``, with published bases first, then fitted ones."""
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


def _scale(frequency: float, error: float) -> float:
    """Return the shortest number or multiple of pi within relative ``error`` of ``frequency``."""
    plain, turns = nice(frequency, error), nice(frequency / np.pi, error)
    return float(turns * np.pi) if len(repr(turns)) < len(repr(plain)) else plain


def _runs(axes: np.ndarray) -> str:
    changes = (np.flatnonzero(np.diff(axes)) + 1).tolist()
    if len(changes) < axes.size // 2:
        bounds = [0, *changes, axes.size]
        parts = [f"{a}..{b - 1} axis {axes[a]}" for a, b in pairwise(bounds)]
        return ", ".join(parts[:8])
    return "axes " + ", ".join(map(str, axes[:12].tolist())) + ", ..."
