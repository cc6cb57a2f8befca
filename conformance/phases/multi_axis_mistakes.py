"""Frequencies of known mistakes in encodings with several position axes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

import numpy as np

from posenc_ref import MixedRoPE, MultiAxisRoPE, RoPE
from posenc_ref.multi_axis import SPACINGS

from .frequencies import PUBLISHED_BASES, FrequencyMistake, half_precision
from .schedule_mistakes import scaling_mistakes


def multi_axis_exponents(encoding: MultiAxisRoPE) -> Iterator[FrequencyMistake]:
    """Yield doubled and halved exponents, tried after bases that give the same frequencies."""
    w, scale = encoding.frequencies(), encoding.position_scale
    for what, power, remedy in (
        ("doubled", 2.0, "Halve the exponent."),
        ("halved", 0.5, "Double the exponent: divide 2k by the channels of the axis's own section, "
         "not by those of the whole head."),
    ):  # fmt: skip
        if isinstance(scale, float) and encoding.scaling is None:
            shape = scale * (w / scale) ** power
            text = f"the exponent of the frequencies is {what}"
            yield FrequencyMistake("exponent", text, shape, remedy=remedy)


def multi_axis_mistakes(encoding: MultiAxisRoPE) -> Iterator[FrequencyMistake]:
    """Yield mistakes in the spacing, base or scale of a multi-axis encoding."""
    yield from _spacings(encoding)
    if encoding.spacing == "strided":
        count = len(encoding.sections)
        steps = (count - 1 - 2 * encoding.axes()) / sum(encoding.sections)
        yield FrequencyMistake(
            "frequency-spacing",
            "the axes take their frequencies in the reverse order: the last axis has the fastest",
            encoding.frequencies() * np.asarray(encoding.base) ** -steps,
        )
    if encoding.spacing == "global":
        falling, axes = np.sort(encoding.frequencies())[::-1], encoding.axes()
        yield FrequencyMistake(
            "frequency-spacing",
            "every axis starts again at the first frequency: pair k of each axis has the k-th of "
            "all frequencies",
            falling[[int((axes[:i] == axes[i]).sum()) for i in range(axes.size)]],
            remedy="Cut one list of frequencies into the sections: do not take the first ones for "
            "every axis.",
        )
    yield from _handed_out(encoding)
    yield from _exchanged_bases(encoding)
    yield from _other_bases(encoding)
    yield from _denominators(encoding)
    if encoding.scaling is not None and encoding.spacing == "global":
        # All pairs share one schedule, so the mistakes are those of a single axis.
        assert isinstance(encoding.base, float)
        flat = RoPE(
            encoding.rotary_dim, layout="half", base=encoding.base, scaling=encoding.scaling
        )
        scale = encoding.frequencies() / flat.frequencies()
        for found in scaling_mistakes(flat):
            yield replace(found, predicted=found.predicted * scale)
    elif encoding.scaling is not None:
        plain = encoding.replace(scaling=None).frequencies()
        text = f"the declared scaling is missing: {encoding.scaling!r}"
        yield FrequencyMistake("scaling-missing", text, plain)
        yield from _other_scaling(encoding)
    if encoding.position_scale != 1.0:
        plain = encoding.replace(position_scale=1.0).frequencies()
        text = f"positions are not multiplied by the declared {encoding.position_scale}"
        remedy = f"Multiply positions by {encoding.position_scale} first."
        yield FrequencyMistake("position-scale", text, plain, remedy=remedy)
    d = encoding.rotary_dim
    if encoding.head_dim != d and encoding.scaling is None and encoding.position_scale == 1.0:
        yield FrequencyMistake(
            "denominator",
            f"exponents are divided by head_dim = {encoding.head_dim}, not {d}",
            encoding.frequencies() ** (d / encoding.head_dim),
            remedy=f"Divide by {d}, the channels of all sections, not by {encoding.head_dim}.",
        )


def base_and_another(
    encoding: MultiAxisRoPE,
) -> Iterator[tuple[FrequencyMistake, FrequencyMistake]]:
    """Yield another published base of all axes, with a mistake in the exponents beside it."""
    declared = encoding.base
    if not isinstance(declared, float):
        return
    for base in (base for base in PUBLISHED_BASES if base != declared):
        changed = encoding.replace(base=base)
        one = FrequencyMistake(
            "base",
            f"the base is {base:.10g}, declared {declared:.10g}",
            changed.frequencies(),
            {"declared": declared, "measured": base},
            remedy=f"Use the base {declared:.10g}.",
        )
        for of in (_spacings, _denominators, multi_axis_exponents, _handed_out):
            for other in of(changed):
                yield one, other


def _spacings(encoding: MultiAxisRoPE) -> Iterator[FrequencyMistake]:
    """Yield the other spacings, on all axes and on one axis."""
    for spacing in SPACINGS:
        if spacing != encoding.spacing:
            try:
                other = encoding.replace(spacing=spacing)
            except ValueError:
                continue
            text = f"frequencies are spaced as with spacing={spacing!r}, declared "
            text += f"{encoding.spacing!r}"
            remedy = f"Give the pairs their exponents by the {encoding.spacing!r} spacing."
            predicted = other.frequencies()
            yield FrequencyMistake("frequency-spacing", text, predicted, remedy=remedy)
            yield from _on_one_axis(encoding, "frequency-spacing", text, predicted, remedy)


def _handed_out(encoding: MultiAxisRoPE) -> Iterator[FrequencyMistake]:
    """Yield the declared frequencies, given to the pairs in another order."""
    w, axes = encoding.frequencies(), encoding.axes()
    falling = np.sort(w)[::-1]
    count = len(encoding.sections)
    orders = [
        (
            f"axis by axis, in the order of axes {order}",
            np.concatenate([np.flatnonzero(axes == axis) for axis in order]),
        )
        for order in permutations(range(count))
    ]
    orders.append(("to the pairs in order", np.arange(w.size)))
    for text, order in orders:
        for way, given in (("fastest", falling), ("slowest", falling[::-1])):
            other = np.empty_like(w)
            other[order] = given
            if np.array_equal(other, w):
                continue
            yield FrequencyMistake(
                "frequency-spacing",
                f"the frequencies are the declared ones, but handed out {text}, the {way} first",
                other,
                remedy="Give every pair its own frequency: order the frequencies as the pairs.",
            )


def _other_scaling(encoding: MultiAxisRoPE) -> Iterator[FrequencyMistake]:
    """Yield the scaling on other axes than declared, and other parameters of it."""
    count = len(encoding.sections)
    scaled = encoding.scaled_axes or tuple(range(count))
    shown = "axis " + " and ".join(map(str, scaled))
    for axes in (None, *((a,) for a in range(count))):
        if axes != encoding.scaled_axes:
            try:
                other = encoding.replace(scaled_axes=axes).frequencies()
            except ValueError:
                continue
            where = "every axis" if axes is None else f"axis {axes[0]}"
            text = f"the scaling changes the frequencies of {where}, declared {shown}"
            remedy = f"Apply {encoding.scaling!r} to the pairs of {shown} only."
            yield FrequencyMistake("scaling-formula", text, other, remedy=remedy)
    bases = encoding.base if isinstance(encoding.base, tuple) else (encoding.base,) * count
    w = encoding.frequencies()
    for axis in scaled:
        own = encoding.axes() == axis
        d = 2 * encoding.sections[axis]
        flat = RoPE(d, layout="half", base=bases[axis], scaling=encoding.scaling)
        scale = w[own] / flat.frequencies()
        for found in scaling_mistakes(flat):
            predicted = w.copy()
            predicted[own] = found.predicted * scale
            message = found.message if len(scaled) == 1 else f"{found.message}, on axis {axis}"
            yield replace(found, message=message, predicted=predicted)


def _on_one_axis(
    encoding: MultiAxisRoPE, code: str, message: str, predicted: np.ndarray, remedy: str
) -> Iterator[FrequencyMistake]:
    """Yield the same mistake for the pairs of one axis only."""
    for axis in range(len(encoding.sections)):
        own = encoding.axes() == axis
        yield FrequencyMistake(
            code,
            f"{message}, for the pairs of axis {axis} only",
            np.where(own, predicted, encoding.frequencies()),
            remedy=f"{remedy[:-1]}, on axis {axis} too.",
        )


def _exchanged_bases(encoding: MultiAxisRoPE) -> Iterator[FrequencyMistake]:
    """Yield the declared bases in another order."""
    bases = encoding.base
    if not isinstance(bases, tuple):
        return
    for changed in dict.fromkeys(permutations(bases)):
        if changed != bases:
            one = len(bases) == 2
            text = f"the bases of the axes are {_listed(changed)}, declared {_listed(bases)}: they "
            yield FrequencyMistake(
                "base",
                text + ("are exchanged" if one else "are in another order"),
                encoding.replace(base=changed).frequencies(),
                remedy=f"Use the bases {_listed(bases)}, in the order of the axes.",
            )


def _listed(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _denominators(encoding: MultiAxisRoPE) -> Iterator[FrequencyMistake]:
    """Yield exponents that are divided by the number of pairs of another axis, or of all axes."""
    sizes = np.array(encoding.sections)
    if encoding.spacing != "restart" or encoding.scaling is not None:
        return
    axes = encoding.axes()
    own = sizes[axes]
    # theta = scale * base ** (-i/n): each power n/m has the denominator m in place of n.
    scale = np.broadcast_to(np.asarray(encoding.position_scale, np.float64), sizes.shape)[axes]
    shape = encoding.frequencies() / scale
    order = "Divide the index of a pair in its axis by the number of pairs of this axis: "
    remedy = f"{order}{', '.join(map(str, sizes))} for axes 0 .. {sizes.size - 1}."
    for words, other in (
        *((f"of axis {a}, {n},", n) for a, n in enumerate(sizes.tolist())),
        (f"of all axes, {sizes.sum()},", int(sizes.sum())),
        *((f"{more:+d}", own + more) for more in (-1, 1)),
    ):
        for axis in (None, *range(sizes.size)):
            here = np.ones(own.shape, bool) if axis is None else axes == axis
            n = np.where(here, other, own)
            if (n == own).all() or (n <= 0).any():
                continue
            which = "each axis" if axis is None else f"axis {axis}"
            text = f"the exponent of pair i of {which} is divided by the number of pairs {words} "
            if isinstance(other, np.ndarray):
                text = f"the exponent of pair i of {which} is divided by its pairs {words}, "
            yield FrequencyMistake(
                "denominator", f"{text}not by its own", scale * shape ** (own / n), remedy=remedy
            )


def _other_bases(encoding: MultiAxisRoPE) -> Iterator[FrequencyMistake]:
    """Yield the bases of other axes, and published ones on one axis."""
    count = len(encoding.sections)
    bases = encoding.base if isinstance(encoding.base, tuple) else (encoding.base,) * count
    for axis in range(count):
        for base in dict.fromkeys([*bases, *PUBLISHED_BASES]):
            if base == bases[axis]:
                continue
            changed = (*bases[:axis], base, *bases[axis + 1 :])
            try:
                predicted = encoding.replace(base=changed).frequencies()
            except (ValueError, TypeError):
                return
            yield FrequencyMistake(
                "base",
                f"the base of axis {axis} is {base:g}, declared {bases[axis]:g}",
                predicted,
                {"declared": bases[axis], "measured": base},
                remedy=f"Use the base {bases[axis]:g} for axis {axis}, not {base:g}.",
            )


def mixed_mistakes(encoding: MixedRoPE) -> Iterator[FrequencyMistake]:
    """Yield mistakes in the weights (A, P), which are seen at positions equal on all axes."""
    weight = np.asarray(encoding.weight)
    count, pairs = weight.shape
    for name, rounded in half_precision(weight):
        yield FrequencyMistake(
            "angle-precision",
            f"the weights are rounded to {name}",
            rounded.sum(axis=0),
            remedy=f"Keep the weights in float32, not in {name}, and cast results only.",
        )
    k = np.arange(pairs)
    places = (
        ("", k >= 0), (f", in pairs from {pairs // 2} on", k >= pairs // 2),
        (f", in pairs up to {pairs // 2 - 1}", k < pairs // 2),
        (", in odd pairs", k % 2 == 1), (", in even pairs", k % 2 == 0),
    )  # fmt: skip
    sums = " + ".join(f"p_{a} weight[{a}, k]" for a in range(count))
    remedy = f"Turn every pair k by {sums}."
    for axis in range(count):
        for where, here in places:
            for code, words, factor in (
                ("sign", "is subtracted, not added", -1.0),
                ("sections", "is left out", 0.0),
                ("position-scale", "is added twice", 2.0),
            ):
                changed = np.array(weight)
                changed[axis, here] *= factor
                text = f"the angle of axis {axis} {words}{where}"
                yield FrequencyMistake(code, text, changed.sum(axis=0), remedy=remedy)
