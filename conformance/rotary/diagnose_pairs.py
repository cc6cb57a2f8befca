"""Diagnose single pairs: which pairs rotate, and how their norm changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance.harness.plural import plural, ranges
from posenc_ref.conformance.harness.run import Run, largest
from posenc_ref.conformance.phases import factor_mistakes
from posenc_ref.conformance.phases.angle_step import other_pairs
from posenc_ref.conformance.phases.declaration import declare, live, nonzero_frequencies
from posenc_ref.conformance.phases.measure import Measured
from posenc_ref.conformance.phases.rounding_model import fitted_frequencies

from .wrong_rotations import pairs_of

#: Surfaces whose results are no q and k of one product: cached keys, and gradients.
ONE_TENSOR = ("shift_keys", "key_cache", "apply_vjp")
#: What another order of the results changes, and what it does not.
LOGITS = (
    " If q and k are both permuted{}, the logits equal the declared ones; cached keys and tensors "
    "do not."
)


def not_proportional(run: Run, encoding: Rotary, measured: Measured, rotated: set[int]) -> bool:
    """Report a wrong form of Proportional scaling; return whether there is one.

    Either all pairs rotate, or as many as declared, in another layout.
    """
    every = {int(c) for c in np.concatenate(encoding.pairs())}
    turning = int(np.count_nonzero(encoding.frequencies()))
    evidence = f"{len(rotated)} channels are rotated, declared {2 * turning}"
    if rotated == every:
        text = "every pair is rotated: the declared Proportional scaling is missing"
        remedy = f"Rotate the first {turning} pairs only: the other frequencies are 0."
        run.add("scaling-missing", text, evidence, equivalent=("proportional",), remedy=remedy)
        return True
    if [(p.a, p.b) for p in measured.pairs] == [(k, k + turning) for k in range(turning)]:
        run.add(
            "proportional",
            f"the first {2 * turning} channels are rotated among themselves, not the first "
            f"{turning} pairs of the whole head",
            f"channel 0 is paired with {turning}, declared with {encoding.pairs()[1][0]}",
            equivalent=("rotary-dim",),
            remedy=f"Rotate the first {turning} pairs of the whole head, {pairs_of(encoding)}, "
            f"with {encoding.head_dim} in the exponents; the other pairs have frequency 0.",
        )
        return True
    adjacent = [(2 * k, 2 * k + 1) for k in range(turning)]
    if [(p.a, p.b) for p in measured.pairs] == adjacent:
        run.add(
            "layout",
            f"pairs are interleaved, declared {getattr(encoding, 'layout', '')}",
            evidence,
            equivalent=("rotary-dim",),
            remedy=f"Rotate the first {turning} of the pairs {pairs_of(encoding)}.",
        )
        return True
    return False


#: Returns the four entries of the map of a pair, row by row, from cos and sin.
Entries = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, ...]]
#: Wrong maps of a pair by cos c and sin s: a message, the map and the remedy.
RIGHT = "Compute y1 = x1 cos - x2 sin and y2 = x2 cos + x1 sin, both from x1 and x2 as passed"
MAPS: tuple[tuple[str, Entries, str], ...] = (
    ("the second channel is computed from the first one's result, which has overwritten it",
     lambda c, s: (c, -s, s * c, c - s * s), f"{RIGHT}: keep x1 until y2 is computed."),
    ("the first channel is computed from the second one's result, which has overwritten it",
     lambda c, s: (c - s * s, -s * c, s, c), f"{RIGHT}: keep x2 until y1 is computed."),
    ("both channels add their sine term: the map is not a rotation",
     lambda c, s: (c, s, s, c), f"{RIGHT}: the sine is subtracted in y1."),
    ("both channels subtract their sine term: the map is not a rotation",
     lambda c, s: (c, -s, -s, c), f"{RIGHT}: the sine is added in y2."),
    ("the sine term of the first channel is missing", lambda c, s: (c, 0 * s, s, c),
     f"{RIGHT}."),
    ("the sine term of the second channel is missing", lambda c, s: (c, -s, 0 * s, c),
     f"{RIGHT}."),
    ("the second channel has its own sine and the first one's cosine: x1 and x2 are exchanged in "
     "y2", lambda c, s: (c, -s, c, s), f"{RIGHT}."),
    ("the sine term of both channels takes the channel itself, not the other one of the pair",
     lambda c, s: (c - s, 0 * s, 0 * s, c + s), f"{RIGHT}: rotate_half(x) is (-x2, x1)."),
    ("y2 has the opposite sign", lambda c, s: (c, -s, -s, -c), f"{RIGHT}."),
    ("y1 has the opposite sign", lambda c, s: (-c, s, s, c), f"{RIGHT}."),
    ("pairs are reflected, not rotated: y1 = x1 cos + x2 sin, y2 = x1 sin - x2 cos",
     lambda c, s: (c, s, s, -c), f"{RIGHT}."),
)  # fmt: skip


def _wrong_map(run: Run, encoding: Rotary, measured: Measured) -> bool:
    """Report a known wrong map of the pairs at the declared angles; return whether it is one."""
    if encoding.num_axes > 1:
        return False
    cos, sin = (live(encoding, (t.T,))[0].T for t in encoding.cos_sin(measured.positions[1:]))
    got = measured.blocks[1:]
    sin = encoding.sign * sin
    if got.shape[:2] != cos.shape:
        return False
    slack = 4 * run.budget * ROUNDOFF[run.coarse] * (1 + measured.positions[1:, None, None, None])

    def follow(entries: Callable[..., Any]) -> np.ndarray:
        """Return which pairs have these entries at every position."""
        of = np.stack(entries(cos, sin), axis=-1).reshape(got.shape)
        return np.asarray((np.abs(got - of) <= slack).all(axis=(0, 2, 3)))

    right = follow(lambda c, s: (c, -s, s, c))
    for text, entries, remedy in (*MAPS, *_expanded(encoding)):
        wrong = follow(entries)
        if (wrong | right).all() and not right.all():
            pairs, slow = np.flatnonzero(~right), np.flatnonzero(wrong & right)
            p = measured.pairs[pairs[0]]
            if not wrong.all() or slow.size:
                text = f"{text}, only in pairs {ranges(pairs.tolist())}"
            if slow.size:
                text = f"{text} (of {ranges(slow.tolist())} it cannot be told)"
            where = f"the 2 x 2 blocks of all pairs, such as channels {p.a} and {p.b}"
            values = {"measured": text} if wrong.all() else {}
            run.add("not-a-rotation", text, where, remedy=remedy, values=values)
            return True
    return False


def _expanded(encoding: Any) -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Yield maps whose cosines, or sines, are repeated for the channels of another layout."""
    layout = getattr(encoding, "layout", "")
    if layout not in ("half", "interleaved"):
        return
    half = layout == "half"

    def other(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the entries (n, P) that the first and the second channel of each pair get."""
        n = t.shape[1]
        k = np.arange(n)
        first, second = (k // 2, (k + n) // 2) if half else (2 * k % n, (2 * k + 1) % n)
        return t[:, first], t[:, second]

    def cosines(c: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, ...]:
        return other(c)[0], -s, s, other(c)[1]

    def sines(c: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, ...]:
        return c, -other(s)[0], other(s)[1], c

    repeated = "each twice in a row (t0, t0, t1, t1, ...)"
    whole = "as a whole twice (t0, t1, ..., t0, t1, ...)"
    wrong, right = (repeated, whole) if half else (whole, repeated)
    for what, others, entries in (("cosines", "sines", cosines), ("sines", "cosines", sines)):
        text = f"the {what} are repeated {wrong}, the {others} {right}, as {layout} pairs need"
        yield text, entries, f"Repeat the {what} {right}, like the {others}."


def _changing_size(run: Run, measured: Measured, size: np.ndarray) -> bool:
    """Report rotated pairs whose norm changes with the position; return whether there are any."""
    n, k = largest(np.abs(size - size[0]))
    # A smaller change may be a half-precision table, which is diagnosed later.
    if abs(size[n, k] - size[0, k]) <= BUDGET["bfloat16"] * ROUNDOFF["bfloat16"]:
        return False
    if _factor_on_one(run, measured) or _other_pairs(run, measured):
        return True
    turned = np.abs(measured.blocks[1:, k, 1, 0]).max() > 0
    run.add(
        "amplitude" if turned and _directed(run, measured) else "not-a-rotation",
        f"the size of a rotated pair changes with the position: {size[0, k]:.6g} at position "
        f"{measured.positions[1]}, {size[n, k]:.6g} at position {measured.positions[n + 1]}",
        f"pair {k}, channels {measured.pairs[k].a} and {measured.pairs[k].b}",
        remedy="Multiply pairs by cos and sin of one angle, without a factor that depends on the "
        f"position: cos ** 2 + sin ** 2 is {run.encoding.attention_factor() ** 2:.6g} everywhere.",
    )
    return True


def _directed(run: Run, measured: Measured) -> bool:
    """Return whether every pair has the declared angle, regardless of its norm."""
    encoding = run.encoding
    if encoding.num_axes > 1:
        return True
    cos, sin = (live(encoding, (t.T,))[0].T for t in encoding.cos_sin(measured.positions[1:]))
    got = measured.blocks[1:, :, 0, 0] + 1j * encoding.sign * measured.blocks[1:, :, 1, 0]
    if got.shape != cos.shape:
        return False
    return bool(np.abs(np.angle(got * (cos - 1j * sin))).max() <= 0.01)


def _other_pairs(run: Run, measured: Measured) -> bool:
    """Report cos or sin of other pairs; return whether all are by one rule."""
    encoding = run.encoding
    if encoding.num_axes > 1:
        return False
    exact = np.stack(
        [live(encoding, (t.T,))[0].T for t in encoding.cos_sin(measured.positions[1:])]
    )
    seen = np.stack([measured.blocks[1:, :, 0, 0], encoding.sign * measured.blocks[1:, :, 1, 0]])
    if seen.shape != exact.shape:
        return False
    slack = run.budget * ROUNDOFF[run.coarse] * (1 + measured.positions[1:, None])
    found = other_pairs(seen, exact, np.broadcast_to(slack, seen.shape[1:]))
    if found is not None:
        where = f"the 2 x 2 blocks of all pairs at positions {measured.positions[1:].tolist()}"
        run.add(*found[:2], where, remedy=found[2])
    return found is not None


def _factor_on_one(run: Run, measured: Measured) -> bool:
    """Report different factors on cos and sin; return whether they were found."""
    encoding = run.encoding
    m = encoding.attention_factor()
    if encoding.num_axes > 1:
        return False
    cos, sin = (live(encoding, (t.T,))[0].T / m for t in encoding.cos_sin(measured.positions[1:]))
    got = measured.blocks[1:, :, 0, 0], encoding.sign * measured.blocks[1:, :, 1, 0]
    if got[0].shape != cos.shape:
        return False
    slack = 2 * run.budget * ROUNDOFF[run.coarse] * (1 + measured.positions[1:, None])
    found = factor_mistakes.on_one(got, (cos, sin), slack, m)
    if found is None:
        return False
    text, a, b = found
    run.add(
        declare(encoding).amplitude_code,
        text,
        f"the 2 x 2 blocks of all pairs at positions {measured.positions[1:].tolist()}",
        remedy=factor_mistakes.remedy(encoding),
    )
    _without(run, measured, a, b)
    return True


def _without(run: Run, measured: Measured, a: float, b: float) -> None:
    """Report the frequencies of cos and sin without their factors a and b."""
    phases = measured.phases
    if phases is None:
        return
    at = measured.positions[1:].astype(np.float64)
    angles = np.arctan2(measured.blocks[1:, :, 1, 0] / b, measured.blocks[1:, :, 0, 0] / a)
    declared = run.encoding.sign * nonzero_frequencies(run.encoding)
    order = np.argsort(at)
    w = fitted_frequencies(at[order], angles[order], declared)
    sigma = np.full(w.shape, ROUNDOFF[run.coarse] / at.max())
    phases = replace(phases, frequencies=w, sigma=sigma)
    run.report.measured = replace(measured, phases=phases, whole=None).describe()


def wrong_blocks(run: Run, encoding: Rotary, measured: Measured) -> bool:
    """Report pairs whose map is not a rotation; return whether there are any."""
    blocks = measured.blocks[1:]
    if not measured.pairs:
        return False
    m00, m01, m10, m11 = (blocks[..., i, j] for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)))
    slack = run.budget * ROUNDOFF[run.coarse]
    if (np.abs(m00 - m11) <= slack).all() and (np.abs(m01 + m10) <= slack).all():
        return _changing_size(run, measured, np.hypot(m00, m10))
    upper, lower = np.hypot(m00, m01), np.hypot(m10, m11)
    one, two = np.arctan2(-m01[0], m00[0]), np.arctan2(m10[0], m11[0])
    # Two tables are mixed if the angles of all channels are the frequencies, each occurring twice.
    every = np.sort(np.r_[np.abs(one), np.abs(two)])
    doubled = np.sort(np.repeat(nonzero_frequencies(encoding), 2))
    both = every.size == doubled.size and np.abs(every - doubled).max() <= slack * 4
    if both and (np.sign(one) == np.sign(two)).all() and (np.abs(upper - lower) <= slack).all():
        k = int(np.argmax(np.abs(one - two)))
        p = measured.pairs[k]
        run.add(
            "mixed-layout",
            f"pairs are {measured.layout() or 'irregular'}, but the two channels of a pair turn "
            "by different angles",
            f"at position 1 channel {p.out_a} turns by {one[k]:.6g} rad, channel {p.out_b} by "
            f"{two[k]:.6g} rad",
        )
        return True
    if _wrong_map(run, encoding, measured):
        return True
    n, k = largest(np.abs(m00 - m11) + np.abs(m01 + m10))
    p = measured.pairs[k]
    run.add(
        "not-a-rotation",
        "the map of a pair is not a rotation times a factor",
        f"channels {p.a}, {p.b} at position {measured.positions[n + 1]}: "
        f"[[{m00[n, k]:.4g}, {m01[n, k]:.4g}], [{m10[n, k]:.4g}, {m11[n, k]:.4g}]]",
        remedy=f"{RIGHT}: the map of every pair is [[cos, -sin], [sin, cos]] of one angle.",
    )
    return True


def exchanged_results(run: Run, measured: Measured) -> bool:
    """Report pairs whose two results are exchanged; return whether there are any."""
    found = [p for p in measured.pairs if (p.a, p.b) == (p.out_b, p.out_a)]
    if not found:
        return False
    p, every = found[0], len(found) == len(measured.pairs)
    some = "" if every else f" in {plural(len(found), 'pair', 'pairs')}"
    run.add(
        "output-layout",
        f"the two results of a pair are exchanged{some}: each is written to the other's channel",
        f"channels {p.a} and {p.b} come out at {p.out_a} and {p.out_b}",
        remedy=f"Write each result to the channel it was read from, such as {p.a} and {p.b}."
        + LOGITS.format(" so") * (run.report.surface not in ONE_TENSOR),
    )
    return True


def reordered(found: set[tuple[int, int]]) -> str:
    """Return what the pairs are after another order of the channels, in words, if it is a view.

    A view as (r, c) is transposed by code that changes one layout into the other; here it was not
    the right one.
    """
    channels = np.sort(np.ravel(list(found)))
    d = channels.size
    if not d or (np.diff(channels) != 1).any():
        return ""
    pairs = {frozenset(pair) for pair in found}
    for rows in (r for r in range(2, d) if d % r == 0):
        order = channels.reshape(rows, -1).T.ravel()
        for layout, (a, b) in (("half-split", (order[: d // 2], order[d // 2 :])),
                               ("interleaved", (order[::2], order[1::2]))):  # fmt: skip
            if {frozenset(map(int, pair)) for pair in zip(a, b, strict=True)} == pairs:
                view = f"({rows}, {d // rows})"
                return f": they are {layout} after the channels are viewed as {view} and transposed"
    return ""
