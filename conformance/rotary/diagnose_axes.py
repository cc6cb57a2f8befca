"""Diagnose the position axis of each pair, and the origin of each axis."""

from __future__ import annotations

from functools import partial

import numpy as np

from posenc_ref import MultiAxisRoPE, Rotary
from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.diagnosis.match import match
from posenc_ref.conformance.harness.driver import Refused
from posenc_ref.conformance.harness.plural import ranges
from posenc_ref.conformance.harness.probes import grid, unit_pairs
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.declaration import live, nonzero_frequencies
from posenc_ref.conformance.phases.frequencies import agree
from posenc_ref.conformance.phases.measure import Measured
from posenc_ref.conformance.phases.multi_axis_mistakes import multi_axis_mistakes

from . import turned
from .judge_axes import AxisPhases, declared_axes, measure
from .judge_crossed import crossed_apart
from .sections import assignment, report_sections
from .several import axes as several_axes
from .tokens.grid_orders import grid_orders
from .wrong_rotations import doubled


def diagnose(run: Run, encoding: Rotary, measured: Measured) -> bool:
    """Report findings about the axes; return whether there are any."""
    if encoding.axes() is None or not any(f.check == "axes" for f in run.failures):
        return False  # every pair of RoPE-Mixed follows all axes
    wanted = declared_axes(encoding)
    if len(measured.pairs) != wanted.size:
        return False
    if _order(run, encoding, measured) or _doubled(run, encoding):
        return True
    found = measure(run, encoding.num_axes, encoding.head_dim, measured.pairs, encoding.sign)
    if not found.linear:
        return turned.on_axes(run, encoding) or _torn(run, encoding, measured)
    if _offsets(run, encoding, found):
        return True
    # If a pair does not follow an axis, its cos is exactly 1 and its sin exactly 0 there.
    least = np.abs(nonzero_frequencies(encoding)).min()
    follows = np.abs(found.frequencies) > ROUNDOFF["float32"] * least
    follows |= _whole_turns(encoding, follows, wanted)
    if (follows.sum(axis=0) > 1).any() and turned.on_axes(run, encoding):
        return True
    if report_sections(run, encoding, follows, wanted):
        several_axes.diagnose(run, encoding, measured, follows, (found.frequencies, found.sigma))
        return True
    return _by_size(run, encoding, measured) or _each_axis(run, encoding, found, wanted)


