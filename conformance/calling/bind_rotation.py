"""Bind rotations: find their tables, and the way of calling them that passes a trial."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.harness.pace import SEARCH_SECONDS, watch
from posenc_ref.conformance.harness.plural import plural
from posenc_ref.conformance.harness.tensor_layouts import AXES

from .conventions import Convention
from .facts import other_default
from .grid_search import grids_of, sides_by_trial
from .grids import SIZES, Grid
from .libraries import Library
from .positions import FLAT
from .roles import Unbound, is_number, role_of
from .rotations import ONE_TOKEN, SETTINGS, VECTORS, Rotation
from .signatures import takes_anything, with_parameters
from .sources import sources_of
from .subject import Subject, same_call
from .table_search import NoTable
from .tables import Source
from .trial import (
    ALIKE,
    MANY,
    MANY_UNNAMED,
    MOVES,
    PERFECT,
    Hopeless,
    driver_of,
    score,
    works_in_place,
)
from .trial import SIZES as TRIED
from .ways import grid_ways, roles_in_call, ways

#: What is not judged of a function that takes positions.
_NUMBERED = (
    "the function refuses positions that are no whole grid: only whole grids are judged, "
    "row by row",
)


def rotations(
    subject: Subject, library: Library, convention: Convention
) -> Iterator[tuple[int, Implementation]]:
    """Yield scored ways of calling a rotation."""
    request = subject.request
    if convention.grid and request.axes == 1:
        return
    if takes_anything(subject.function):
        given = with_parameters(subject.function, convention.roles)
        subject = replace(subject, function=given)
    order, fixed = _order(subject, convention)
    function = functools.partial(subject.function, **fixed) if fixed else subject.function
    chosen = request.tensor_layout
    layouts = (chosen,) if chosen is not None else convention.layouts
    before = len(request.tried)
    sources = list(sources_of(subject, library)) if convention.table else []
    if convention.table and not sources:
        unknown = [text for text in request.tried[before:] if "no value is known" in text]
        raise NoTable(
            unknown[0]
            if unknown
            else "no class or function in its file makes tables of cos and sin; name one with "
            "--table"
        )
    for layout in layouts if _plain(subject, convention, fixed) else ():
        direct = library.wrapped(subject.function)
        points, _ = _points(subject, library, direct, layout)
        if points:
            first, second = list(subject.signature)[:2]
            how = f"{subject.words}({first}, {second}); {first} {AXES[layout]}"
            if layout == "bhsd" and library.name == "numpy" and subject.owner is None:
                how = ""  # exactly as the surface says
            yield points, subject.implementation(library, direct, "apply", layout, how)
    surface = request.surface or convention.surfaces[0]
    if convention.grid:
        tried = _grid_ways(subject, library, function, order, fixed, layouts)  # one by one
    else:
        tried = ways(function, order, subject.facts, layouts, sources, request.part)
    limited = (replace(way, limit=subject.limit) for way in tried)
    every = [] if convention.grid else [*limited]
    for way in limited if convention.grid else every:
        for points, found in _scored(subject, library, way, surface, fixed):
            others = _others(subject, library, way, sources) if points >= PERFECT else []
            more = f"; also possible: {', '.join(others)} (--table chooses)" if others else ""
            rows = _with_rows(subject, library, way, every) if points >= PERFECT else None
            if rows is not None and way.layout == "thd":  # rows that no flat call has are judged
                yield from _scored(subject, library, rows, surface, fixed)
            elif rows is not None:
                more += (
                    f"; not judged: {AXES[rows.layout]} with positions (B, S) "
                    f"(--tensor-layout {rows.layout} does)"
                )
            yield points, replace(found, how=found.how + more)


def _grid_ways(
    subject: Subject,
    library: Library,
    function: Callable[..., Any],
    order: Mapping[str, str],
    fixed: Mapping[str, Any],
    layouts: Sequence[str],
) -> Iterator[Rotation]:
    """Return the ways to call a rotation of whole grids, made anew for each grid if need be."""
    made, facts, request = subject.made, subject.facts, subject.request
    if made is not None and made.grid is not None:

        def again(sizes: tuple[int, ...]) -> Callable[..., Any]:
            assert made.again is not None
            call = same_call(made.again(sizes), subject.function)
            return functools.partial(call, **fixed) if fixed else call

        yield from grid_ways(function, order, facts, layouts, [made.grid], again, request.part)
        return
    if "positions" in order.values():  # it may take those of whole grids alone
        grids = [Grid(request.axes), Grid(request.axes, square=True)]
    else:
        grids = list(grids_of(subject.function, subject.owner, facts, request.axes))
    yield from grid_ways(function, order, facts, layouts, grids, None, request.part)
    where = {"positions", "offset"} & {*order.values()} or {*SIZES} & {*order.values()}
    if request.axes != 2 or where or subject.sizes != TRIED[0]:
        return
    for layout in layouts:  # the only grid may be stated nowhere

        def tokens(count: int, layout: str = layout) -> np.ndarray | None:
            row = [Grid(2, own=(1, count))]
            (way,) = grid_ways(function, order, facts, [layout], row, None, None)
            driver = driver_of(library.wrapped(way), library.backend, request.dtype, layout, 2)
            cells = np.stack([np.zeros((1, count), np.int64), np.arange(count)[None]])
            x = np.ones((1, subject.sizes[1], count, subject.dim))
            try:
                rows: np.ndarray = driver.apply(x, cells)[0, 0]
            except (Malformed, Refused):
                return None
            return rows

        sides = sides_by_trial(tokens)
        if sides is not None:
            one = [Grid(2, own=sides)]
            yield from grid_ways(function, order, facts, [layout], one, None, request.part)


def _others(
    subject: Subject, library: Library, way: Rotation, sources: Sequence[Source]
) -> list[str]:
    """Return the other tables of the file with which the rotation works as well."""
    words = []
    for source in sources:
        if way.source is not None and source.words != way.source.words:
            call = library.wrapped(replace(way, source=source))
            if _points(subject, library, call, way.layout)[0] >= PERFECT:
                words.append(source.words)
    return words


def _with_rows(
    subject: Subject, library: Library, way: Rotation, every: Sequence[Rotation]
) -> Rotation | None:
    """Return another way that has a batch axis, and positions (B, S), or None."""
    if way.layout not in FLAT or way.axes > 1 or subject.request.axes > 1:
        return None
    if way.positions in ("", "offset", ONE_TOKEN) or way.source is not None:
        return None
    for other in every:
        if other.layout in FLAT or other.part != way.part or other.positions == ONE_TOKEN:
            continue
        call = library.wrapped(other)
        if _points(subject, library, call, other.layout, rows=True)[0] >= PERFECT:
            return other
    return None


def _points(
    subject: Subject,
    library: Library,
    call: Callable[..., Any],
    layout: str,
    *,
    rows: bool = False,
) -> tuple[int, str]:
    request = subject.request
    driver = driver_of(call, library.backend, request.dtype, layout, request.axes)
    return score(driver, subject.dim, subject.sizes, rows=rows)


def _plain(subject: Subject, convention: Convention, fixed: Mapping[str, Any]) -> bool:
    """Return whether the function is called as the surface ``apply`` calls: fn(x, positions)."""
    if convention.name != "x-positions" or fixed or subject.limit is not None:
        return False
    placed = [p for p in subject.signature.values()
              if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]  # fmt: skip
    needed = [p for p in placed if p.default is p.empty]
    first, second = [role_of(p.name) for p in needed] if len(needed) == 2 else ("", "")
    return first in ("x", None) and second in ("positions", None)


def _scored(
    subject: Subject, library: Library, way: Rotation, surface: str, fixed: Mapping[str, Any]
) -> Iterator[tuple[int, Implementation]]:
    request = subject.request
    driver = driver_of(
        library.wrapped(way), library.backend, request.dtype, way.layout, request.axes
    )
    named = any(role_of(name) in VECTORS for name in subject.signature)
    if watch().search_over():
        raise Hopeless(f"no other way was tried after {SEARCH_SECONDS:.0f} s")
    begin = time.monotonic()
    try:
        if works_in_place(driver, subject.dim, subject.sizes):
            way = replace(way, inplace=True)
    except Refused as error:  # the score would make the same call
        request.tried.append(str(error))
        most = MANY if named else MANY_UNNAMED
        request.refusals.add(error, time.monotonic() - begin, most)
        return
    request.refusals.clear()
    points, why = _points(subject, library, library.wrapped(way), way.layout)
    doubtful = way.layout not in ("bhsd", "bshd") or (not way.positions and way.source is None)
    doubtful = doubtful or way.grid is not None
    if points and doubtful and points < ALIKE + MOVES:
        points, why = 0, "rows or heads get different angles, or all tokens get the same ones"
    least = PERFECT if way.positions == ONE_TOKEN else 1
    if not named:
        least = max(least, ALIKE + MOVES)  # the parameters were taken in order
    points = points if points >= least else 0
    if not points:
        request.tried.append(why)
        return
    pair = surface == "apply_qk" and way.is_pair
    final = replace(way, judged=True)
    call = library.wrapped(final.both if pair else final)
    surface = "apply_qk" if pair else "apply"
    how = _words(subject, way, fixed)
    found = subject.implementation(library, call, surface, way.layout, how)
    if way.grid is not None:
        numbered = "positions" in way.order.values()
        found = replace(found, limits=(*way.grid.limits, *(_NUMBERED if numbered else ())))
    yield points, found


def _order(subject: Subject, convention: Convention) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the roles of the parameters: by their names, else in the convention's order."""
    try:
        also = SIZES if convention.grid else ()
        order, fixed = roles_in_call(subject.function, subject.facts, also)
        if set(VECTORS) & set(order.values()):
            return order, fixed
    except Unbound:
        pass
    needed = [n for n, p in subject.signature.items() if p.default is p.empty]
    if len(needed) != len(convention.roles):
        raise Unbound(
            f"{convention.call.partition(' ->')[0]} takes "
            f"{plural(len(convention.roles), 'required argument', 'required arguments')}; "
            f"{subject.words} takes {len(needed)}"
        )
    for name, role in zip(needed, convention.roles, strict=True):
        if is_number(name) and role_of(name) != role:
            raise Unbound(f"{subject.words} takes {name!r}, which is no {role}")
    known = {n: subject.facts.value(n, role_of(n)) for n in subject.signature if n not in needed}
    fixed = {n: v for n, v in known.items() if role_of(n) in SETTINGS and v is not None}
    return dict(zip(needed, convention.roles, strict=True)), fixed


