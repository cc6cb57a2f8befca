"""Diagnose the structure of a rotation: its pairs, its channels, and the map of every pair."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import RoPE, Rotary
from posenc_ref.accuracy import FACTOR_SLACK
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.plural import plural, ranges
from posenc_ref.conformance.harness.probes import GENERIC
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.declaration import live
from posenc_ref.conformance.phases.diagnose import INDEXED
from posenc_ref.conformance.phases.measure import Measured, Pair, tables_of, unwrap

from .diagnose_pairs import (
    LOGITS,
    ONE_TENSOR,
    exchanged_results,
    reordered,
    wrong_blocks,
)
from .several.slices import of_slice
from .wrong_rotations import rotate_pairs


def _token_index(run: Run, encoding: Rotary) -> bool:
    """Report a function whose calls of single tokens all have position 0; return whether it does.

    Where positions must be contiguous, each measured position is a call of one token.
    """
    for n in INDEXED:
        x = run.random((1, 2, n, encoding.head_dim), 24)
        try:
            later, first = (run.driver.apply(x, start + np.arange(n)) for start in (9, 0))
        except (Refused, Malformed):
            return False
        if not np.array_equal(later, first) or np.array_equal(first, x):
            return False
    run.add(
        "decode-offset",
        "given positions are ignored: tokens are counted from 0 in every call",
        f"positions 9..{8 + n} have the results of positions 0..{n - 1}",
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


def with_slow_pairs(run: Run, access: Access, encoding: Rotary, measured: Measured) -> Measured:
    """Return ``measured`` with the declared pairs that turn only at farther positions.

    Angles that are cut to whole radians are 0 at the measured positions.
    """
    channels = np.stack(live(encoding, (*encoding.pairs(), *encoding.output_pairs())), axis=1)
    slow = [Pair(*map(int, row)) for row in channels if {*row} <= {*measured.passed}]
    if not slow or not measured.pairs or encoding.num_axes > 1:
        return measured
    columns = ([p.a for p in slow], [p.out_a for p in slow], [p.out_b for p in slow])
    if not tables_of(access, *columns)(access.within(GENERIC)[-4:])[1].any(axis=0).all():
        return measured
    pairs = sorted([*measured.pairs, *slow], key=lambda p: (p.a, p.b))
    still = [c for c in measured.passed if all(c not in (p.a, p.b) for p in slow)]
    found = replace(measured, pairs=pairs, passed=still)
    found.phases = unwrap(found.tables(access), run.coarse)
    return found


def structure(run: Run, encoding: Rotary, measured: Measured) -> Rotary | None:
    """Diagnose pairs, slice and rotation.

    Return the encoding with whose frequencies those of the function can be compared, or None.
    """
    first, second = live(encoding, encoding.pairs())
    layout = getattr(encoding, "layout", "")
    declared = {(int(a), int(b)) for a, b in zip(first, second, strict=True)}
    found = {(p.a, p.b) for p in measured.pairs}
    rotated = {c for pair in found for c in pair} | set(measured.odd)
    wanted = {c for pair in declared for c in pair}
    if wanted and not rotated and not measured.scaled:
        if _token_index(run, encoding) or _turns_elsewhere(run, encoding):
            return None
        run.add(
            "frequency-spacing",
            "nothing is rotated: every frequency is 0",
            f"all {encoding.head_dim} channels pass through at positions "
            f"{measured.positions.tolist()}",
            remedy="Rotate x by the angles of its positions; here it is returned as it was passed.",
        )
        return None
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
        return None
    if measured.scaled and not rotated and (factors := _factor(measured)):
        run.add(
            "frequency-spacing",
            f"nothing is rotated, and {factors}",
            f"the map of every channel at positions {measured.positions.tolist()}",
            remedy="Rotate x by the angles of its positions, and do not multiply it.",
        )
        return None
    if measured.scaled and not set(measured.scaled) & wanted:
        c = measured.scaled[0]
        size, m = float(measured.matrices[0, c, c]), encoding.attention_factor()
        if _every_channel(measured, size, m):
            run.add(
                "amplitude",
                f"every channel, rotated or not, is multiplied by {size:.6g}",
                f"channels {measured.scaled[:6]}, and the norm of every rotated pair",
                remedy=f"Divide the result by {size:.6g}: return channels that are not rotated as "
                "they were passed.",
            )
            return None
        own = m != 1.0 and abs(size - m) <= FACTOR_SLACK * m
        run.add(
            "attention-factor" if own else "amplitude",
            f"channels outside the rotary slice are multiplied by {size:.6g}"
            + (", the attention factor of the rotated ones" if own else ""),
            f"channels {measured.scaled[:6]}",
            remedy=f"Multiply the rotated channels only: return channels "
            f"{ranges(sorted(measured.scaled))} as they were passed.",
        )
        return None
    if _half_rotated(run, encoding, measured):
        return None
    if rotated != wanted:
        return of_slice(run, encoding, measured, rotated, wanted)
    if wrong_blocks(run, encoding, measured):
        return None
    if measured.odd:
        columns = ", ".join(map(str, measured.odd[:4]))
        text = f"channels {columns} are not rotated in pairs"
        run.add("not-a-rotation", text, _support(measured), remedy=rotate_pairs(encoding))
        return None
    if found != declared:
        other = "half" if layout == "interleaved" else "interleaved"
        got = measured.layout() or "neither layout's"
        p = next(p for p in measured.pairs if (p.a, p.b) not in declared)
        known = isinstance(encoding, RoPE) and measured.layout() == other
        at = int(np.flatnonzero((first == p.a) | (second == p.a))[0])
        run.add(
            "layout",
            f"pairs are {got}, declared {layout or 'others'}"
            + reordered(found) * (not measured.layout()),
            f"channel {p.a} is paired with {p.b}, declared {first[at]} with {second[at]}",
            remedy=_permutation(encoding, other)
            if known and run.report.surface not in ONE_TENSOR
            else rotate_pairs(encoding),
            values={"declared": layout, "measured": got},
        )
    _output(run, encoding, measured, same_pairs=found == declared)
    return encoding


def _factor(measured: Measured) -> str:
    """Return by what all channels that are not passed through are multiplied, in words."""
    size = measured.matrices[:, measured.scaled, measured.scaled]
    if np.ptp(size):
        return ""
    every = not measured.passed
    channels = "every channel is" if every else f"channels {ranges(sorted(measured.scaled))} are"
    return f"{channels} multiplied by {size[0, 0]:.6g}"


def _every_channel(measured: Measured, size: float, m: float) -> bool:
    """Return whether rotated pairs have this factor, too, beside the declared factor ``m``."""
    amplitude = np.hypot(measured.blocks[0, :, 0, 0], measured.blocks[0, :, 1, 0])
    same = np.abs(amplitude - m * abs(size)) <= FACTOR_SLACK * m * abs(size)
    turned = np.sign(measured.blocks[0, :, 0, 0]) == np.sign(size)
    return bool(amplitude.size and same.all() and (measured.positions[0] or turned.all()))


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
