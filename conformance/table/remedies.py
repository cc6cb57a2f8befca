"""What to change in a function whose table differs from the declared one in one field or step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from posenc_ref import (
    BoxSine,
    DETRSine,
    FourierFeatures,
    Hybrid,
    Sinusoidal,
    Sinusoidal2D,
    StandardizedSinusoidal,
)

#: The names of the axes of positions.
AXES = {"t": "time", "h": "height", "w": "width"}
_UNITS = {"radian": "1 (radians)", "half-turn": "pi", "turn": "2 pi"}


def restored(declared: Any, changed: Any) -> str:
    """Return how to get the declared table from one that differs in some fields."""
    if type(declared) is not type(changed):
        return _whole(declared)
    names = [
        one.name
        for one in fields(declared)
        if not same(getattr(declared, one.name), getattr(changed, one.name))
    ]
    if isinstance(declared, Hybrid) and names == ["parts"]:
        return _part(declared, changed)
    if isinstance(declared, FourierFeatures) and names == ["matrix"]:
        return _matrix(declared, changed)
    said = (_FIELDS[name](declared) for name in names if name in _FIELDS)
    return " ".join(dict.fromkeys(filter(None, said)))


def same(one: Any, other: Any) -> bool:
    """Return whether two values of a field are equal."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)


def _whole(declared: Any) -> str:
    """Return the remedy for a table of another class."""
    if isinstance(declared, StandardizedSinusoidal):
        return (
            f"Standardise the {declared.length} rows: subtract their mean, then divide by "
            f"{declared.divisor:g} times their standard deviation."
        )
    if isinstance(declared, Hybrid):
        return f"{'Add' if declared.combine == 'sum' else 'Concatenate'} all the declared parts."
    return columns_of(declared)


def _part(declared: Hybrid, changed: Hybrid) -> str:
    pairs = list(zip(declared.parts, changed.parts, strict=True))
    differ = [i for i, (one, other) in enumerate(pairs) if one != other]
    if len(differ) == 1:
        (i,) = differ
        return f"In parts[{i}]: {restored(*pairs[i])}"
    return f"Concatenate the parts in the order {', '.join(map(_named, declared.parts))}."


def _matrix(declared: FourierFeatures, changed: FourierFeatures) -> str:
    one, other = (sorted(map(tuple, np.asarray(e.matrix).T)) for e in (declared, changed))
    if one == other:
        return (
            "Multiply column a of the matrix with coordinate a, in the order in which the "
            "coordinates are passed."
        )
    said = [
        f"{', '.join(f'{w:.6g}' for w in column[column != 0][:4])}, ... for coordinate {axis}"
        for axis, column in enumerate(np.asarray(declared.matrix).T)
    ]
    return f"Use the declared frequencies of the bands: {'; '.join(said)}."


def _named(part: Any) -> str:
    return type(part).__name__


def columns_of(declared: Any) -> str:
    """Return the order of the columns of a table of sines and cosines."""
    one, two = ("sine", "cosine") if getattr(declared, "first", "sin") == "sin" else (
        "cosine", "sine",
    )  # fmt: skip
    layout = getattr(declared, "layout", "interleaved")
    if isinstance(declared, FourierFeatures):
        n = declared.num_axes
        each = {
            "concat": f"all {one}s come first, in the order of the rows of the matrix, then all "
            f"{two}s in the same order",
            "interleaved": f"each {one} is followed by the {two} of the same row of the matrix",
            "grouped": f"of each {n} rows of the matrix, the {n} {one}s come first, then the {n} "
            f"{two}s; then the next {n} rows follow",
        }[layout]
        extra = ", after the coordinates themselves" if declared.include_input else ""
        return f"Order the columns as declared: {each}{extra}."
    if isinstance(declared, Sinusoidal):
        each = {
            "concat": f"all {one}s come first, then all {two}s",
            "interleaved": f"column 2k is the {one} of pair k, column 2k + 1 its {two}",
        }[layout]
        zero = declared.dim % 2 and declared.odd == "zero-pad"
        return f"Order the columns as declared: {each}{', then a column of zeros' * bool(zero)}."
    each = {
        "concat": f"the columns of each axis are its {one}s, then its {two}s",
        "interleaved": f"among the columns of each axis, each {one} is followed by its {two}",
        "grouped": f"the {one}s of all axes come first, then the {two}s of all axes",
    }[layout]
    return f"Order the columns as declared: {each}."


