"""Diagnose the position axis of each pair in recorded tensors."""

from __future__ import annotations

from itertools import chain, permutations

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.declaration import live, nonzero_frequencies
from posenc_ref.conformance.rotary.judge_axes import declared_axes
from posenc_ref.conformance.rotary.sections import arrangements, report_sections

from .angles import Angles
from .measure import Tokens


def follow(angles: Angles, of: Tokens, encoding: Rotary) -> Angles:
    """Return the angles with the positions of the axis that each pair is declared to follow."""
    if encoding.axes() is None or angles.map.shape[1] != declared_axes(encoding).size:
        return angles
    return Angles(angles.map, angles.valid, of.positions[declared_axes(encoding)].T, angles.dtype)


def followed(angles: Angles, of: Tokens, encoding: Rotary) -> np.ndarray:
    """Return which axes (A, pairs) give the angles of each pair, with the declared frequencies."""
    w = nonzero_frequencies(encoding)
    found = []
    for p in of.positions:
        expected = (p[:, None] + encoding.offset) * w * encoding.sign
        off = np.abs(np.angle(angles.map * np.exp(-1j * expected)))
        slack = BUDGET[angles.dtype] * (
            2 * ROUNDOFF[angles.dtype] + ROUNDOFF["float32"] * np.abs(expected)
        )
        found.append(((off <= slack) | ~angles.valid).all(axis=0))
    return np.array(found)


def diagnose(run: Run, encoding: Rotary, angles: Angles, of: Tokens) -> bool:
    """Report pairs that follow another axis than declared; return whether there are any.

    Several axes explain a pair that is slow, or whose axes have the same positions. Such a pair is
    taken to follow a known arrangement that explains all pairs, or else its declared axis.
    """
    if encoding.axes() is None:
        return False
    wanted, pairs = declared_axes(encoding), np.arange(angles.map.shape[1])
    fits = followed(angles, of, encoding)
    mine = fits[wanted, pairs]
    if mine.all() or not fits.any(axis=0).all():
        return False
    orders = (np.array(order)[wanted] for order in permutations(range(encoding.num_axes)))
    one = (np.full(wanted.size, axis) for axis in range(encoding.num_axes))
    known = (live(encoding, (axes,))[0] for _, axes in arrangements(encoding))
    fitting = (a for a in chain(orders, known, one) if fits[a, pairs].all())
    chosen = next(fitting, np.where(mine, wanted, np.argmax(fits, axis=0)))
    follows = np.arange(encoding.num_axes)[:, None] == chosen
    return report_sections(run, encoding, follows, wanted)


def unknown(of: Tokens, encoding: Rotary) -> str:
    """Return a sentence if axes have the same positions in every token, so that pairs may mix."""
    if encoding.axes() is None:
        return ""
    same = [
        f"{a} and {b}"
        for a in range(encoding.num_axes)
        for b in range(a + 1, encoding.num_axes)
        if np.array_equal(of.positions[a], of.positions[b])
    ]
    if not same:
        return ""
    return (
        f"axes {', '.join(same)} have the same position in every token (text only): which of them "
        "a pair follows is not judged"
    )
