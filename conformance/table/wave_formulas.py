"""The formulas of sinusoidal tables, in steps that may be computed differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from posenc_ref import BoxSine, DETRSine, Sinusoidal
from posenc_ref.conformance.diagnosis.steps import Steps
from posenc_ref.conformance.phases.frequencies import few_digits

_AXES = {"t": "time", "h": "row", "w": "column"}
#: What keeps an inverse sigmoid finite.
_EPS = (1e-5, 1e-3, 1e-6)


def _places(e: Any, at: Any, s: Steps, names: list[str]) -> list[np.ndarray]:
    """Return the position on each axis, of positions (A, S) or of the patches of a grid."""
    if isinstance(at, tuple):
        height, width = at
        at = _grid(e, height, width, s)
    if isinstance(e, BoxSine):
        at = _coordinates(e, np.asarray(at, np.float64), s)
    each = zip(names, at, strict=True)
    found = [np.asarray(s.number(name, p), np.float64) for name, p in each]
    if isinstance(e, BoxSine):
        own = float(s.factor(f"the scale {e.scale:.6g} of the coordinates", e.scale)) / e.scale
        found = [own * p for p in found]
    return found


def _coordinates(e: BoxSine, v: np.ndarray, s: Steps) -> np.ndarray:
    """Return the coordinates of boxes or points, (A, S)."""
    if not s.tries("the coordinates"):
        return v
    code = "position-range"
    inner = np.clip(v, 0, 1)
    inverse = (np.log(np.maximum(inner, eps) / np.maximum(1 - inner, eps)) for eps in _EPS)
    return np.asarray(
        s.pick(
            "the coordinates",
            v,
            *(_of_boxes(e, v) if "w" in e.axes else ()),
            (code, "are clamped to 0 .. 1", inner),
            (code, "are clamped to at least 0", np.maximum(v, 0)),
            (code, "go through a sigmoid", 1 / (1 + np.exp(-v))),
            *((code, f"go through the inverse sigmoid, with eps = {eps:g}", of)
              for eps, of in zip(_EPS, inverse, strict=True)),
            ("position-scale", "are mapped from [0, 1] to [-1, 1]: 2 v - 1", 2 * v - 1),
            ("position-scale", "are mapped from [-1, 1] to [0, 1]: (v + 1) / 2", (v + 1) / 2),
            right=f"Use the coordinates {', '.join(e.axes)} as they are passed.",
        )
    )  # fmt: skip


def _of_boxes(e: BoxSine, v: np.ndarray) -> list[tuple[str, str, np.ndarray]]:
    """Return other numbers that describe a box: its corners, or those of half the size."""
    names = [a for a in "xyz" if a in e.axes], [a for a in "whd" if a in e.axes]
    at, size = (np.stack([v[e.axes.index(a)] for a in of]) for of in names)
    places, sizes = (", ".join(of) for of in names)

    def each(form: str, by: str = " and ") -> str:
        return by.join(form.format(x=x, w=w) for x, w in zip(*names, strict=True))

    with np.errstate(all="ignore"):  # negative sizes have no logarithm
        log, more = np.log(size), np.log1p(size)
    code, scale = "position-origin", "position-scale"
    corner = "taken for a corner, and become"
    rows = (
        (code, f"{places} are the first corner, {each('{x} - {w} / 2')}", at - size / 2, size),
        (code, f"{places} are {each('{x} + {w} / 2')}", at + size / 2, size),
        (code, f"{sizes} are the last corner, {each('{x} + {w}')}", at, at + size),
        (code, f"{sizes} are the last corner, {each('{x} + {w} / 2')}", at, at + size / 2),
        (code, f"are corners: {each('{x} - {w} / 2', ', ')}, {each('{x} + {w} / 2', ', ')}",
         at - size / 2, at + size / 2),
        (code, f"are taken for corners: {each('{x}')} become {each('({x} + {w}) / 2')}, "
         f"{each('{w}')} become {each('{w} - {x}')}", (at + size) / 2, size - at),
        (code, f"{sizes} are {corner} {each('{w} - {x}')}", at, size - at),
        (code, f"{places} are {corner} {each('({x} + {w}) / 2')}", (at + size) / 2, size),
        (scale, f"{sizes} are halved", at, size / 2),
        (scale, f"{sizes} are doubled", at, 2 * size),
        (scale, f"{sizes} are replaced by their logarithms", at, log),
        (scale, f"{sizes} are replaced by {each('log(1 + {w})')}", at, more),
        (scale, f"{sizes} are replaced by {each('log(1 + {w})')}, and negative ones by 0",
         at, np.log1p(np.maximum(size, 0))),
        ("axis-order", f"{sizes} are {places} once more", at, at),
        ("axis-order", f"{places} are {sizes} once more", size, size),
    )  # fmt: skip
    found = []
    for kind, text, a, b in rows:
        numbers = dict(zip([*names[0], *names[1]], [*a, *b], strict=True))
        found.append((kind, text, np.stack([numbers[axis] for axis in e.axes])))
    return found


def _grid(e: Any, h: int, w: int, s: Steps) -> Any:
    token = np.arange(h * w)
    rows = (token // w, token % w)
    y, x = s.pick(
        "the patches",
        rows,
        ("token-order", "are listed column by column", (token % h, token // h)),
        ("token-order", "are split by the height, not by the width", (token // h, token % h)),
        ("token-order", "are split by the larger side, not by the width",
         (token // max(h, w), token % max(h, w))),
        ("axis-order", "of one row are counted as rows",
         (token % w, token // w) if h == 1 else rows),
        ("axis-order", "of one column are counted as columns",
         (token % h, token // h) if w == 1 else rows),
    )  # fmt: skip
    if isinstance(e, DETRSine):
        return _detr_places(e, y, x, h, w, s)
    extent = getattr(e, "extent", None)
    if extent is None:
        return _shifted_places(y, x, h, w, s)
    code = "position-scale"

    def spread(size: Callable[[int], float], start: float = 0.0) -> tuple[Any, Any]:
        return (y + start) * extent / size(h), (x + start) * extent / size(w)

    return s.pick(
        "the position of patch i of n",
        spread(lambda n: n),
        (code, "is i * extent / (n - 1): the last patch is at the end",
         spread(lambda n: max(n - 1, 1))),
        (code, "is i * extent / (n + 1)", spread(lambda n: n + 1)),
        ("position-origin", "is (i + 0.5) * extent / n: the centre of the patch",
         spread(lambda n: n, 0.5)),
        (code, "is i * extent / n with the height for both axes", (y * extent / h, x * extent / h)),
        (code, "is i * extent / n with the width for both axes", (y * extent / w, x * extent / w)),
        ("axis-order", "is i * extent / n with height and width exchanged",
         (y * extent / w, x * extent / h)),
        *((code, f"is i * extent / n with the {side} side for {axes}",
           (y * extent / (n if of_rows else h), x * extent / (n if of_columns else w)))
          for side, n in (("larger", max(h, w)), ("smaller", min(h, w)))
          for axes, of_rows, of_columns in (("both axes", True, True), ("rows", True, False),
                                            ("columns", False, True))),
    )  # fmt: skip


def _shifted_places(y: Any, x: Any, h: int, w: int, s: Steps) -> Any:
    """Return rows and columns of patches, which count from 0 in steps of 1."""
    code, number = "position-scale", y * w + x
    largest = (max(h - 1, 1), max(w - 1, 1))
    rows = s.pick(
        "the positions of patches",
        (y, x),
        ("position-origin", "count from the middle: i - (n - 1) / 2",
         (y - (h - 1) / 2, x - (w - 1) / 2)),
        ("position-origin", "count from the middle: i - n // 2", (y - h // 2, x - w // 2)),
        (code, "are divided by the size of their axis, i / n", (y / h, x / w)),
        (code, "are divided by n - 1: from 0 to 1", (y / largest[0], x / largest[1])),
        (code, "run from -1 to 1: 2 i / (n - 1) - 1",
         (2 * y / largest[0] - 1, 2 * x / largest[1] - 1)),
        (code, "run from 0 to 2 pi: 2 pi i / n", (2 * np.pi * y / h, 2 * np.pi * x / w)),
        (code, "run to 2 pi: 2 pi (i + 1) / n", (2 * np.pi * (y + 1) / h, 2 * np.pi * (x + 1) / w)),
        *(
            (code, f"are divided by the size of the axis, for {name} only", place)
            for name, place in (("rows", (y / h, x)), ("columns", (y, x / w)))
        ),
        ("axis-order", "are the number of the patch, for both axes", (number, number)),
        ("axis-order", "are the number of the patch, for the columns", (y, number)),
        ("axis-order", "are the number of the patch, for the rows", (number, x)),
        ("axis-order", "are the row, for both axes", (y, y)),
        ("axis-order", "are the column, for both axes", (x, x)),
        (code, "are those of a grid of half the size: i // 2", (y // 2, x // 2)),
        right="Give patch (y, x) the row y and the column x, counted from 0 in steps of 1.",
    )  # fmt: skip
    return rows


def _detr_places(e: DETRSine, y: Any, x: Any, h: int, w: int, s: Steps) -> Any:
    counts = y + 1.0, x + 1.0
    code = "position-scale"
    if not e.normalize:
        return s.pick(
            "the positions of pixels",
            counts,
            *(("position-origin", f"count from {first:g}, not from 1",
               tuple(c + first - 1 for c in counts)) for first in (0.0, 0.5, 2.0)),
            right="Count pixels from 1, as a cumulative sum of the mask does.",
        )  # fmt: skip
    sizes = s.pick(
        "the divisor",
        (h, w),
        (code, "of both axes is the height", (h, h)),
        (code, "of both axes is the width", (w, w)),
        (code, "of both axes is the larger side", (max(h, w),) * 2),
        (code, "of columns is the number itself: all columns are at the end", (h, counts[1])),
        (code, "of rows is the number itself: all rows are at the end", (counts[0], w)),
        (code, "of both axes is the number itself: all pixels are at the end", counts),
        (code, "is the size minus 1", (max(h - 1, 1), max(w - 1, 1))),
        ("axis-order", "of rows is the width, and that of columns the height", (w, h)),
    )
    eps = float(s.factor("eps", e.eps, code)) if e.eps else 0.0

    def placed(count: Any, size: float) -> Any:
        return e.scale * (count + e.shift) / (size + eps)

    both = list(zip(counts, sizes, strict=True))
    after = [e.scale * (c / (n + eps) + e.shift) for c, n in both]
    own = s.pick(
        "the count of pixels",
        [placed(c, n) for c, n in both],
        *(("position-origin", f"starts at 0, not at 1, and {words}",
           [placed(c - 1, n - less) for c, n in both])
          for words, less in (("its last number is the divisor: i / (n - 1)", 1),
                              ("the divisor stays: i / n", 0))),
        right="Count pixels from 1, as a cumulative sum of the mask does.",
    )  # fmt: skip
    return s.pick(
        "the shift",
        own,
        ("position-origin", "is added to the normalised coordinate, not to the pixel's number",
         after),
        ("position-origin", "is added after the scale",
         [e.scale * c / (n + eps) + e.shift for c, n in both]),
        ("position-origin", "is left out", [e.scale * c / (n + eps) for c, n in both]),
        ("position-origin", "is added to the size as well",
         [e.scale * (c + e.shift) / (n + e.shift + eps) for c, n in both]),
        *(("position-origin", f"is divided by the {side}, on both axes",
           [e.scale * (c / (n + eps) + e.shift / size) for c, n in both])
          for side, size in (("height", h), ("width", w), ("larger side", max(h, w)),
                             ("smaller side", min(h, w)))),
    )  # fmt: skip


def of_axes(e: Any, at: Any, s: Steps, *, alike: bool = False) -> np.ndarray:
    """Return the rows of a table with several axes; with ``alike``, steps change in all parts."""
    boxes = isinstance(e, BoxSine)
    names = [a if boxes else _AXES[a] for a in e.axes]
    steps = [f"the coordinate {a}" if boxes else f"the {a}" for a in names]
    places = _places(e, at, s, ["every coordinate"] * len(names) if boxes and alike else steps)
    parts = []
    for axis, part in e.parts():
        of = "of every part" if alike else f"of the {names[axis]} part"
        size = s.factor(f"the amplitude {of}", 1.0, "amplitude")
        parts.append(size * _waves(part, places[axis], s, f" {of}"))
    return np.asarray(np.concatenate(parts, axis=-1)[..., e.columns()])


def _waves(e: Sinusoidal, p: Any, s: Steps, of: str = "") -> np.ndarray:
    """Return a sinusoidal table at positions (S,)."""
    p = np.asarray(p, np.float64)
    sines, cosines = e.columns()
    value = np.zeros((*p.shape, e.dim))
    w = np.asarray(e.frequencies(), np.float64)
    at = (p + e.offset)[..., None]
    each = (
        s.factor(f"the amplitude of the sines{of}", 1.0, "amplitude"),
        s.factor(f"the amplitude of the cosines{of}", 1.0, "amplitude"),
    )
    root = float(e.dim) ** 0.5
    both = e.scale, e.scale
    scales = s.pick(
        f"the factor {e.scale:.6g}{of}",
        both,
        ("amplitude", "is on the sines only, that of cosines is 1", (e.scale, 1.0)),
        ("amplitude", "is on the cosines only, that of sines is 1", (1.0, e.scale)),
        ("amplitude", f"is {e.scale * root:.6g}: the rows are multiplied by sqrt({e.dim})",
         (e.scale * root,) * 2),
        ("amplitude", f"is {e.scale / root:.6g}: the rows are divided by sqrt({e.dim})",
         (e.scale / root,) * 2),
    )  # fmt: skip
    own = (w[: sines.size], w[: cosines.size])
    name = f"the exponent{of}"
    others = _exponents(e, own, w) if s.tries(name) else ()
    waves = s.pick(name, own, *others)
    name = f"the frequencies{of}"
    written = zip(*(few_digits(w) for w in waves if s.tries(name)), strict=True)
    waves = s.pick(
        name,
        waves,
        *((sine.code, sine.message.removeprefix("frequencies "), (sine.predicted, cosine.predicted))
          for sine, cosine in written),
        right="Compute the frequencies, do not write them with few digits.",
    )  # fmt: skip
    sin, cos = s.pick(
        f"the functions of the columns{of}",
        (np.sin, np.cos),
        ("phase-order", "are sines in all columns", (np.sin, np.sin)),
        ("phase-order", "are cosines in all columns", (np.cos, np.cos)),
        ("sign", "are sines and absolute cosines: sqrt(1 - sin ** 2) loses the sign",
         (np.sin, lambda x: np.abs(np.cos(x)))),
        ("phase-order", "are sines and minus sines", (np.sin, lambda x: -np.sin(x))),
        ("phase-order", "are sines and minus cosines", (np.sin, lambda x: -np.cos(x))),
        ("phase-order", "are cosines and minus sines", (np.cos, lambda x: -np.sin(x))),
        ("phase-order", "are minus sines and cosines", (lambda x: -np.sin(x), np.cos)),
        right="Fill the declared columns with sin(angle) and with cos(angle).",
    )  # fmt: skip
    value[..., sines] = scales[0] * each[0] * sin(at * waves[0])
    value[..., cosines] = scales[1] * each[1] * cos(at * waves[1])
    if e.dim % 2 and e.odd == "zero-pad":
        value = _odd(e, value, at, w, s)
    return value


def _exponents(e: Sinusoidal, own: Any, w: np.ndarray) -> list[tuple[str, str, Any]]:
    """Return other frequencies of the sines and the cosines, whose exponents are mistaken."""
    d, code = e.dim, "exponent"
    column = [np.arange(each.size) * 2 + i for i, each in enumerate(own)]

    def powers(exponents: Any) -> tuple[np.ndarray, ...]:
        return tuple(e.position_scale * e.base ** -np.asarray(x, np.float64) for x in exponents)

    return [
        *([(code, "of a cosine is that of the next pair: with an odd dim, the surplus "
            "frequency is cut off at the start, not at the end", (own[0], w[-own[1].size :]))]
          if own[1].size < w.size else []),
        (code, f"of column i is i/{d}, not 2 (i // 2) / {d}: a cosine has a lower frequency than "
         "its sine", powers(i / d for i in column)),
        (code, f"of column i is 2i/{d}, not 2 (i // 2) / {d}", powers(2 * i / d for i in column)),
        (code, f"of column i is 2i/{d}, and that of cosines 2 (i - 1) / {d}",
         powers((2 * column[0] / d, 2 * (column[1] - 1) / d))),
        (code, f"of a cosine is that of the next sine, 2 (i + 1) / {d}",
         (own[0], powers((column[0], (column[1] + 1) / d))[1])),
    ]  # fmt: skip


def _odd(e: Sinusoidal, value: np.ndarray, at: Any, w: np.ndarray, s: Steps) -> np.ndarray:
    """Return the rows with the last column, which is declared to be zeros."""
    known: dict[Any, float] = {"dim": e.dim / 2, "half-1": e.dim // 2 - 1}
    n = known.get(e.denominator, e.denominator)
    more = at[..., 0] * e.position_scale * e.base ** (-w.size / float(n))
    body, last = value[..., :-1], value[..., -1:]

    def ending(column: np.ndarray) -> np.ndarray:
        return np.concatenate([body, np.broadcast_to(column[..., None], last.shape)], axis=-1)

    def after(column: int) -> np.ndarray:
        return np.concatenate([body[..., :column], last, body[..., column:]], axis=-1)

    wide = e.replace(dim=e.dim + 1)
    rows, angles = np.zeros((*at.shape[:-1], wide.dim)), at * np.asarray(wide.frequencies())
    for columns, function in zip(wide.columns(), (np.sin, np.cos), strict=True):
        rows[..., columns] = e.scale * function(angles)
    moved = s.pick(
        "the column of zeros",
        value,
        ("layout", f"is missing: the rows are made for dim = {wide.dim}, and the last column is "
         "cut off", rows[..., :-1]),
        ("layout", f"is column {w.size}, between sines and cosines, not the last one",
         after(w.size)),
        ("layout", "is the first one, not the last one", after(0)),
    )  # fmt: skip
    return np.asarray(
        s.pick(
            "the last column",
            moved,
            ("layout", f"holds sines of one more frequency, pair {w.size}, not zeros",
             ending(e.scale * np.sin(more))),
            ("layout", f"holds cosines of one more frequency, pair {w.size}, not zeros",
             ending(e.scale * np.cos(more))),
            ("layout", "holds the last sines again, not zeros",
             ending(value[..., e.columns()[0][-1]])),
            ("layout", "holds the last cosines again, not zeros",
             ending(value[..., e.columns()[1][-1]])),
            ("layout", "holds ones, not zeros", ending(np.ones(value.shape[:-1]))),
        )
    )  # fmt: skip


def sinusoidal(e: Sinusoidal, at: Any, s: Steps) -> np.ndarray:
    """Return the rows of a sinusoidal table."""
    return _waves(e, s.number("the position", at), s)
