"""Decode the places of rows of a table with several axes, and find the rules behind them.

Places are integers, or real numbers such as those that follow from the size of a grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from posenc_ref import DETRSine, Sinusoidal2D
from posenc_ref.conformance.diagnosis.conditions import Variables
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.diagnosis.rule import Rule, find_rule
from posenc_ref.conformance.diagnosis.scored import fits
from posenc_ref.conformance.harness.run import Run

from .reference import longest, rows_of
from .remedies import of_step

#: The largest place that is sought on an axis, and the most rows of a call.
_REACH, _MOST = 256, 1100
#: How many places before the first are sought.
_BEFORE = 8
_AXES = {"t": "time", "h": "row", "w": "column"}
#: The largest deviation of a place from a rule, relative to the largest place.
_NEAR = 1e-5
#: A rule of real places predicts at least this many grids.
_FEWEST_GRIDS = 3
#: Sizes that a side of a grid may be padded to a multiple of.
_PADDED = (2, 4, 8, 16, 32, 64)
#: Numbers that are added to the number of a patch, and to its place.
_STARTS, _MOVED = (0.0, 1.0, 0.5), (0.0, -0.5, -1.0)


@dataclass(frozen=True)
class _Seen:
    one: JudgedCall
    used: np.ndarray  #: (A, S)
    variables: Variables


def name_places(
    run: Run,
    calls: Sequence[JudgedCall],
    further: Callable[[], Iterable[JudgedCall]] = tuple,
) -> bool:
    """Report the rules that give the place of every row; return whether there are such rules.

    The facts of a call are integer positions (A, S), or the height and the width of a grid. Every
    row must be one of the declared table, and the rules must predict all calls, and those that
    ``further`` makes.
    """
    return _whole_places(run, calls, further) or _real_places(run, calls, further)


def _whole_places(
    run: Run, calls: Sequence[JudgedCall], further: Callable[[], Iterable[JudgedCall]]
) -> bool:
    encoding = run.encoding
    columns = _columns(run)
    if columns is None:
        return False
    seen = []
    for one in calls:
        declared = _declared(run, one)
        if declared.dtype.kind != "i" or declared.shape[1] > _MOST:
            continue
        used = _decoded(run, one, declared, columns)
        if used is None:
            return False
        seen.append(_Seen(one, used, _variables(run, one, declared)))
    if not seen:  # normalised positions are no integers
        return False
    names = [f"the {_AXES.get(a, a)}" for a in getattr(encoding, "axes", "hw")]
    rules = {}
    for axis, name in enumerate(names[: len(columns)]):
        used = np.concatenate([s.used[axis] for s in seen])
        flat = {n: np.concatenate([s.variables[n] for s in seen]) for n in seen[0].variables}
        if np.array_equal(used, flat[name]):
            continue
        once = np.unique(np.stack([used, *flat.values()]), axis=1)
        rule = find_rule(once[0], dict(zip(flat, once[1:], strict=True)), name)
        if rule is None:
            return False
        rules[axis] = rule
    if not rules or not all(_follows(run, one, rules, names) for one in (*calls, *further())):
        return False
    said = [
        f"the {names[a].removeprefix('the ')} used is {rule.words}" for a, rule in rules.items()
    ]
    rights = [f"the {names[a].removeprefix('the ')} itself, not {r.text}" for a, r in rules.items()]
    first = next(s for s in seen if not np.array_equal(s.used, _declared(run, s.one)))
    at = int(np.flatnonzero((first.used != _declared(run, first.one)).any(axis=0))[0])
    places = [tuple(int(v) for v in p[:, at]) for p in (first.used, _declared(run, first.one))]
    run.add(
        "wrong-row",
        "; ".join(said),
        f"{first.one.case}, row {at}: place {places[0]}, declared {places[1]}",
        remedy=f"Use, for every row of the table, {'; and '.join(rights)}.",
    )
    return True


def _declared(run: Run, one: JudgedCall) -> np.ndarray:
    grid = isinstance(one.facts, tuple)
    return np.asarray(run.encoding.grid_positions(*one.facts) if grid else one.facts)


def _columns(run: Run) -> list[np.ndarray] | None:
    """Return the columns that each axis has for itself, or None if axes share columns."""
    axes = run.encoding.num_axes
    if axes < 2 or longest(run.encoding) <= 8:
        return None
    none = np.zeros((axes, 1), np.int64)
    try:
        base = rows_of(run, run.encoding, none).value
        moved = [rows_of(run, run.encoding, none + 7 * _unit(axes, a)).value for a in range(axes)]
    except (TypeError, ValueError):
        return None
    found = [np.flatnonzero((m != base)[0]) for m in moved]
    counted = np.bincount(np.concatenate(found), minlength=1)
    return found if counted.max() == 1 and all(c.size for c in found) else None


def _unit(axes: int, axis: int) -> np.ndarray:
    return np.asarray((np.arange(axes) == axis).astype(np.int64)[:, None])


def _decoded(
    run: Run, one: JudgedCall, declared: np.ndarray, columns: list[np.ndarray]
) -> np.ndarray | None:
    last = longest(run.encoding)
    # A formula gives rows before the first, too: those of an index that is 1 too small.
    at = np.arange(0 if last < 2**40 else -_BEFORE, min(_REACH, last))
    axes = len(columns)
    used = declared.copy()
    for axis, own in enumerate(columns):
        table = rows_of(run, run.encoding, at * _unit(axes, axis)).value[:, own]
        away = np.abs(one.actual[:, None, own] - table).max(axis=-1)
        nearest = at[np.argmin(away, axis=1)]
        right = np.abs(one.actual - one.truth.value)[:, own].max(axis=-1) <= away.min(axis=1)
        used[axis] = np.where(right, declared[axis], nearest)
    return used if fits(run, one, rows_of(run, run.encoding, used)) else None


def _variables(run: Run, one: JudgedCall, declared: np.ndarray) -> Variables:
    names = [f"the {_AXES.get(a, a)}" for a in getattr(run.encoding, "axes", "hw")]
    found = dict(zip(names, declared, strict=False))
    token = np.arange(declared.shape[1])
    found["the number of the patch"] = token
    if isinstance(one.facts, tuple):
        height, width = one.facts
        found |= {"the height": 0 * token + height, "the width": 0 * token + width}
        ends = {"the row": height, "the column": width}
        found |= {f"the number of {n.removeprefix('the ')}s after this one": ends[n] - 1 - found[n]
                  for n in ends if n in found}  # fmt: skip
    return found


def _follows(run: Run, one: JudgedCall, rules: dict[int, Rule], names: list[str]) -> bool:
    declared = _declared(run, one)
    if declared.dtype.kind != "i":
        return fits(run, one, one.truth)
    v = _variables(run, one, declared)
    used = np.stack(
        [rules[a].of(v) if a in rules else v[names[a]] for a in range(declared.shape[0])]
    )
    last = longest(run.encoding)
    if used.max(initial=0) >= last or (last < 2**40 and used.min(initial=0) < 0):
        return False
    return fits(run, one, rows_of(run, run.encoding, used))


@dataclass(frozen=True)
class _Spread:
    """A rule of places on one axis: factor * (number + start) / size + moved."""

    number: str
    size: str
    start: float
    moved: float
    factor: float
    down: bool = False  #: rounded down

    def of(self, grid: tuple[int, int], e: Sinusoidal2D | DETRSine) -> np.ndarray:
        """Return the places of the patches of a grid."""
        size = _sizes(grid, e)[self.size]
        place = self.factor * (_numbers(grid, e)[self.number] + self.start) / size + self.moved
        return np.asarray(np.floor(place + 1e-9) if self.down else place)

    @property
    def words(self) -> str:
        """Return the formula in words."""
        plain = not self.start and self.factor == 1 and self.size == "1" and not self.moved
        text = self.number if " " not in self.number or plain else f"({self.number})"
        text = f"({text} + {self.start:g})" if self.start else text
        text = text if self.factor == 1 else f"{self.factor:.6g} * {text}"
        text += f" / {self.size}" * (self.size != "1")
        text += f" - {-self.moved:g}" if self.moved else ""
        return f"{text}, rounded down" if self.down else text


def _numbers(grid: tuple[int, int], e: Sinusoidal2D | DETRSine) -> dict[str, np.ndarray]:
    """Return the numbers of patches that a place may be made of, by name."""
    h, w = grid
    n = np.arange(h * w)
    by_columns = getattr(e, "flatten", "rows") == "columns"
    (y, x), number = (n % h, n // h) if by_columns else (n // w, n % w), "number of the patch"
    return {
        "row": y, "column": x, number: n,
        "row modulo width": y % w, "column modulo height": x % h,
        f"{number} // height": n // h, f"{number} modulo height": n % h,
        f"({number} // width) modulo width": n // w % w,
        f"({number} // height) modulo height": n // h % h,
    }  # fmt: skip


def _sizes(grid: tuple[int, int], e: Sinusoidal2D | DETRSine) -> dict[str, float]:
    """Return the sizes of a grid by which places may be divided, by name."""
    h, w = grid
    found: dict[str, float] = {}
    eps = e.eps if isinstance(e, DETRSine) and e.normalize else 0.0
    sides = {"height": h, "width": w, "larger side": max(h, w), "smaller side": min(h, w)}
    for name, side in sides.items():
        found |= {name: side, f"({name} - 1)": max(side - 1, 1), f"({name} + 1)": side + 1}
    for name, side in sides.items():
        padded = ((f"({name} padded to a multiple of {m})", -(-side // m) * m) for m in _PADDED)
        found |= dict(padded)
    found |= {"(height * width)": h * w, "(height + width)": h + w}
    return {"1": 1.0} | {name: size + eps for name, size in found.items()}


def _real_places(
    run: Run, calls: Sequence[JudgedCall], further: Callable[[], Iterable[JudgedCall]]
) -> bool:
    """Report rules of real places in grids; return whether they predict all calls."""
    encoding = run.encoding
    if not isinstance(encoding, Sinusoidal2D | DETRSine):
        return False
    of_grids = [one for one in calls if isinstance(one.facts, tuple)]
    used = [_real(one, encoding) for one in of_grids]
    if len(of_grids) < _FEWEST_GRIDS or len(of_grids) < len(calls):
        return False
    declared = [np.asarray(_declared(run, one), np.float64) for one in of_grids]
    if not all(
        fits(run, one, rows_of(run, encoding, p)) for one, p in zip(of_grids, used, strict=True)
    ):
        return False
    grids = [one.facts for one in of_grids]
    rules = {}
    for axis in range(2):
        places, own = (np.concatenate([p[axis] for p in each]) for each in (used, declared))
        if _near(places, own):
            continue
        rule = next(_spreads(encoding, grids, places, axis), None)
        if rule is None:
            return False
        rules[axis] = rule

    def predicts(one: JudgedCall) -> bool:
        at = np.asarray(_declared(run, one), np.float64).copy()
        for axis, rule in rules.items():
            at[axis] = rule.of(one.facts, encoding)
        return fits(run, one, rows_of(run, encoding, at))

    if not rules or not all(predicts(one) for one in (*of_grids, *further())):
        return False
    names = ("row", "column")
    text = "; ".join(
        f"the place of a patch on the axis of {names[a]}s is {r.words}" for a, r in rules.items()
    )
    step = "the divisor" if isinstance(encoding, DETRSine) else "the position of patch i of n"
    if all(rule.size == "1" and rule.factor == 1 for rule in rules.values()):
        step = "the patches"
    run.add(
        "position-scale",
        text,
        f"the rule predicts every patch of {len(of_grids)} grids",
        remedy=of_step(encoding, step),
    )
    return True


def _near(one: np.ndarray, other: np.ndarray) -> bool:
    size = max(float(np.abs(other).max(initial=0.0)), 1.0)
    return bool((np.abs(one - other) <= _NEAR * size).all())


def _real(one: JudgedCall, e: Sinusoidal2D | DETRSine) -> np.ndarray:
    """Return the place (2, S) of every row, from the angles of the slowest pair to the fastest."""
    values = one.actual[:, np.argsort(e.columns())]
    found = np.zeros((2, len(values)))
    start = 0
    for axis, part in e.parts():
        sines, cosines = (values[:, start + columns] for columns in part.columns())
        start += part.dim
        w = part.frequencies()
        p = found[axis]
        for k in np.argsort(w):
            away = np.arctan2(sines[:, k], cosines[:, k]) - w[k] * p
            p += (away - 2 * np.pi * np.rint(away / (2 * np.pi))) / w[k]
        p -= part.offset
    return found


def _spreads(
    e: Sinusoidal2D | DETRSine, grids: Sequence[tuple[int, int]], places: np.ndarray, axis: int
) -> Iterator[_Spread]:
    """Yield rules that give the places of all patches of the grids on one axis."""
    each = [_numbers(grid, e) for grid in grids]
    numbers = {name: np.concatenate([n[name] for n in each]) for name in each[0]}
    counts = [n["row"].size for n in each]
    of_grids = [_sizes(grid, e) for grid in grids]
    sizes = {name: np.repeat([n[name] for n in of_grids], counts) for name in of_grids[0]}
    order = sorted(numbers, key=lambda name: name != ("row", "column")[axis])
    known = (e.scale, 2 * np.pi, np.pi)
    for (name, size), start, moved in product(product(order, sizes), _STARTS, _MOVED):
        share = (numbers[name] + start) / sizes[size]
        at = places - moved
        if not share.any():
            continue
        factor = float(at @ share / (share @ share))
        for c in (float(f"{factor:.4g}"), *known, factor):
            if c and _near(c * share, at):
                yield _Spread(name, size, start, moved, c)
        if start or moved or not _near(places, np.rint(places)):
            continue
        inside = share > 0
        low = np.max(np.rint(places[inside]) / share[inside], initial=1.0)
        high = np.min((np.rint(places[inside]) + 1) / share[inside], initial=np.inf)
        n = int(np.ceil(low - 1e-9))
        if low < np.inf and n < high and size != "1":
            yield _Spread(name, size, 0.0, 0.0, float(n), down=True)
