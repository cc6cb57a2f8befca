"""Diagnose the structure of a rotation: its pairs, its channels, and the map of every pair."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from posenc_ref import MultiAxisRoPE, Proportional, RoPE, Rotary
from posenc_ref.accuracy import FACTOR_SLACK
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.plural import plural, ranges
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth
from posenc_ref.conformance.phases.declaration import live, nonzero_frequencies
from posenc_ref.conformance.phases.frequencies import agree
from posenc_ref.conformance.phases.measure import Measured

from . import turned
from .diagnose_pairs import (
    LOGITS,
    ONE_TENSOR,
    exchanged_results,
    not_proportional,
    wrong_blocks,
)
from .wrong_rotations import rotate_pairs

#: Largest finite float16.
_FLOAT16_MAX = 65504.0
#: The most ranges of channels that a message lists.
_RANGES = 6


def _token_index(run: Run, encoding: Rotary) -> bool:
    """Report a function whose calls of single tokens all have position 0; return whether it does.

    Where positions must be contiguous, each measured position is a call of one token.
    """
    at = np.array([9, 10, 11, 12])
    x = run.random((1, 2, at.size, encoding.head_dim), 24)
    try:
        later, first = run.driver.apply(x, at), run.driver.apply(x, np.arange(at.size))
    except (Refused, Malformed):
        return False
    if not np.array_equal(later, first) or np.array_equal(first, x):
        return False
    run.add(
        "decode-offset",
        "given positions are ignored: tokens are counted from 0 in every call",
        "positions 9..12 have the results of positions 0..3",
    )
    return True


def _turns_elsewhere(run: Run, encoding: Rotary) -> bool:
    """Return whether a call of several rows, heads or far tokens returns another array than x."""
    highest = run.ledger.highest
    calls = (((2, 3, 70), 1), ((1, 1, 9), max(highest - 8, 0)), ((1, 1, 1), highest // 3))
    for n, (size, start) in enumerate(calls):
        at = start + np.arange(size[2])
        x = run.random((*size, encoding.head_dim), 33 + n)
        if encoding.num_axes > 1:
            at = np.broadcast_to(at, (encoding.num_axes, size[0], size[2]))
        try:
            if not np.array_equal(run.driver.apply(x, at), x):
                return True
        except (Refused, Malformed):
            continue
    return False


def structure(run: Run, encoding: Rotary, measured: Measured) -> bool:
    """Diagnose pairs, slice and rotation; return whether frequencies can be compared."""
    first, second = live(encoding, encoding.pairs())
    layout = getattr(encoding, "layout", "")
    declared = {(int(a), int(b)) for a, b in zip(first, second, strict=True)}
    found = {(p.a, p.b) for p in measured.pairs}
    rotated = {c for pair in found for c in pair} | set(measured.odd)
    wanted = {c for pair in declared for c in pair}
    if wanted and not rotated and not measured.scaled:
        if _token_index(run, encoding) or _turns_elsewhere(run, encoding):
            return False
        run.add(
            "frequency-spacing",
            "nothing is rotated: every frequency is 0",
            f"all {encoding.head_dim} channels pass through at positions "
            f"{measured.positions.tolist()}",
            remedy="Rotate x by the angles of its positions; here it is returned as it was passed.",
        )
        return False
    if measured.moved:
        c, at = next(iter(measured.moved.items()))
        run.add(
            "output-layout",
            plural(
                len(measured.moved),
                "channel that is not rotated is copied to another channel",
                "channels that are not rotated are copied to other channels",
            ),
            f"channel {c} is copied to channel {at}",
            remedy=f"Return channels that are not rotated in their own places: {c} in {c}.",
        )
        return False
    if measured.scaled and not set(measured.scaled) & wanted:
        c = measured.scaled[0]
        size, m = float(measured.matrices[0, c, c]), encoding.attention_factor()
        own = m != 1.0 and abs(size - m) <= FACTOR_SLACK * m
        run.add(
            "attention-factor" if own else "amplitude",
            f"channels outside the rotary slice are multiplied by {size:.6g}"
            + (", the attention factor of the rotated ones" if own else ""),
            f"channels {measured.scaled[:6]}",
            remedy=f"Multiply the rotated channels only: return channels "
            f"{ranges(sorted(measured.scaled))} as they were passed.",
        )
        return False
    if _half_rotated(run, encoding, measured):
        return False
    if rotated != wanted:
        _slice(run, encoding, measured, rotated, wanted)
        return False
    if wrong_blocks(run, encoding, measured):
        return False
    if measured.odd:
        columns = ", ".join(map(str, measured.odd[:4]))
        text = f"channels {columns} are not rotated in pairs"
        run.add("not-a-rotation", text, _support(measured), remedy=rotate_pairs(encoding))
        return False
    if found != declared:
        other = "half" if layout == "interleaved" else "interleaved"
        got = measured.layout() or "neither layout's"
        p = next(p for p in measured.pairs if (p.a, p.b) not in declared)
        known = isinstance(encoding, RoPE) and measured.layout() == other
        at = int(np.flatnonzero((first == p.a) | (second == p.a))[0])
        run.add(
            "layout",
            f"pairs are {got}, declared {layout or 'others'}",
            f"channel {p.a} is paired with {p.b}, declared {first[at]} with {second[at]}",
            remedy=_permutation(encoding, other)
            if known and run.report.surface not in ONE_TENSOR
            else rotate_pairs(encoding),
            values={"declared": layout, "measured": got},
        )
    _output(run, encoding, measured, same_pairs=found == declared)
    return True


def _half_rotated(run: Run, encoding: Rotary, measured: Measured) -> bool:
    """Report pairs of which one channel comes out as it was passed; return whether there are any.

    The other channel of such a pair is a rotated one, made from both.
    """
    size, matrices = encoding.head_dim, measured.matrices
    still = (matrices == np.eye(size)).all(axis=(0, 2))
    one, two = live(encoding, encoding.output_pairs())
    wanted, of = np.zeros((size, size), bool), live(encoding, encoding.pairs())
    for out in (one, two):
        wanted[out, of[0]] = wanted[out, of[1]] = True
    mixed = ((matrices != 0).any(axis=0) == wanted).all(axis=1) & wanted.any(axis=1)
    half = (still[one] & mixed[two]) | (mixed[one] & still[two])
    if not half.any():
        return False
    pairs = np.r_[one[half], two[half]]
    left, turned = ([int(c) for c in np.sort(pairs[some[pairs]])] for some in (still, mixed))
    words = f"channels {ranges(left)} come out as passed, their partners {ranges(turned)} turned"
    if len(left) == 1:
        words = f"channel {left[0]} comes out as passed, its partner {turned[0]} turned"
    run.add(
        "not-a-rotation",
        f"only one channel of {plural(len(left), 'pair', 'pairs')} is rotated: {words}",
        f"output channel {left[0]} equals input channel {left[0]} at positions "
        f"{measured.positions.tolist()}",
        remedy=f"Rotate both channels of every pair: compute output {words.split(' come')[0]} too.",
    )
    return True


def _output(run: Run, encoding: Rotary, measured: Measured, same_pairs: bool) -> None:
    """Report pairs that are written to other channels than declared."""
    first, second = live(encoding, encoding.pairs())
    out1, out2 = live(encoding, encoding.output_pairs())
    wanted = {
        (int(a), int(b)): {int(c), int(d)}
        for a, b, c, d in zip(first, second, out1, out2, strict=True)
    }
    moved = any({a, b} != out for (a, b), out in wanted.items())
    if exchanged_results(run, measured):
        return
    if not same_pairs and measured.in_out() != moved:
        return  # other pairs, moved (or not moved) as declared
    wrong = [p for p in measured.pairs if wanted.get((p.a, p.b), {p.a, p.b}) != {p.out_a, p.out_b}]
    if not wrong:
        return
    p = wrong[0]
    expected = wanted.get((p.a, p.b))
    if not moved:
        read, written = measured.layout(), measured.output_layout()
        run.add(
            "output-layout",
            "pairs are written to other channels than they are read from"
            + (f": read {read}, written {written}" if read and written else ""),
            f"channels {p.a} and {p.b} come out at {p.out_a} and {p.out_b}",
            remedy=f"Write each pair back to the channels it was read from, such as {p.a} and "
            f"{p.b}." + LOGITS.format(" so") * (run.report.surface not in ONE_TENSOR),
        )
        return
    run.add(
        "output-layout",
        "pairs are not written to the declared channels",
        f"channels {p.a} and {p.b} come out at {p.out_a} and {p.out_b}"
        + (f", declared {min(expected)} and {max(expected)}" if expected else ""),
        remedy="Write each pair to the declared channels"
        + (f", {min(expected)} and {max(expected)} for this one" if expected else "")
        + ", not back to those it was read from."
        + LOGITS.format("") * (run.report.surface not in ONE_TENSOR),
    )


def _slice(
    run: Run, encoding: Rotary, measured: Measured, rotated: set[int], wanted: set[int]
) -> None:
    missing = sorted(wanted - rotated)
    half = encoding.head_dim // 2
    pairs = [(p.a, p.b) for p in measured.pairs]
    if pairs == [(k, k + half) for k in range(len(pairs))] and 2 * len(pairs) == len(wanted):
        evidence = f"channel 0 is paired with {half}, declared with {encoding.pairs()[1][0]}"
        expected, phases = nonzero_frequencies(encoding), measured.phases
        if phases is not None and agree(phases.frequencies, expected, phases.sigma).all():
            run.add(
                "layout",
                "pairs reach across the whole head, (k, k + head_dim/2), not across the slice; "
                "frequencies are those of the slice",
                evidence,
                equivalent=("proportional", "rotary-dim"),
                remedy=rotate_pairs(encoding),
            )
            return
        run.add(
            "proportional",
            f"the first {len(pairs)} pairs of the whole head are rotated, not the first "
            f"{len(wanted)} channels",
            evidence,
            equivalent=("rotary-dim",),
            remedy=f"{rotate_pairs(encoding)} Divide their exponents by {len(wanted)}, not by "
            f"{encoding.head_dim}.",
        )
        return
    scaling = getattr(encoding, "scaling", None)
    if isinstance(scaling, Proportional) and not_proportional(run, encoding, measured, rotated):
        return
    first, second = live(encoding, encoding.pairs())
    timescale = 1 / nonzero_frequencies(encoding)
    lost = {
        int(c) for c in np.r_[first[timescale > _FLOAT16_MAX], second[timescale > _FLOAT16_MAX]]
    }
    if missing and set(missing) == lost and rotated < wanted:
        run.add(
            "overflow",
            f"pairs with a timescale over {_FLOAT16_MAX:g} are not rotated: base ** x overflows "
            "float16",
            f"declared and not rotated: {_span(missing)}",
            equivalent=("angle-precision",),
        )
        return
    still = _still_axis(encoding, rotated)
    if still and turned.on_axes(run, encoding):
        return
    if still and _right_apart(run, encoding):
        text = "calls with equal positions on all axes (text) are not rotated by all of them: "
        run.add(
            "position-axis",
            text + still.removesuffix(": "),
            f"channels passed through: {len(measured.passed)}; right in a call whose positions "
            "differ between axes",
            equivalent=("rotary-dim", "sections"),
            remedy="Rotate the pairs of every axis by the position on that axis, in calls of text "
            "alone too.",
        )
        return
    more = sorted(rotated - wanted)
    if more and not missing and _zero(run, encoding, more):
        run.add(
            "rotary-dim",
            f"channels {ranges(more)}, which are not rotated, are 0 in the result",
            f"declared: {len(wanted)} of {encoding.head_dim} channels are rotated",
            remedy=f"Copy channels {ranges(more)} to the result unchanged.",
        )
        return
    other = "other " if len(rotated) == len(wanted) else ""
    run.add(
        "rotary-dim",
        f"{still}{len(rotated)} {other}channels are rotated ({_span(rotated)}), declared "
        f"{len(wanted)} ({_span(wanted)}) of {encoding.head_dim}",
        f"channels passed through: {len(measured.passed)}"
        + (f"; declared and not rotated: {_span(missing)}" if missing else ""),
        values={"declared": len(wanted), "measured": len(rotated)},
        remedy=_channels(sorted(rotated), sorted(wanted)) + _exponents(encoding, measured),
    )


def _span(channels: Collection[int]) -> str:
    """Return channels as ``first..last`` if none is left out between, else as ranges."""
    if not channels:
        return "none"
    low, high = min(channels), max(channels)
    if high - low + 1 == len(channels):
        return f"{low}..{high}" if high > low else str(low)
    parts = ranges(sorted(channels)).split(", ")
    return ", ".join(parts[:_RANGES]) + ", ..." * (len(parts) > _RANGES)


def _zero(run: Run, encoding: Rotary, channels: list[int]) -> bool:
    """Return whether these channels of a result are 0, whatever x is."""
    x = run.random((1, 2, 3, encoding.head_dim), 31)
    at = np.arange(3)
    at = at if encoding.num_axes == 1 else np.broadcast_to(at, (encoding.num_axes, 1, 3))
    try:
        return not np.any(run.driver.apply(x, at)[..., channels])
    except Refused:
        return False


def _right_apart(run: Run, encoding: Rotary) -> bool:
    """Return whether calls are right whose positions differ between the axes."""
    rng = np.random.default_rng(run.settings.seed + 29)
    for size in ((1, 2, 5), (2, 1, 7)):
        positions = rng.integers(1, 30, (encoding.num_axes, size[0], size[2]))
        x = run.random((*size, encoding.head_dim), 29)
        try:
            y = run.driver.apply(x, positions)
        except (Refused, Malformed):
            return False
        if not run.fits(y, apply_truth(encoding, x, positions)):
            return False
    return True


def _exponents(encoding: Rotary, measured: Measured) -> str:
    """Return what to do about exponents that are divided by the rotated channels, if they are."""
    phases, count = measured.phases, len(measured.pairs)
    if not isinstance(encoding, RoPE) or encoding.scaling is not None or phases is None:
        return ""
    spaced = encoding.base ** (-np.arange(count) / count)
    if phases.frequencies.size != count or 2 * count == encoding.rotary_dim:
        return ""
    if not agree(phases.frequencies, spaced, phases.sigma).all():
        return ""
    d = encoding.rotary_dim
    return f" Divide the exponents by {d}, not by {2 * count}: pair k turns by base ** (-2k/{d})."


def _still_axis(encoding: Rotary, rotated: set[int]) -> str:
    """Return words for position axes whose pairs are not rotated at all, and no others."""
    axes = encoding.axes() if isinstance(encoding, MultiAxisRoPE) else None
    if axes is None:
        return ""
    first, second = encoding.pairs()
    turned = np.isin(first, list(rotated)) & np.isin(second, list(rotated))
    still = [a for a in range(encoding.num_axes) if not turned[axes == a].any()]
    if not still or not turned[~np.isin(axes, still)].all():
        return ""
    return f"the pairs of axis {ranges(still)} are not rotated: "


def _channels(rotated: list[int], wanted: list[int]) -> str:
    """Return which channels to rotate, and which to leave."""
    missing = sorted({*wanted} - {*rotated})
    more = sorted({*rotated} - {*wanted})
    parts = [f"rotate channels {ranges(missing)} too"] * bool(missing)
    parts += [f"pass channels {ranges(more)} through unchanged"] * bool(more)
    text = ", and ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _permutation(encoding: Any, measured: str) -> str:
    d = encoding.rotary_dim
    perm = (
        "[0, d/2, 1, d/2+1, ...]" if encoding.layout == "half" else "[0, 2, 4, ..., 1, 3, 5, ...]"
    )
    return (
        f"Rotate {encoding.layout} pairs. Or keep the function and permute the weights of q and k "
        f"once, from {encoding.layout} to {measured}: posenc_ref.permute_weights(w, n_heads, "
        f"source={encoding.layout!r}, target={measured!r}"
        + (f", rotary_dim={d}" if d != encoding.head_dim else "")
        + (f", rotary_start={encoding.rotary_start}" if encoding.rotary_start else "")
        + "). Or permute the channels of q and k before the function: x[..., perm] with perm = "
        f"{perm}; the logits then equal the declared ones. Never permute v."
    )


def _support(measured: Measured) -> str:
    c = measured.odd[0]
    rows = np.flatnonzero((measured.matrices[:, :, c] != 0).any(axis=0))
    return f"input channel {c} affects output channels {[int(r) for r in rows[:6]]}"
