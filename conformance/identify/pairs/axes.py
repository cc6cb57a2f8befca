"""Identify rotary functions of several position axes: the axis and frequency of every pair."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np

from posenc_ref import MixedRoPE, MultiAxisRoPE, NTKScaling, Rotary
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.identify import names as identify_names
from posenc_ref.conformance.identify.card import Card, Unidentified
from posenc_ref.conformance.identify.fit.measurement import Factor, Fit, Measurement, nice
from posenc_ref.conformance.identify.fit.schedule import fit, given
from posenc_ref.conformance.identify.length import UNSPACED, Lengths
from posenc_ref.conformance.identify.measure import (
    origin,
    reach,
    refined,
    require_factor,
    uncertainty,
)
from posenc_ref.conformance.phases.frequencies import PUBLISHED_BASES
from posenc_ref.conformance.phases.measure import Measured, Phases, unaliased

from .channels import Reading
from .mixed import follows, fractions, of_heads, own_heads, partly
from .structure import structures

#: Bases of text models, vision towers and image models.
_BASES = (*PUBLISHED_BASES, 100.0, 256.0, 2000.0, 10.0, 20.0)
_SCALES = (1.0, 2 * np.pi, np.pi)


def identify(
    run: Run, access: Access, read: Reading, lengths: Lengths, factor: Factor, card: Card
) -> None:
    """Write the axis and the frequency of every channel pair to the identity card."""
    require_factor(factor)
    measured, by_length = read.measured, bool(lengths.changed)
    heads = own_heads(run, access)
    if heads:
        of_heads(
            read,
            structures(access.dim, measured),
            heads,
            lambda whole, head: _measure(run, access, whole, by_length, head),
            card,
        )
        return
    phases = _measure(run, access, read, by_length)
    card.linear = card.linear and phases.linear
    if not phases.linear:
        card.unknown.append("angles are not linear in the position on every axis")
    w, sigma = phases.frequencies, phases.sigma
    turned = follows(phases)
    several = turned.sum(axis=0)
    if (several > 1).any():
        _mixed(card, access.dim, measured, np.where(turned, w, 0.0), int(np.argmax(several > 1)))
        card.uncertainty = np.sqrt((sigma**2).sum(axis=0))
        return
    if (several == 0).any():
        raise Unidentified(f"pair {int(np.argmin(several))} is not rotated by any axis")
    axis = np.argmax(turned, axis=0)
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
        partly(card, structures(access.dim, measured), axis, phases, factor)
        return
    measurement = Measurement.of(run.coarse, sign * w, phases.sigma, factor)
    card.encoding = _spaced(card, shape, measurement)
    lengths.explain(card, measurement, np.arange(w.size))


def _measure(run: Run, access: Access, read: Reading, by_length: bool, head: int = 0) -> Phases:
    """Return the frequencies (axes, pairs), each axis measured with the others at position 0."""
    count = run.driver.axes
    every: list[Phases] = []
    for axis in range(count):

        def tables(at: np.ndarray, axis: int = axis) -> tuple[np.ndarray, np.ndarray]:
            positions = np.zeros((count, 1, at.size), dtype=at.dtype)
            positions[axis] = at

            def rotate(x: np.ndarray) -> np.ndarray:
                every = np.repeat(x, head + 1, axis=1)
                return np.asarray(run.driver.apply(every, positions)[0, head])

            return read.cos_sin(rotate, at.size)

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
            if isinstance(tried, MultiAxisRoPE):
                card.aliases += identify_names.same_axes(tried)
            return tried
    torn = next(_other_sections(shape, m), None)
    if torn is not None:
        return torn
    card.rule = False
    card.unknown.append(UNSPACED)
    return shape.replace(spacing="global", scaling=given(m))


def _other_sections(shape: MultiAxisRoPE, m: Measurement) -> Iterator[Rotary]:
    """Yield the rule of frequencies that start again elsewhere than the axes change.

    A function may make its frequencies for one split of the channels, and assign them to axes by
    another one: the encoding has the first split, and the check finds the second one.
    """
    starts = np.flatnonzero(np.diff(m.w) > 0) + 1
    sections = tuple(np.diff([0, *starts, m.w.size]).tolist())
    if shape.arrangement != "chunked" or len(sections) != len(shape.sections):
        return
    with suppress(ValueError):
        other = shape.replace(sections=sections)
        yield from (e for e in _spacings(other, m) if m.agree(e.frequencies()).all())


def _spacings(shape: MultiAxisRoPE, m: Measurement) -> Iterator[MultiAxisRoPE | MixedRoPE]:
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
        if any(f.scaling != each[0].scaling for f in each):  # NTK-aware scaling of some axes
            each = [_stretched(f, 2 * g.size) for f, g in zip(each, groups, strict=True)]
        if all(f.named and f.scaling == each[0].scaling for f in each):
            yield shape.replace(
                spacing="restart", base=tuple(f.base for f in each), scaling=each[0].scaling,
                position_scale=scales,
            )  # fmt: skip
    yield from fractions(shape, m)


def _stretched(found: Fit, dim: int) -> Fit:
    """Return NTK-aware scaling as the base that it gives."""
    if not isinstance(found.scaling, NTKScaling):
        return found
    return Fit(found.base * found.scaling.factor ** (dim / (dim - 2)))


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
