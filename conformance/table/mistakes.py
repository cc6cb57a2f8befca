"""What tables are known to get wrong: the declaration with one field changed.

Every change is a value of the same class, so its prediction is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from posenc_ref import (
    AxialLearned,
    BoxSine,
    DETRSine,
    FourierFeatures,
    Hybrid,
    Sinusoidal,
    Sinusoidal2D,
    Sinusoidal3D,
    StandardizedSinusoidal,
    Table,
    Time2Vec,
)

#: Temperatures that are shipped, and 100: 10000 with a halved exponent.
BASES = (10000.0, 20.0, 100.0, 1000.0, 500000.0, 2.0)
#: How many positions the first one may be off by.
ORIGINS = (1.0, -1.0, 0.5, -0.5, 2.0, -2.0)


@dataclass(frozen=True)
class Other:
    """Another table, and what is wrong with it."""

    code: str
    message: str
    table: Table


def others(declared: Table) -> Iterator[Other]:
    """Every single mistake, then axes exchanged together with one of the others."""
    single = list(_single(declared))
    yield from single
    order = [o for o in single if o.code == "axis-order"]
    if len(order) == 1 and isinstance(declared, Sinusoidal2D | DETRSine):
        for other in _single(order[0].table):
            if other.table != declared:
                message = f"{order[0].message}; {other.message}"
                yield Other(other.code, message, other.table)


def _single(declared: Table) -> Iterator[Other]:
    for code, message, make in _changes(declared):
        try:
            changed = make()
        except (TypeError, ValueError):  # not for this size
            continue
        if changed != declared:
            yield Other(code, message, changed)


Change = tuple[str, str, Callable[[], Any]]


def _changes(declared: Table) -> Iterator[Change]:
    if isinstance(declared, Sinusoidal2D | Sinusoidal3D | DETRSine | BoxSine):
        yield from _of_axes(declared)
    if isinstance(declared, Sinusoidal2D | FourierFeatures):
        yield from _placed(declared)
    if isinstance(declared, DETRSine):
        yield from _detr(declared)
    if isinstance(declared, BoxSine):
        for name, scale in (("1", 1.0), ("pi", np.pi), ("2 pi", 2 * np.pi)):
            text = f"coordinates are multiplied by {name}, declared {declared.scale:.4g}"
            yield "position-scale", text, lambda s=scale: declared.replace(scale=s)  # type: ignore[misc]
    if isinstance(declared, FourierFeatures):
        yield from _fourier(declared)
    if isinstance(declared, Time2Vec):
        yield (
            "phase-order",
            "the other of sin and cos",
            lambda: declared.replace(function="cos" if declared.function == "sin" else "sin"),
        )
        yield (
            "layout",
            "the linear component is at the other end",
            lambda: declared.replace(linear="last" if declared.linear == "first" else "first"),
        )
        yield (
            "position-origin",
            "the phases are missing",
            lambda: declared.replace(bias=np.zeros_like(declared.bias)),
        )
    if isinstance(declared, StandardizedSinusoidal):
        yield from _standardized(declared)
    if isinstance(declared, AxialLearned):
        yield from _axial(declared)
    if isinstance(declared, Hybrid):
        yield from _hybrid(declared)


def _axes_in_words(order: str, declared: str) -> str:
    """Whose columns come in which order."""
    said = {"t": "time", "h": "height", "w": "width", "x": "x", "y": "y"}

    def listed(names: str) -> str:
        return ", ".join(said.get(name, name) for name in names)

    return f"the columns come in the order {listed(order)}, declared {listed(declared)}"


def _of_axes(declared: Any) -> Iterator[Change]:
    def to(**fields: Any) -> Callable[[], Any]:
        return lambda: declared.replace(**fields)

    for order in map("".join, permutations(declared.axes)):
        yield "axis-order", _axes_in_words(order, declared.axis_order), to(axis_order=order)
    if not isinstance(declared, DETRSine | BoxSine):
        for layout in ("concat", "interleaved", "grouped"):
            yield "layout", f"columns are {layout}, declared {declared.layout}", to(layout=layout)
        for first in ("sin", "cos"):
            yield "phase-order", f"{first} comes first, declared {declared.first}", to(first=first)
        for name in ("dim", "half-1"):
            pairs = declared.parts()[0][1].dim // 2
            n = pairs if name == "dim" else pairs - 1
            text = f"the exponent of pair k of an axis is k/{n} ({name})"
            yield "denominator", text, to(denominator=name)
        pairs = declared.parts()[0][1].dim // 2
        own = declared.parts()[0][1].denominator
        n = {"dim": pairs, "half-1": pairs - 1}.get(own, own)
        yield (
            "denominator",
            "the exponent is divided as if one axis had all pairs",
            to(denominator=float(2 * n)),
        )
        yield "exponent", "the exponent is doubled", to(denominator=n / 2)
        yield "exponent", "the exponent is halved", to(denominator=2 * n)
        for m, power in ((1, "k"), (2, "2 k"), (3, "3 k")):
            text = (
                f"the exponent of pair k of an axis is {power}, to the base e: a floor division "
                "(//) has made a whole number of log(base)/n"
            )
            yield "exponent", text, to(denominator=float(pairs), base=float(np.exp(m * pairs)))
    for base in BASES:
        yield "base", f"the base is {base:g}, declared {declared.base:g}", to(base=base)


def _placed(declared: Any) -> Iterator[Change]:
    def to(**fields: Any) -> Callable[[], Any]:
        return lambda: declared.replace(**fields)

    if declared.offset:
        yield "position-origin", f"the offset {declared.offset:g} is missing", to(offset=0)
    if declared.position_scale != 1:
        yield (
            "position-scale",
            f"the factor {declared.position_scale:g} on positions is missing",
            (to(position_scale=1.0)),
        )
    for by in ORIGINS:
        text = f"positions are {abs(by):g} too {'large' if by > 0 else 'small'}"
        yield "position-origin", text, to(offset=declared.offset + by)
    for name, factor in (("2 pi", 2 * np.pi), ("pi", np.pi), ("2", 2.0)):
        if isinstance(declared, FourierFeatures) and name != "2":
            continue
        text = f"positions are multiplied by {name}"
        yield "position-scale", text, to(position_scale=declared.position_scale * factor)
    if declared.scale != 1:
        yield "amplitude", f"the factor {declared.scale:g} is missing", to(scale=1.0)
    for name, factor in (("sqrt(dim)", declared.dim**0.5), ("-1", -1.0), ("2", 2.0)):
        yield "amplitude", f"values are multiplied by {name}", to(scale=declared.scale * factor)
    yield (
        "amplitude",
        "values are divided by sqrt(dim)",
        to(scale=declared.scale * declared.dim**-0.5),
    )
    if isinstance(declared, Sinusoidal2D):
        yield (
            "position-scale",
            "patches lie at 0, 1, 2...: the extent is not applied",
            to(extent=None),
        )
        turned = "rows" if declared.flatten == "columns" else "columns"
        yield (
            "token-order",
            f"patches come in {turned}, declared {declared.flatten}",
            to(flatten=turned),
        )


def _detr(declared: DETRSine) -> Iterator[Change]:
    def to(**fields: Any) -> Callable[[], Any]:
        return lambda: declared.replace(**fields)

    if declared.width_base is not None:
        text = f"the width has the base of the height, declared {declared.width_base:g}"
        yield "base", text, to(width_base=None)
    said = "not normalised" if declared.normalize else "normalised by the size"
    yield "position-scale", f"positions are {said}", to(normalize=not declared.normalize)
    for name, scale in (("1", 1.0), ("pi", np.pi), ("2 pi", 2 * np.pi)):
        text = f"normalised positions end at {name}"
        yield "position-scale", text, to(scale=scale, normalize=True)
    for by in (0.0, -0.5, -1.0, 0.5):
        text = f"the first pixel counts as {1 + by:g}, declared {1 + declared.shift:g}"
        yield "position-origin", text, to(shift=by)
    yield "phase-order", "cos comes first", lambda: Sinusoidal2D(
        declared.dim, layout="interleaved", first="cos", axis_order=declared.axis_order,
        base=declared.base,
    )  # fmt: skip
    for layout in ("concat", "grouped"):
        yield (
            "layout",
            f"columns are {layout}, DETR's are interleaved",
            lambda la=layout: (  # type: ignore[misc]
                Sinusoidal2D(
                    declared.dim, layout=la, axis_order=declared.axis_order, base=declared.base
                )
            ),
        )


def _standardized(declared: StandardizedSinusoidal) -> Iterator[Change]:
    def to(**fields: Any) -> Callable[[], Any]:
        return lambda: declared.replace(**fields)

    n, plain = declared.length, Sinusoidal(declared.dim, base=declared.base)
    every = n * declared.dim
    yield "amplitude", "rows are not standardised", lambda: plain
    yield (
        "amplitude",
        f"the deviation has {every} in its denominator, declared {every - 1}",
        to(divisor=declared.divisor * (1 - 1 / every) ** 0.5),
    )
    for divisor in (1.0, 10.0):
        text = f"rows are divided by {divisor:g} deviations, declared {declared.divisor:g}"
        yield "amplitude", text, to(divisor=divisor)
    for rows in (n - 1, n + 1):
        yield "amplitude", f"mean and deviation are of {rows} rows, declared {n}", to(length=rows)
    deviation = float(plain.table(range(n)).std(ddof=1))
    yield (
        "amplitude",
        "the mean is not taken off",
        lambda: plain.replace(scale=1 / (declared.divisor * deviation)),
    )
    for base in BASES:
        yield "base", f"the base is {base:g}, declared {declared.base:g}", to(base=base)


def _fourier(declared: FourierFeatures) -> Iterator[Change]:
    def to(**fields: Any) -> Callable[[], Any]:
        return lambda: declared.replace(**fields)

    words = {"radian": "nothing", "half-turn": "pi", "turn": "2 pi"}
    for unit, word in words.items():
        text = f"angles are multiplied by {word}, declared {words[declared.unit]}"
        yield "position-scale", text, to(unit=unit)
    for layout in ("concat", "interleaved", "grouped"):
        yield "layout", f"columns are {layout}, declared {declared.layout}", to(layout=layout)
    for first in ("sin", "cos"):
        yield "phase-order", f"{first} comes first, declared {declared.first}", to(first=first)
    for order in permutations(range(declared.num_axes)):
        text = f"coordinates are taken in the order {order}"
        yield "axis-order", text, to(matrix=declared.matrix[:, list(order)])


def _axial(declared: AxialLearned) -> Iterator[Change]:
    for order in permutations(range(len(declared.tables))):
        text = f"columns belong to the axes {order}, declared {declared.order}"
        yield "axis-order", text, lambda o=order: declared.replace(order=o)  # type: ignore[misc]


def _hybrid(declared: Hybrid) -> Iterator[Change]:
    if declared.combine == "concat":
        for order in permutations(range(len(declared.parts))):
            parts = tuple(declared.parts[i] for i in order)
            text = f"the parts come in the order {order}"
            yield "layout", text, lambda p=parts: declared.replace(parts=p)  # type: ignore[misc]
    elif len(declared.parts) == 2:
        for i in (0, 1):
            yield "amplitude", f"part {1 - i} is not added", lambda i=i: declared.parts[i]  # type: ignore[misc]
    for i, part in enumerate(declared.parts):
        inner = _sinusoid(part) if isinstance(part, Sinusoidal) else _single(part)
        for other in inner:
            parts = tuple(other.table if j == i else p for j, p in enumerate(declared.parts))
            text = f"part {i}: {other.message}"
            yield other.code, text, lambda p=parts: declared.replace(parts=p)  # type: ignore[misc]


def _sinusoid(part: Sinusoidal) -> Iterator[Other]:
    for code, fields in (
        ("phase-order", {"first": "cos" if part.first == "sin" else "sin"}),
        ("layout", {"layout": "concat" if part.layout == "interleaved" else "interleaved"}),
        ("denominator", {"denominator": "dim" if part.denominator == "half-1" else "half-1"}),
        ("position-origin", {"offset": part.offset + 1}),
        ("position-origin", {"offset": 0}),
    ):
        try:
            yield Other(code, f"{next(iter(fields))} is another", part.replace(**fields))
        except ValueError:  # not for this width
            continue
