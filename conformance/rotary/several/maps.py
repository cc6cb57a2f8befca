"""Diagnose a wrong map of every pair whose angles, or pairs, are wrong too.

The map of a pair is made from cos and sin of one angle. Two of its four entries are these, up to
the sign, so that the angle is known without the declared frequencies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from posenc_ref import RoPE, Rotary
from posenc_ref.accuracy import FACTOR_SLACK, ROUNDOFF
from posenc_ref.conformance.harness.probes import unit_pairs
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.found import Found, FoundMap
from posenc_ref.conformance.phases.declaration import declare
from posenc_ref.conformance.phases.diagnose import diagnose_phases
from posenc_ref.conformance.phases.explain import explain, likely
from posenc_ref.conformance.phases.factor_mistakes import remedy as factor_remedy
from posenc_ref.conformance.phases.factor_mistakes import two_factors
from posenc_ref.conformance.phases.measure import Measured, Phases, Tables, unwrap
from posenc_ref.conformance.rotary.diagnose_pairs import MAPS, Entries

from .rest import substituted
from .slices import other_layout

#: The least square of a sine that shows its factor.
_TOLD = 0.1
#: The row, column and sign of cos and of sin, in a row that is that of a rotation, or its mirror.
_PLACES = (((0, 0, 1), (0, 1, -1)), ((1, 1, 1), (1, 0, 1)), ((0, 0, 1), (0, 1, 1)))


@dataclass(frozen=True)
class _Map:
    """A map that all measured pairs have, and where its cos and sin are."""

    text: str
    entries: Entries
    remedy: str
    cos: tuple[int, int, float]
    sin: tuple[int, int, float]
    code: str = "not-a-rotation"


def diagnose(run: Run, access: Access, encoding: Rotary, measured: Measured) -> Found | None:
    """Report a wrong map of all pairs and the mistakes in its pairs and angles.

    Return the map with the measured angles, or None if there is no such map.
    """
    if not isinstance(encoding, RoPE) or not measured.pairs or measured.odd or measured.scaled:
        return None
    if 2 * len(measured.pairs) != encoding.rotary_dim or encoding.depends_on_length:
        return None
    best: tuple[int, _Map, Tables, Phases] | None = None
    for one in _maps(run, measured):
        tables = _tables(access, measured, one, encoding.attention_factor())
        phases = unwrap(tables, run.coarse)
        w = encoding.sign * phases.frequencies
        found = explain(w, phases.sigma, declare(encoding).schedule)
        rank = sum(1 if likely(e) else 2 for e in found)
        named = phases.linear and all(e.code != "frequency-spacing" for e in found)
        if named and (best is None or rank < best[0]):
            best = rank, one, tables, phases
    if best is None:
        return None
    _, one, tables, phases = best
    p = measured.pairs[0]
    where = f"the 2 x 2 blocks of all pairs, such as channels {p.a} and {p.b}"
    run.add(one.code, one.text, where, remedy=one.remedy, values={"measured": one.text})
    other_layout(run, encoding, measured)
    declared = declare(encoding)
    seen = diagnose_phases(run, tables, phases, declared)
    if seen is None:
        return None
    turned = substituted(run, measured, tables, declared, seen)
    return FoundMap(
        turned.head_dim, turned.channels, turned.measured, turned.size, turned.offset, one.entries,
        one.cos[0],
    )  # fmt: skip


def _maps(run: Run, measured: Measured) -> Iterator[_Map]:
    """Yield the known wrong maps that all pairs have at all measured positions."""
    if (one := _uneven(run, measured)) is not None:
        yield one
    got, at = measured.blocks[1:], measured.positions[1:]
    slack = 4 * run.budget * ROUNDOFF[run.coarse] * (1 + np.abs(got).max())
    for text, entries, remedy in MAPS:
        for cos, sin in _PLACES:
            c, s = (got[..., i, j] * by for i, j, by in (cos, sin))
            m = run.encoding.attention_factor()
            of = np.stack(np.broadcast_arrays(*entries(c / m, s / m)), axis=-1).reshape(got.shape)
            whole = np.abs(np.hypot(c, s) / m - 1) <= slack
            if at.size and whole.all() and (np.abs(got / m - of) <= slack).all():
                yield _Map(text, entries, remedy, cos, sin)
                break


def _uneven(run: Run, measured: Measured) -> _Map | None:
    """Return the map by cos and sin that have different factors, if all measured pairs have it.

    Cos at position 0 is its factor; that of sin follows from the sum of the squares.
    """
    got, m = measured.blocks, run.encoding.attention_factor()
    if measured.positions[0]:
        return None
    a = float(np.median(got[0, :, 0, 0]))
    if not a > FACTOR_SLACK or (np.abs(got[..., 0, 0]) > a * (1 + FACTOR_SLACK)).any():
        return None
    rest = 1 - (got[..., 0, 0] / a) ** 2
    told = rest > _TOLD
    b = float(np.median(np.abs(got[..., 1, 0][told]) / np.sqrt(rest[told]))) if told.any() else 0.0
    if not b > FACTOR_SLACK or abs(a - b) <= FACTOR_SLACK * abs(m):
        return None
    cos, sin = got[..., 0, 0] * (m / a), got[..., 1, 0] * (m / b)
    slack = 4 * run.budget * ROUNDOFF[run.coarse] * (1 + np.abs(got).max())
    same = np.abs(got[..., 0, 0] - got[..., 1, 1]) + np.abs(got[..., 0, 1] + got[..., 1, 0])
    if (same > slack).any() or (np.abs(np.hypot(cos, sin) / m - 1) > slack).any():
        return None
    return _Map(
        two_factors(a, b, m),
        lambda c, s: (a / m * c, -b / m * s, b / m * s, a / m * c),
        factor_remedy(run.encoding),
        (0, 0, m / a),
        (1, 0, m / b),
        declare(run.encoding).amplitude_code,
    )


def _tables(access: Access, measured: Measured, one: _Map, m: float) -> Tables:
    """Return a function that measures cos and sin of every pair in the entries of the map."""
    out = np.array([[p.out_a, p.out_b] for p in measured.pairs]).T
    read = np.array([[p.a, p.b] for p in measured.pairs]).T

    def tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = {}
        for j in {one.cos[1], one.sin[1]}:
            x = unit_pairs((1, 1, positions.size, access.dim), read[j])
            rows[j] = access.rows(x, positions)[0, 0]
        cos, sin = (by * rows[j][:, out[i]] for i, j, by in (one.cos, one.sin))
        return cos, sin

    return tables