def axes_of(declared: Any) -> str:
    """Return the order of the axes of a table in words."""
    if isinstance(declared, BoxSine):
        return ", ".join(declared.axis_order)
    return ", ".join(AXES[a] for a in declared.axis_order)


def _order(declared: Any) -> str:
    if isinstance(declared, BoxSine):
        return (
            f"Concatenate the columns of the coordinates in the order {axes_of(declared)}; the "
            f"coordinates are passed in the order {', '.join(declared.axes)}."
        )
    return (
        f"Concatenate the columns of the axes in the order {axes_of(declared)}; positions are "
        f"passed in the order {', '.join(AXES[a] for a in declared.axes)}."
    )


def exponent_of(declared: Any) -> str:
    """Return the exponent of the frequencies of a table."""
    if isinstance(declared, Sinusoidal):
        known: dict[Any, float] = {"dim": declared.dim / 2, "half-1": declared.dim // 2 - 1}
        n, of = float(known.get(declared.denominator, declared.denominator)), "pair k"
    else:
        pairs = {part.dim // 2 for _, part in declared.parts()}
        known = {"dim": min(pairs), "half-1": min(pairs) - 1}
        n = float(known.get(declared.denominator, declared.denominator))
        if len(pairs) > 1:
            less = " minus 1" if declared.denominator == "half-1" else ""
            return (
                f"Pair k of an axis has the frequency {declared.base:g} ** (-k/n), where n counts "
                f"the pairs of this axis{less}."
            )
        of = "pair k of each axis, counted within the axis,"
    return f"Give {of} the frequency {declared.base:g} ** (-k/{n:g})."


def _placed(declared: Any) -> str:
    """Return the position of which the sines and cosines are taken."""
    factor, offset = declared.position_scale, declared.offset
    what = "every coordinate v" if isinstance(declared, FourierFeatures) else "position p"
    v = what[-1]
    text = f"({v} {'+' if offset > 0 else '-'} {abs(offset):g})" if offset else v
    text = f"{factor:.6g} * {text}" if factor != 1 else text.strip("()")
    return f"Use {text} for {what}." if text != v else f"Use {what} as it is, without a factor."


def _extent(declared: Sinusoidal2D) -> str:
    if declared.extent is None:
        return "Use the patch's row and column, 0, 1, 2, ..., without scaling."
    return (
        f"Place patch i of n at i * {declared.extent:g} / n, where n is the height for rows and "
        "the width for columns."
    )


def _normalised(declared: DETRSine) -> str:
    sign = "+" if declared.shift > 0 else "-"
    count = f"(count {sign} {abs(declared.shift):g})" if declared.shift else "count"
    if not declared.normalize:
        return "Use the counts 1, 2, 3, ... of rows and columns; do not divide them by the size."
    return (
        f"Use {declared.scale:.6g} * {count} / (last count + {declared.eps:g}), where counts "
        "start at 1, rows have the height as last count and columns the width."
    )


def _scale(declared: Any) -> str:
    if isinstance(declared, DETRSine):
        return _normalised(declared)
    if isinstance(declared, BoxSine):
        return f"Multiply the coordinates by {declared.scale:.6g}, once."
    return factor_of(declared)


def factor_of(declared: Any) -> str:
    """Return the factor on the values of a table."""
    if getattr(declared, "scale", 1) == 1:
        return "Leave sines and cosines unscaled: no factor is declared."
    return f"Multiply sines and cosines alike by {declared.scale:.6g}, once."


def _divisor(declared: StandardizedSinusoidal) -> str:
    count = declared.length * declared.dim
    return (
        f"Divide by {declared.divisor:g} times the standard deviation of all {count} numbers, "
        f"which divides by {count - 1} (ddof=1, as torch.std does)."
    )


def _unit(declared: FourierFeatures) -> str:
    text = f"Multiply the product of matrix and coordinates by {_UNITS[declared.unit]}"
    if ((declared.matrix != 0).sum(axis=1) != 1).any():
        return f"{text}."
    first = np.abs(declared.matrix[declared.matrix != 0]).flat[0]
    return f"{text}; the frequency of the first band is {first:.6g}."


def _widths(declared: Any) -> str:
    each = ((AXES[declared.axes[a]], part.dim) for a, part in declared.parts())
    return ", ".join(f"{name} {n}" for name, n in each)


_FIELDS: dict[str, Callable[[Any], str]] = {
    "layout": columns_of,
    "first": columns_of,
    "axis_order": _order,
    "denominator": exponent_of,
    # Another divisor of the exponent is another base.
    "base": lambda e: (
        exponent_of(e) if isinstance(e, DETRSine | BoxSine) else f"Use the base {e.base:g}."
    ),
    "width_base": lambda e: f"Use the base {e.base:g} for the height and "
    f"{e.width_base or e.base:g} for the width.",
    "offset": _placed,
    "position_scale": _placed,
    "scale": _scale,
    "extent": _extent,
    "flatten": lambda e: "Number the patches "
    + ("row by row: row = token // width, column = token % width."
       if getattr(e, "flatten", "rows") == "rows" else
       "column by column: row = token % height, column = token // height."),
    "normalize": _normalised,
    "shift": _normalised,
    "unit": _unit,
    "sections": lambda e: f"Give the axes their own columns: {_widths(e)}.",
    "order": lambda e: "Concatenate the rows of the tables in the order "
    + ", ".join(f"tables[{a}]" for a in e.order) + ".",
    "function": lambda e: f"Use {e.function} for all components but the linear one.",
    "linear": lambda e: f"Make the linear component the {e.linear} column.",
    "bias": lambda e: f"Add the phases to the arguments: {e.function}(w t + b).",
    "divisor": _divisor,
    "length": lambda e: f"Take mean and standard deviation over {e.length} rows, 0 .. "
    f"{e.length - 1}.",
}  # fmt: skip


def row_of(offset: float) -> str:
    """Return the row of each position of a table that starts at row ``offset``."""
    row = f"p + {offset:g}" if offset else "p"
    return (
        f"Give position p row {row} of the table, for p = 0, 1, 2, ..., in the order of the tokens."
    )


def of_step(declared: Any, name: str) -> str:
    """Return the declared form of a step of the table's formula; empty if it has no words here."""
    e = declared
    if name.startswith("parts["):
        return ""
    for start, of in _STEPS.items():
        if name.startswith(start):
            return str(of(e))
    return ""


def _flat(e: Any) -> str:
    sizes = [len(t) for t in e.tables]
    rows = sizes[-1]
    if len(sizes) != 2:
        said = [
            f"p // {int(np.prod(sizes[a + 1 :]))} % {n} for tables[{a}]"
            for a, n in enumerate(sizes)
        ]
        return f"Split a flat position p into {', '.join(said)}."
    return f"Split a flat position p into p // {rows} for tables[0] and p % {rows} for tables[1]."


def _hybrid(e: Any) -> str:
    parts = " + ".join(map(_named, e.parts))
    return f"Add the parts as they are, without a factor: {parts}."


_STEPS: dict[str, Callable[[Any], str]] = {
    "the patches": _FIELDS["flatten"],
    "the position of patch i of n": _extent,
    "the split of flat positions": _flat,
    "the divisor": _normalised,
    "the shift": _normalised,
    "eps": _normalised,
    "the factor": factor_of,
    "the amplitude": factor_of,
    "the exponent": lambda e: "Give the sine and the cosine of a pair the same exponent. "
    + exponent_of(e),
    "the last column": lambda e: "Fill the last column with zeros.",
    "the column of zeros": columns_of,
    "the phase": _FIELDS["bias"],
    "the linear component": lambda e: "Leave the linear component w t + b as it is, without "
    f"{e.function} and with its phase.",
    "the coordinates": lambda e: "" if isinstance(e, BoxSine) else _placed(e),
    "the scale": _scale,
    "pi": lambda e: "Use pi in full precision, as numpy.pi has it.",
    "the encoding parts": _hybrid,
    "the sum": _hybrid,
}  # fmt: skip
