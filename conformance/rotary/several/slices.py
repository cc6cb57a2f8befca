"""Diagnose a function that rotates other channels than declared, and its frequencies."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from posenc_ref import MultiAxisRoPE, Proportional, RoPE, Rotary
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.plural import ranges
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth
from posenc_ref.conformance.oracle.transforms import Leading
from posenc_ref.conformance.phases.declaration import live, nonzero_frequencies, schedule_of
from posenc_ref.conformance.phases.explain import explain, likely
from posenc_ref.conformance.phases.frequencies import agree
from posenc_ref.conformance.phases.measure import Measured
from posenc_ref.conformance.rotary import turned
from posenc_ref.conformance.rotary.diagnose_pairs import not_proportional
from posenc_ref.conformance.rotary.wrong_rotations import rotate_pairs
from posenc_ref.rope import LAYOUTS

#: Largest finite float16.
_FLOAT16_MAX = 65504.0
#: The most ranges of channels that a message lists.
_RANGES = 6


def of_slice(
    run: Run, encoding: Rotary, measured: Measured, rotated: set[int], wanted: set[int]
) -> Rotary | None:
    """Report other rotated channels; return the encoding for the frequencies, or None."""
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
            return None
        run.add(
            "proportional",
            f"the first {len(pairs)} pairs of the whole head are rotated, not the first "
            f"{len(wanted)} channels",
            evidence,
            equivalent=("rotary-dim",),
            remedy=f"{rotate_pairs(encoding)} Divide their exponents by {len(wanted)}, not by "
            f"{encoding.head_dim}.",
        )
        return None
    scaling = getattr(encoding, "scaling", None)
    if isinstance(scaling, Proportional) and not_proportional(run, encoding, measured, rotated):
        same = measured.phases is not None and 2 * len(measured.pairs) == len(wanted)
        return Leading(encoding, _first_channels(measured)) if same else None
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
        return None
    still = _still_axis(encoding, rotated)
    if still and turned.on_axes(run, encoding):
        return None
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
        return None
    more = sorted(rotated - wanted)
    if more and not missing and _zero(run, encoding, more):
        run.add(
            "rotary-dim",
            f"channels {ranges(more)}, which are not rotated, are 0 in the result",
            f"declared: {len(wanted)} of {encoding.head_dim} channels are rotated",
            remedy=f"Copy channels {ranges(more)} to the result unchanged.",
        )
        return None
    other = "other " if len(rotated) == len(wanted) else ""
    run.add(
        "rotary-dim",
        f"{still}{len(rotated)} {other}channels are rotated ({_span(rotated)}), declared "
        f"{len(wanted)} ({_span(wanted)}) of {encoding.head_dim}",
        f"channels passed through: {len(measured.passed)}"
        + (f"; declared and not rotated: {_span(missing)}" if missing else "")
        + _formula(encoding, measured),
        values={"declared": len(wanted), "measured": len(rotated)},
        remedy=_channels(sorted(rotated), sorted(wanted))
        + _rotate(encoding, measured)
        + _exponents(encoding, measured),
    )
    one = with_its_channels(encoding, measured)
    if one is not None:
        other_layout(run, encoding, measured)
    return one


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


def _rotate(encoding: Rotary, measured: Measured) -> str:
    """Return which pairs to rotate if the declared ones are not among those that are."""
    found, (a, b) = {(p.a, p.b) for p in measured.pairs}, live(encoding, encoding.pairs())
    return "" if {*zip(a, b, strict=True)} <= found else f" {rotate_pairs(encoding)}".rstrip()


def _continued(encoding: Rotary, measured: Measured) -> bool:
    """Return whether more pairs than declared turn by the declared formula, with its exponents."""
    if not isinstance(encoding, RoPE) or encoding.scaling is not None or measured.phases is None:
        return False
    w, declared = encoding.sign * measured.phases.frequencies, encoding.pairs()[0].size
    every = encoding.base ** (-np.arange(w.size) / declared)
    return w.size > declared and bool(agree(w, every, measured.phases.sigma).all())


def _formula(encoding: Any, measured: Measured) -> str:
    """Return the formula of the frequencies if more pairs than declared turn by it."""
    if not _continued(encoding, measured):
        return ""
    d, last = 2 * encoding.pairs()[0].size, len(measured.pairs) - 1
    return f"; pair k turns by {encoding.base:.10g} ** (-2k/{d}), as declared, up to k = {last}"


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


def with_its_channels(encoding: Rotary, measured: Measured) -> Rotary | None:
    """Return the declared encoding with the measured pairs; None if they have no such form.

    Other pairs may have the exponents of their own number, or those of the declared one. Those are
    taken that leave the frequencies right, or else the simplest mistake.
    """
    if not isinstance(encoding, RoPE) or measured.phases is None or measured.odd:
        return None
    w = encoding.sign * measured.phases.frequencies
    best: tuple[int, Rotary] | None = None
    for one in _forms(encoding, measured):
        found = explain(w, measured.phases.sigma, schedule_of(one))
        rank = sum(1 if likely(e) else 2 for e in found)
        if all(e.code != "frequency-spacing" for e in found) and (best is None or rank < best[0]):
            best = rank, one
    return None if best is None else best[1]


def with_its_layout(encoding: Rotary, measured: Measured) -> Rotary:
    """Return the declared encoding with the layout of the measured pairs, if that is another."""
    layout = measured.layout()
    if not isinstance(encoding, RoPE) or layout in ("", encoding.layout) or measured.odd:
        return encoding
    one = encoding.replace(layout=layout, output_layout=None)
    return one if measured.has(one) else encoding


def _first_channels(measured: Measured) -> tuple[np.ndarray, np.ndarray]:
    """Return the channels from which the measured pairs are read."""
    first, second = np.array([(p.a, p.b) for p in measured.pairs]).T
    return first, second


def _forms(encoding: RoPE, measured: Measured) -> Iterator[Rotary]:
    """Yield the declared encoding on the measured pairs, with each kind of exponents."""
    a, b = _first_channels(measured)
    if not measured.in_out() or not (encoding.frequencies() != 0).all():
        return
    for layout in LAYOUTS:
        if encoding.head_dim < a.min() + 2 * a.size:
            break
        one = encoding.replace(
            layout=layout, output_layout=None, rotary_dim=2 * a.size, rotary_start=int(a.min())
        )
        if np.array_equal(one.pairs(), (a, b)):
            yield one
            if _continued(encoding, measured):
                yield one.replace(base=encoding.base ** (a.size / encoding.pairs()[0].size))
    declared = encoding.pairs()
    n = a.size
    if n < declared[0].size:
        layouts = (encoding.replace(layout=layout, output_layout=None) for layout in LAYOUTS)
        if any(np.array_equal([c[:n] for c in one.pairs()], (a, b)) for one in layouts):
            yield Leading(encoding, (a, b))


def other_layout(run: Run, encoding: Rotary, measured: Measured) -> None:
    """Report pairs of the other layout."""
    got, layout = measured.layout(), getattr(encoding, "layout", "")
    if got in ("", layout):
        return
    p = measured.pairs[0]
    run.add(
        "layout",
        f"pairs are {got}, declared {layout}",
        f"channel {p.a} is paired with {p.b}",
        values={"declared": layout, "measured": got},
        remedy=rotate_pairs(encoding),
    )