def _whole_turns(encoding: Rotary, follows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return which pairs (A, pairs) follow their own axis by whole turns, which integers hide."""
    turns = nonzero_frequencies(encoding) / (2 * np.pi)
    hidden = ~follows.any(axis=0) & (np.abs(turns - np.rint(turns)) < ROUNDOFF["float32"])
    return np.asarray(hidden & (np.arange(encoding.num_axes)[:, None] == wanted))


def _doubled(run: Run, encoding: Rotary) -> bool:
    """Report cos and sin that are doubled for other pairs, if every call shows it."""
    further = partial(turned.calls_of, run, encoding, turned.FURTHER)
    calls = list(turned.calls_of(run, encoding, turned.CALLS))
    known = doubled(encoding)
    return match(run, calls, known, parts=False, whole=True, further=further) and bool(
        run.report.codes
    )


def _torn(run: Run, encoding: Rotary, measured: Measured) -> bool:
    """Report pairs whose channels, or cos and sin, follow different axes; return whether any do.

    The axis of each is found in a call whose positions differ on all axes, and must predict it.
    """
    apart = ("rolled", "(A, B, S)")  # cases in which axes have different positions
    others = [f.case for f in run.failures if f.check != "axes" and not crossed_apart(f.case)]
    if any(all(words not in case for words in apart) for case in others):
        return False
    count, wanted = encoding.num_axes, declared_axes(encoding)
    positions = np.random.default_rng(run.settings.seed).integers(1, _FAR, (count, _TOKENS))
    if not run.settings.allows(_FAR):
        positions %= 30
    first, second = (
        run.driver.apply(
            unit_pairs((1, 1, _TOKENS, encoding.head_dim), np.array(c)), positions[:, None]
        )[0, 0]
        for c in ([p.a for p in measured.pairs], [p.b for p in measured.pairs])
    )
    a, b = [p.out_a for p in measured.pairs], [p.out_b for p in measured.pairs]
    angles = (positions[..., None] + encoding.offset) * nonzero_frequencies(encoding)
    m, sign = encoding.attention_factor(), encoding.sign
    cos, sin = m * np.cos(angles), sign * m * np.sin(angles)
    slack = run.budget * ROUNDOFF[run.coarse] * (1 + np.abs(angles).max(axis=(0, 1)))
    parts = {
        "the first channel": ((cos, first[:, a]), (-sin, second[:, a])),
        "the second channel": ((sin, first[:, b]), (cos, second[:, b])),
        "cos": ((cos, first[:, a]), (cos, second[:, b])),
        "sin": ((sin, first[:, b]), (-sin, second[:, a])),
    }
    found = {}
    for name, of in parts.items():
        off = np.maximum(*(np.abs(t - seen).max(axis=1) for t, seen in of))
        own = (off <= slack)[wanted, np.arange(wanted.size)]  # the declared one, if it is possible
        if (off.min(axis=0) <= slack).all():
            found[name] = np.where(own, wanted, np.argmin(off, axis=0))
    both = [names for names in (("the first channel", "the second channel"), ("cos", "sin"))
            if all(name in found for name in names)]  # fmt: skip
    said = [
        f"{name} of pairs {ranges(at.tolist())} follows axis {axis}"
        for name in (both[0] if both else ())
        for axis in range(count)
        if (at := np.flatnonzero((found[name] == axis) & (wanted != axis))).size
    ]
    text = "the two channels of a pair follow different axes"
    run.add(
        "sections",
        f"{text}: {', '.join(said)}" if said else f"consistent with: {text}",
        "pairs are not rotated if one axis changes alone; they are if all positions are equal",
        equivalent=("mixed-layout",),
        remedy=assignment(encoding)
        + " Both channels of a pair follow its axis: assign axes to pairs, then repeat the angles "
        "for both channels.",
    )
    return True


def _seen(run: Run, encoding: Rotary, measured: Measured, positions: np.ndarray) -> np.ndarray:
    """Return cos + i sin of every pair at positions (A, S), in one call, as (S, pairs)."""
    pairs = measured.pairs
    x = unit_pairs((1, 1, positions.shape[1], encoding.head_dim), np.array([p.a for p in pairs]))
    y = run.driver.apply(x, positions[:, None])[0, 0]
    sin = encoding.sign * y[:, [p.out_b for p in pairs]]
    return np.asarray(y[:, [p.out_a for p in pairs]] + 1j * sin)


def _by_size(run: Run, encoding: Rotary, measured: Measured) -> bool:
    """Report positions that are multiplied by the size of the grid; return whether they are.

    A call of the positions 0, 1 and n - 1 on one axis is that of a grid of n.
    """
    w, axes = nonzero_frequencies(encoding), declared_axes(encoding)
    for axis in range(encoding.num_axes):
        own = (axes == axis) & (np.abs(w) <= 1)
        scales = []
        for size in _SIZES:
            positions = np.zeros((encoding.num_axes, 3), dtype=np.int64)
            positions[axis] = [0, 1, size - 1]
            try:
                seen = _seen(run, encoding, measured, positions)
            except Refused:
                return False
            scales.append(np.angle(seen[1, own] / seen[0, own]) / w[own])
        one, two = (float(np.median(s)) for s in scales)
        even = all(np.ptp(s) <= _SCALED * np.abs(s).max() for s in scales if s.size)
        if even and min(one, two) > 0 and abs(one - two) > _SCALED:
            run.add(
                "position-scale",
                f"positions of axis {axis} are scaled with the size of the grid: by {one:.6g} for "
                f"{_SIZES[0]}, by {two:.6g} for {_SIZES[1]}",
                f"calls with positions 0, 1 and n - 1 on axis {axis}, n = {_SIZES[0]} and "
                f"{_SIZES[1]}",
                remedy="Use the positions as they are passed: do not divide them by the size of "
                "the grid.",
            )
            return True
    return False


def _order(run: Run, encoding: Rotary, measured: Measured) -> bool:
    """Report a grid whose tokens are in another order; return whether they are."""
    used = _order_of(run, encoding, measured, _GRID)
    if used is None:
        return False
    height, width = _GRID
    tokens, remedy = np.arange(height * width), ""
    if (used < 0).all():
        text = "the number of a token is divided by the height of the grid, not by its width"
        remedy = "Divide the number of a token by the width of the grid: row, column = "
        remedy += "divmod(number, width)."
    elif (used != tokens).any():
        n = int(np.argmax(used != tokens))
        row, column = divmod(int(used[n]), width)
        text = f"are in another order: token {n} is at row {row}, column {column}"
        text = f"the tokens of a grid {_named_order(run, encoding, measured, used) or text}"
        remedy = "Use the positions of each token as they are passed, token by token."
    else:
        return False
    run.add("axis-order", text, f"a call of a grid of {height} x {width}", remedy=remedy)
    return True


def _order_of(
    run: Run, encoding: Rotary, measured: Measured, size: tuple[int, int]
) -> np.ndarray | None:
    """Return the cell, row by row, whose angles each token of a grid has; None if there is none.

    All are -1 if the number of a token is divided by the height.
    """
    height, width = size
    positions = grid((*[1] * (encoding.num_axes - 2), height, width))
    try:
        seen = _seen(run, encoding, measured, positions)
    except Refused:
        return None

    def angles(at: np.ndarray) -> np.ndarray:
        cos, sin = live(encoding, tuple(t.T for t in encoding.cos_sin(at)))
        return np.asarray(cos + 1j * sin).T

    off = np.abs(seen[:, None] - angles(positions)).max(axis=-1)
    used, tokens = off.argmin(axis=1), np.arange(off.shape[0])
    if off.min(axis=1).max() <= _SCALED and np.array_equal(np.sort(used), tokens):
        return np.asarray(used)
    by_height = np.concatenate([positions[:-2], np.stack(np.divmod(tokens, height))])
    return used * 0 - 1 if np.abs(seen - angles(by_height)).max() <= _SCALED else None


def _named_order(run: Run, encoding: Rotary, measured: Measured, used: np.ndarray) -> str:
    """Return the known order of the tokens of a grid, if another grid has it too."""
    for words, order in grid_orders():
        if np.array_equal(used, order(*_GRID)):
            other = _order_of(run, encoding, measured, _OTHER_GRID)
            if other is None or np.array_equal(other, order(*_OTHER_GRID)):
                return words
    return ""


def _each_axis(run: Run, encoding: Rotary, found: AxisPhases, wanted: np.ndarray) -> bool:
    """Report an axis with scaled or negated positions; return whether there is one."""
    expected = nonzero_frequencies(encoding)
    at = np.arange(wanted.size)
    w, sigma = found.frequencies[wanted, at], found.sigma[wanted, at]
    others = multi_axis_mistakes(encoding) if isinstance(encoding, MultiAxisRoPE) else ()
    if any(agree(w, other.predicted, sigma).all() for other in others):
        return False  # a single mistake explains all axes
    ratios = []
    for axis in range(encoding.num_axes):
        own = wanted == axis
        if agree(w[own], expected[own], sigma[own], 2 * np.pi).all():  # whole positions alias
            ratios.append(1.0)
            continue
        ratio = float(np.median(w[own] / expected[own]))
        if not agree(w[own], ratio * expected[own], sigma[own]).all():
            return False
        ratios.append(ratio)
    wrong = [a for a, ratio in enumerate(ratios) if ratio != 1.0]
    if not wrong or (len({ratios[a] for a in wrong}) == 1 and len(wrong) == len(ratios)):
        return False  # the same on all axes: one-axis checks show it
    first = wrong[0]
    back = ratios[first] < 0 and agree(w, np.sign(w) * expected, sigma).all()
    how = "count backwards" if back else f"are multiplied by {ratios[first]:.6g}"
    run.add(
        "sign" if back else "position-scale",
        f"positions of axis {first} {how}",
        f"ratio of measured to declared frequencies by axis: {[round(r, 6) for r in ratios]}",
        remedy=f"Use the positions of axis {first} as they are, with the sign of the others."
        if back
        else f"Multiply the positions, or the frequencies, of axis {first} by "
        f"{1 / ratios[first]:.6g}.{_shifted(encoding, ratios[first], first)}",
    )
    return True


def _shifted(encoding: Rotary, ratio: float, axis: int) -> str:
    """Return a note if the frequencies of an axis may start at a later pair instead."""
    if not isinstance(encoding, MultiAxisRoPE) or encoding.spacing != "restart" or ratio <= 0:
        return ""
    base = encoding.base
    own = float(base[axis] if isinstance(base, tuple) else base)
    by = float(-np.log(ratio) * encoding.sections[axis] / np.log(own))
    if abs(by - round(by)) > 1e-3 or not round(by):
        return ""
    return (
        f" The same numbers result if the exponents of axis {axis} start at "
        f"{round(by)}/{encoding.sections[axis]}: start them at 0."
    )


def _offsets(run: Run, encoding: Rotary, found: AxisPhases) -> bool:
    """Report axes with another origin than declared; return whether there are any."""
    follows = np.argmax(np.abs(found.frequencies), axis=0)
    w = found.frequencies[follows, np.arange(follows.size)]
    starts = {}
    for axis in range(encoding.num_axes):
        own = follows == axis
        if not own.any():
            return False
        fitting = [
            o
            for o in _ORIGINS
            if agree(
                np.angle(np.exp(1j * (found.start[own] - o * w[own]))),
                np.zeros(int(own.sum())),
                np.full(int(own.sum()), ROUNDOFF[run.coarse] * (1 + abs(o))) * run.budget,
            ).all()
        ]
        if not fitting:
            return False
        starts[axis] = fitting[0]
    wrong = [a for a, o in starts.items() if o != encoding.offset]
    if not wrong or len(wrong) == len(starts):
        return False  # the same on all axes: one-axis checks show it
    run.add(
        "position-origin",
        f"axis {wrong[0]} starts at position {starts[wrong[0]]:g}, declared {encoding.offset:g}",
        f"a call with position 0 on every axis; origins by axis {list(starts.values())}",
        values={"declared": encoding.offset, "measured": starts[wrong[0]]},
        remedy=f"Start axis {wrong[0]} at position {encoding.offset:g}, as the other axes.",
    )
    return True


#: The sizes of two grids, and a grid that can be divided into blocks of 2 x 2.
_SIZES, _GRID = (5, 9), (6, 10)
#: Another such grid.
_OTHER_GRID = (12, 8)
#: The tokens of the call that tells the axes of channels apart, and the bound of its positions.
_TOKENS, _FAR = 7, 1000
#: Differences of cos and sin, and of scales, above this one are no rounding.
_SCALED = 1e-2
#: Origins of axes that occur in code, common ones first.
_ORIGINS = (0.0, 1.0, -1.0, 0.5, -0.5, 2.0)
