"""Known mistakes of tables: the declaration with one field changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, permutations
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
from posenc_ref.accuracy import Truth

#: Bases (temperatures) of released models; 100 equals 10000 with a halved exponent.
BASES = (10000.0, 20.0, 100.0, 1000.0, 500000.0, 2.0)
#: Wrong shifts of the first position.
ORIGINS = (1.0, -1.0, 0.5, -0.5, 2.0, -2.0)
#: The reason for frequencies ``exp(-m k)`` with a whole number m.
FLOORED = "a floor division (//) rounds log(base)/n to a whole number"
_TURNS = (("1", 1.0), ("pi", np.pi), ("2 pi", 2 * np.pi))
#: Numbers of columns that code for one width of a model contains.
_FEATURES = (64, 128, 256)
_LAYOUTS = ("concat", "interleaved", "grouped")

#: Returns the reference of the rows at given positions.
Rows = Callable[[np.ndarray], Truth]
#: A code, a message, and the wrong table.
Changed = tuple[str, str, Table]
#: A code, a message, and either the changed fields or a function that returns the wrong table.
Change = tuple[str, str, dict[str, Any] | Callable[[], Table]]


def looked_up(
    rows: Callable[[Any], Truth], *steps: Callable[[Any], Any]
) -> Callable[[Any], Truth | None]:
    """Return a function that applies ``steps``, then ``rows``, to the arguments of a call.

    The function returns None for positions that the table does not have.
    """

    def predict(facts: Any) -> Truth | None:
        try:
            for step in steps:
                facts = step(facts)
            return rows(facts)
        except (IndexError, OverflowError, TypeError, ValueError):
            return None

    return predict


def changed_tables(declared: Table) -> Iterator[Changed]:
    """Yield tables with one mistake."""
    forms = (of(declared) for form, of in _FORMS if isinstance(declared, form))
    return _valid(declared, chain.from_iterable(forms))


def placed_otherwise(declared: Sinusoidal) -> Iterator[Changed]:
    """Yield tables with another offset, or another factor on the positions or the rows."""
    return _valid(declared, _placed(declared))


def changed_twice(declared: Table) -> Iterator[Changed]:
    """Yield tables with exchanged axes and one more mistake."""
    orders = [
        (message, table)
        for code, message, table in changed_tables(declared)
        if code == "axis-order"
    ]
    if len(orders) == 1 and isinstance(declared, Sinusoidal2D | DETRSine):
        ((exchanged, turned),) = orders
        for code, message, table in changed_tables(turned):
            if table != declared:
                yield code, f"{exchanged}; {message}", table


def _valid(declared: Any, changes: Iterable[Change]) -> Iterator[Changed]:
    """Yield the changed tables; omit changes that are invalid or have no effect."""
    for code, message, change in changes:
        try:
            changed = change() if callable(change) else declared.replace(**change)
        except (TypeError, ValueError):
            continue
        if changed != declared:
            yield code, message, changed


def _of_axes(declared: Any) -> Iterator[Change]:
    said = {"t": "time", "h": "height", "w": "width"}
    for order in permutations(declared.axes):
        words = [", ".join(said.get(a, a) for a in axes) for axes in (order, declared.axis_order)]
        text = f"the columns come in the order {words[0]}, declared {words[1]}"
        yield "axis-order", text, {"axis_order": "".join(order)}
    if isinstance(declared, DETRSine | BoxSine):
        n, own = len(declared.axes), declared.dim // len(declared.axes)
        divisors = {declared.dim: f"the columns of all {n} coordinates, {declared.dim}"}
        divisors |= {size: str(size) for size in _FEATURES if size not in (own, declared.dim)}
        for size, what in divisors.items():
            base = declared.base ** (own / size)
            text = (
                f"the exponent is divided by {what}, not by the columns of one coordinate, {own}; "
                f"or the base is {base:.6g}, declared {declared.base:g}: the same numbers"
            )
            if size != own:
                yield "denominator", text, {"base": base}
    if not isinstance(declared, DETRSine | BoxSine):
        yield from _arranged(declared)
        part = declared.parts()[0][1]
        pairs = part.dim // 2
        for name, n in (("dim", pairs), ("half-1", pairs - 1)):
            text = f"the exponent of pair k of an axis is k/{n} ({name})"
            yield "denominator", text, {"denominator": name}
        n = {"dim": pairs, "half-1": pairs - 1}.get(part.denominator, part.denominator)
        text = "the denominator of the exponent counts the pairs of all axes, not of one axis"
        if declared.base**0.5 in BASES:
            text += f"; or the base is {declared.base**0.5:g}: the same frequencies"
        yield "denominator", text, {"denominator": float(2 * n)}
        each = {one.dim // 2 for _, one in declared.parts()}
        for n_pairs in dict.fromkeys(
            (declared.dim / 2 / declared.num_axes, declared.dim / 2, *each) if len(each) > 1 else ()
        ):
            text = f"the exponent of pair k is k/{n_pairs:.6g} for every axis"
            yield "denominator", text, {"denominator": float(n_pairs)}
        if isinstance(declared, Sinusoidal3D):
            for sections in dict.fromkeys(permutations(declared.sections)):
                widths = ", ".join(
                    f"{said[a]} {n}" for a, n in zip(declared.axes, sections, strict=True)
                )
                yield "sections", f"the columns of the axes are {widths}", {"sections": sections}
        yield "exponent", "the exponent is doubled", {"denominator": n / 2}
        yield "exponent", "the exponent is halved", {"denominator": 2 * n}
        for m, power in ((1, "k"), (2, "2 k"), (3, "3 k")):
            text = f"the frequency of pair k of an axis is exp(-{power}): {FLOORED}"
            yield "exponent", text, {"denominator": float(pairs), "base": float(np.exp(m * pairs))}
    yield from _bases(declared)


def _arranged(declared: Any) -> Iterator[Change]:
    for layout in _LAYOUTS:
        yield "layout", f"columns are {layout}, declared {declared.layout}", {"layout": layout}
    for first in ("sin", "cos"):
        yield "phase-order", f"{first} comes first, declared {declared.first}", {"first": first}


def _bases(declared: Any) -> Iterator[Change]:
    for base in BASES:
        yield "base", f"the base is {base:g}, declared {declared.base:g}", {"base": base}


def _placed(declared: Any) -> Iterator[Change]:
    if declared.offset:
        yield "position-origin", f"the offset {declared.offset:g} is missing", {"offset": 0}
    if declared.position_scale != 1:
        text = f"the factor {declared.position_scale:g} on positions is missing"
        yield "position-scale", text, {"position_scale": 1.0}
    for by in ORIGINS:
        text = f"positions are {abs(by):g} too {'large' if by > 0 else 'small'}"
        yield "position-origin", text, {"offset": declared.offset + by}
    for name, factor in (("2 pi", 2 * np.pi), ("pi", np.pi), ("2", 2.0)):
        if not isinstance(declared, FourierFeatures) or name == "2":
            text = f"positions are multiplied by {name}"
            yield "position-scale", text, {"position_scale": declared.position_scale * factor}
    if declared.scale != 1:
        yield "amplitude", f"the factor {declared.scale:g} is missing", {"scale": 1.0}
    for words, factor in (
        ("multiplied by sqrt(2)", 2**0.5),
        ("divided by sqrt(2)", 2**-0.5),
        ("multiplied by sqrt(dim)", declared.dim**0.5),
        ("multiplied by -1", -1.0),
        ("multiplied by 2", 2.0),
        ("divided by sqrt(dim)", declared.dim**-0.5),
    ):
        yield "amplitude", f"values are {words}", {"scale": declared.scale * factor}
    if isinstance(declared, Sinusoidal2D):
        text = "patch positions are 0, 1, 2, ...: they are not scaled to the declared extent"
        yield "position-scale", text, {"extent": None}
        turned = "rows" if declared.flatten == "columns" else "columns"
        text = f"patches come in {turned}, declared {declared.flatten}"
        yield "token-order", text, {"flatten": turned}


def _detr(declared: DETRSine) -> Iterator[Change]:
    if declared.width_base is not None:
        text = (
            f"the base is the same for width and height, declared {declared.width_base:g} for width"
        )
        yield "base", text, {"width_base": None}
        text = (
            f"the bases are exchanged: {declared.width_base:g} for height, declared for width, and "
            f"{declared.base:g} for width"
        )
        yield "base", text, {"base": declared.width_base, "width_base": declared.base}
    said = "not normalised" if declared.normalize else "normalised by the size"
    yield "position-scale", f"positions are {said}", {"normalize": not declared.normalize}
    for name, scale in _TURNS:
        text = f"normalised positions end at {name}"
        yield "position-scale", text, {"scale": scale, "normalize": True}
    for by in (0.0, -0.5, -1.0, 0.5):
        text = f"the first pixel is at position {1 + by:g}, declared {1 + declared.shift:g}"
        yield "position-origin", text, {"shift": by}

    def plain(**fields: Any) -> Callable[[], Table]:
        same = {"axis_order": declared.axis_order, "base": declared.base}
        return lambda: Sinusoidal2D(declared.dim, **same, **fields)  # type: ignore[arg-type]

    yield "phase-order", "cos comes first", plain(layout="interleaved", first="cos")
    for layout in ("concat", "grouped"):
        yield "layout", f"columns are {layout}, DETR's are interleaved", plain(layout=layout)


def _box(declared: BoxSine) -> Iterator[Change]:
    for name, scale in _TURNS:
        text = f"coordinates are multiplied by {name}, declared {declared.scale:.4g}"
        yield "position-scale", text, {"scale": scale}


def _time2vec(declared: Time2Vec) -> Iterator[Change]:
    function = "cos" if declared.function == "sin" else "sin"
    yield "phase-order", f"{function} is used, declared {declared.function}", {"function": function}
    linear = "last" if declared.linear == "first" else "first"
    text = f"the linear component is the {linear} column, declared the {declared.linear} column"
    yield "layout", text, {"linear": linear}
    yield "position-origin", "the phases are missing", {"bias": np.zeros_like(declared.bias)}


def _standardized(declared: StandardizedSinusoidal) -> Iterator[Change]:
    n, plain = declared.length, Sinusoidal(declared.dim, base=declared.base)
    every = n * declared.dim
    yield "amplitude", "rows are not standardised", lambda: plain
    text = f"the standard deviation has the denominator {every}, declared {every - 1}"
    yield "amplitude", text, {"divisor": declared.divisor * (1 - 1 / every) ** 0.5}
    for divisor in (1.0, 10.0):
        text = f"the divisor is {divisor:g} * standard deviation, declared {declared.divisor:g}"
        yield "amplitude", text, {"divisor": divisor}
    for rows in (n - 1, n + 1):
        text = f"mean and standard deviation are computed over {rows} rows, declared {n}"
        yield "amplitude", text, {"length": rows}
    deviation = float(plain.table(range(n)).std(ddof=1))
    scale = 1 / (declared.divisor * deviation)
    yield "amplitude", "the mean is not subtracted", lambda: plain.replace(scale=scale)
    yield from _bases(declared)


def _fourier(declared: FourierFeatures) -> Iterator[Change]:
    words = {"radian": "nothing", "half-turn": "pi", "turn": "2 pi"}
    bands = ((declared.matrix != 0).sum(axis=1) == 1).all()
    late = {("half-turn", "turn"): "late", ("turn", "half-turn"): "early"}
    for unit, word in words.items():
        text = f"angles are multiplied by {word}, declared {words[declared.unit]}"
        if bands and (declared.unit, unit) in late:
            text += (
                f"; or bands of powers of 2 begin one {late[declared.unit, unit]}: the same values"
            )
        yield "position-scale", text, {"unit": unit}
    yield from _arranged(declared)
    for order in permutations(range(declared.num_axes)):
        text = f"coordinates are taken in the order {order}"
        yield "axis-order", text, {"matrix": declared.matrix[:, list(order)]}
    yield from _bands(declared)


def _bands(declared: FourierFeatures) -> Iterator[Change]:
    """Yield matrices whose rows, one coordinate each, have other frequencies than declared."""
    matrix = np.asarray(declared.matrix)
    if ((matrix != 0).sum(axis=1) != 1).any() or (matrix < 0).any():
        return
    axis = np.argmax(matrix != 0, axis=1)
    place = [np.flatnonzero(axis == a) for a in range(declared.num_axes)]
    if min(map(len, place)) < 2:
        return

    def of(frequencies: Callable[[np.ndarray], np.ndarray]) -> dict[str, Any]:
        other = matrix.copy()
        for a, rows in enumerate(place):
            other[rows, a] = frequencies(matrix[rows, a])
        return {"matrix": other}

    def number(w: np.ndarray) -> np.ndarray:
        return np.arange(w.size, dtype=np.float64)

    ways: tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...] = (
        ("are spaced geometrically from the first to the last", lambda w: np.geomspace(
            w[0], w[-1], w.size)),
        ("are spaced linearly from the first to the last", lambda w: np.linspace(
            w[0], w[-1], w.size)),
        ("are spaced linearly, and end before the last", lambda w: np.linspace(
            w[0], w[-1], w.size, endpoint=False)),
        ("are spaced linearly from 0 to the last", lambda w: np.linspace(0, w[-1], w.size)),
        ("are multiples of the first: 1, 2, 3, ... times", lambda w: w[0] * (number(w) + 1)),
        ("are the first times powers of 2", lambda w: w[0] * 2.0 ** number(w)),
        ("are the first times powers of 10", lambda w: w[0] * 10.0 ** number(w)),
        ("come in the reverse order", lambda w: w[::-1]),
        ("are all the last one: functions that a loop makes read its last value", lambda w:
         np.full(w.size, w[-1])),
        ("are all the first", lambda w: np.full(w.size, w[0])),
        ("end at twice the last", lambda w: np.linspace(w[0], 2 * w[-1], w.size)),
        ("end at half the last", lambda w: np.linspace(w[0], w[-1] / 2, w.size)),
        *((f"are spaced geometrically, and end at {size} the last", lambda w, by=by: np.geomspace(
            w[0], by * w[-1], w.size)) for size, by in (("twice", 2.0), ("half", 0.5))),
        ("begin with the second, and one more follows", lambda w: np.r_[
            w[1:], w[-1] * w[1] / w[0]]),
        ("are the square roots", lambda w: np.sqrt(np.abs(w))),
        ("are squared", lambda w: w * w),
    )  # fmt: skip
    for a, b in permutations(range(declared.num_axes), 2):
        if len(place[a]) == len(place[b]):
            other = matrix.copy()
            other[place[a], a] = matrix[place[b], b]
            text = f"the frequencies of coordinate {a} are those of coordinate {b}"
            yield "axis-order", text, {"matrix": other}
    for words, change in ways:
        yield (
            "exponent",
            f"the frequencies of the bands {words}",
            lambda c=change: (  # type: ignore[misc]
                declared.replace(**of(c))
            ),
        )


def _axial(declared: AxialLearned) -> Iterator[Change]:
    for order in permutations(range(len(declared.tables))):
        text = f"columns belong to the axes {order}, declared {declared.order}"
        yield "axis-order", text, {"order": order}


def _hybrid(declared: Hybrid) -> Iterator[Change]:
    if declared.combine == "concat":
        for order in permutations(range(len(declared.parts))):
            parts = tuple(declared.parts[i] for i in order)
            yield "layout", f"the encodings in 'parts' come in the order {order}", {"parts": parts}
    elif len(declared.parts) == 2:
        for missing, left in zip((1, 0), declared.parts, strict=True):
            yield "amplitude", f"the encoding parts[{missing}] is not added", lambda left=left: left  # type: ignore[misc]
    for i, part in enumerate(declared.parts):
        inner = _sinusoid(part) if isinstance(part, Sinusoidal) else changed_tables(part)
        for code, message, table in inner:
            parts = tuple(table if j == i else p for j, p in enumerate(declared.parts))
            yield code, f"parts[{i}]: {message}", {"parts": parts}


def sinusoid_variants(declared: Sinusoidal, what: str = "columns") -> Iterator[Changed]:
    """Yield sinusoids mistaken for the declared one: another arrangement or exponent."""
    layout = "concat" if declared.layout == "interleaved" else "interleaved"
    first = "cos" if declared.first == "sin" else "sin"
    text = f"the denominator of the exponent is {{}}, declared {declared.denominator}"
    changes: list[Change] = [
        ("layout", f"{what} are {layout}, declared {declared.layout}", {"layout": layout}),
        ("phase-order", f"{first} comes first, declared {declared.first}", {"first": first}),
        *(("denominator", text.format(n), {"denominator": n}) for n in ("dim", "half-1")),
    ]
    return _valid(declared, changes)


def _sinusoid(part: Sinusoidal) -> Iterator[Changed]:
    yield from sinusoid_variants(part)
    for offset in (part.offset + 1, 0):
        text = f"the offset is {offset:g}, declared {part.offset:g}"
        yield "position-origin", text, part.replace(offset=offset)


_FORMS: tuple[tuple[Any, Callable[[Any], Iterator[Change]]], ...] = (
    (Sinusoidal2D | Sinusoidal3D | DETRSine | BoxSine, _of_axes),
    (FourierFeatures, _fourier),
    (Sinusoidal2D | FourierFeatures, _placed),
    (DETRSine, _detr),
    (BoxSine, _box),
    (Time2Vec, _time2vec),
    (StandardizedSinusoidal, _standardized),
    (AxialLearned, _axial),
    (Hybrid, _hybrid),
)