def _words(subject: Subject, way: Rotation, fixed: Mapping[str, Any]) -> str:
    """Return one line that says how a rotation is called."""
    names = [n if way.order[n] != "offset" else f"{n}=first position" for n in way.order]
    names += [
        f"{name}={value!r}{other_default(subject.signature[name], value)}"
        for name, value in fixed.items()
    ]
    left = [
        name
        for name in subject.signature
        if role_of(name) in ("positions", "offset") and name not in way.order
    ]
    vectors = [n for n, role in way.order.items() if role in VECTORS]
    shape = "(B, S, 3, H, D)" if "packed" in way.order.values() else AXES[way.layout]
    shape = "(H * D,), one token a call" if way.positions == ONE_TOKEN else shape
    parts = [f"{subject.words}({', '.join(names)})", f"{', '.join(vectors)} {shape}"]
    if way.grid is not None:
        parts.append(way.grid.words)
    if way.part is not None:
        parts.append(f"channels {way.part[0]}:{way.part[1]}")
    if way.source is not None:
        shape = "" if way.shape == "as returned" else f" as {way.shape}"
        whole = "whole table" if way.positions else "rows"
        parts.append(f"{whole} of {way.source.words}{shape}")
        if way.source.form in ("sin, cos", "sin|cos"):
            parts.append("which returns sin first")
        if way.source.instead:
            parts.append(f"not used: {way.source.instead}")
    if left:
        parts.append(f"{', '.join(left)} not passed")
    if way.inplace:
        parts.append("in place")
    return "; ".join(parts)
