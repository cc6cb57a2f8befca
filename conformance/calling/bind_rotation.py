"""Bind rotations: find their tables, and the way of calling them that passes a trial."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from posenc_ref.conformance.harness.implementation import Implementation

from .conventions import Convention
from .instances import MAKES_TABLES, candidates, main_call, make, methods
from .libraries import Library
from .roles import Unbound, role_of
from .rotations import Rotation, roles_in_call, ways
from .subject import Subject, calling, implementation, like_x
from .tables import NoTable, Source, find_source
from .trial import returns_none, score


def rotations(
    subject: Subject, library: Library, convention: Convention, surface: str | None,
    tried: list[str],
) -> Iterator[tuple[int, Implementation]]:  # fmt: skip
    """Yield scored ways of calling a rotation; add the reasons of failures to ``tried``."""
    order, fixed = _order(subject, convention)
    function = functools.partial(subject.function, **fixed) if fixed else subject.function
    wanted = surface or convention.surfaces[0]
    layouts = (subject.layout,) if subject.layout is not None else convention.layouts
    sources = list(_sources(subject, library, tried)) if convention.table else []
    if convention.table and not sources:
        raise NoTable(
            "no class or function of the same file makes its tables; name one with --table"
        )
    for dim in subject.head_dims:
        plain = _plain(subject, convention, fixed)
        for layout in layouts if plain else ():
            direct = library.wrapped(subject.function)
            points, _ = score(direct, library.backend, layout, dim, subject.dtype, subject.axes, subject.rotary)
            if points:
                first, second = list(subject.signature)[:2]
                words = f"{subject.words}({first}, {second}); {first} {_shape(layout)}"
                yield points, implementation(subject, library, direct, "apply", layout, dim, words)
        for way in ways(function, order, subject.facts, layouts, sources, subject.part):
            yield from _scored(subject, library, way, wanted, dim, fixed, tried)


def _plain(subject: Subject, convention: Convention, fixed: Mapping[str, Any]) -> bool:
    """Return whether the function is called as the surface ``apply`` calls: fn(x, positions)."""
    if convention.name != "x-positions" or fixed:
        return False
    placed = [p for p in subject.signature.values()
              if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]  # fmt: skip
    needed = [p for p in placed if p.default is p.empty]
    return len(needed) == 2 and role_of(needed[0].name) not in ("positions", "offset")


def _scored(
    subject: Subject, library: Library, way: Rotation, surface: str, dim: int,
    fixed: Mapping[str, Any], tried: list[str],
) -> Iterator[tuple[int, Implementation]]:  # fmt: skip
    call = library.wrapped(way)
    if returns_none(call, library.backend, way.layout, dim, subject.dtype):
        way = replace(way, inplace=True)
        call = library.wrapped(way)
    points, why = score(call, library.backend, way.layout, dim, subject.dtype, subject.axes, subject.rotary)
    if points and not way.positions and way.source is None and points < 8:
        points, why = 0, "without positions, all tokens are treated alike"
    if not points:
        tried.append(why)
        return
    if surface == "apply_qk" and way.is_pair:
        call = library.wrapped(way.both)
    else:
        surface = "apply"
    found = implementation(
        subject, library, call, surface, way.layout, dim, _words(subject, way, fixed)
    )
    yield points, found


def _order(subject: Subject, convention: Convention) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the roles of the parameters: by their names, else in the convention's order."""
    try:
        order, fixed = roles_in_call(subject.function, subject.facts)
        vectors = {"x", "query", "key"} & set(order.values())
        if vectors:
            return order, fixed
    except Unbound:
        pass
    needed = [n for n, p in subject.signature.items() if p.default is p.empty]
    if len(needed) != len(convention.roles):
        raise Unbound(
            f"{convention.call} has {len(convention.roles)} arguments without a default, "
            f"{subject.words} {len(needed)}"
        )
    return dict(zip(needed, convention.roles, strict=True)), {}


def _sources(subject: Subject, library: Library, tried: list[str]) -> Iterator[Source]:
    """Yield the tables for a rotation: what the user names, else what the file has."""
    like = like_x(library, subject.dtype, subject.head_dims[0])
    places = [subject.table] if subject.table is not None else []
    if not places and subject.owner is not None:
        places = [subject.owner]
    places += [] if subject.table is not None else candidates(subject.scope, subject.function)
    fixed = not getattr(subject.encoding, "depends_on_length", False)
    for place in places:
        for call, words in _makers(place, subject, tried):
            try:
                found = find_source(call, subject.facts, words, like)
                yield replace(found, words=_source_words(found), every_length=fixed)
            except (NoTable, Unbound) as error:
                tried.append(str(error))


def _source_words(source: Source) -> str:
    """Return how a source of rows is called, such as ``precompute_freqs_cis(dim=64, end)``."""
    asked = ("x", "positions", "length", "dtype", "device")
    return f"{source.words}({source.facts.described(source.call, asked)})"


def _makers(
    place: Any, subject: Subject, tried: list[str]
) -> Iterator[tuple[Callable[..., Any], str]]:
    """Yield the callables of a class, object or function that may make tables."""
    words = getattr(place, "__name__", type(place).__name__)
    if inspect.isclass(place):
        try:
            text = f"{words}({subject.facts.described(place)})"
            place, words = make(place, subject.facts), text
        except Unbound as error:
            tried.append(str(error))
            return
    if inspect.isroutine(place) or isinstance(place, functools.partial):
        yield place, words
        return
    main = main_call(place)
    if main is not None and main != subject.function:
        yield calling(place, main), words
    for method in methods(place, MAKES_TABLES):
        if method.__name__ not in (
            "forward",
            "__call__",
            getattr(subject.function, "__name__", ""),
        ):
            yield method, f"{words}.{method.__name__}"


def _words(subject: Subject, way: Rotation, fixed: Mapping[str, Any]) -> str:
    """Return one line that says how a rotation is called."""
    names = [n if way.order[n] != "offset" else f"{n}=first position" for n in way.order]
    names += [f"{name}={value!r}" for name, value in fixed.items()]
    vectors = [n for n, role in way.order.items() if role in ("x", "query", "key")]
    parts = [f"{subject.words}({', '.join(names)})", f"{', '.join(vectors)} {_shape(way.layout)}"]
    if way.part is not None:
        parts.append(f"channels {way.part[0]}:{way.part[1]}")
    if way.source is not None:
        shape = "" if way.shape == "as returned" else f" as {way.shape}"
        whole = "whole table" if way.positions else "rows"
        parts.append(f"{whole} of {way.source.words}{shape}")
    if way.inplace:
        parts.append("in place")
    return "; ".join(parts)


def _shape(layout: str) -> str:
    names = {"bhsd": "(B, H, S, D)", "bshd": "(B, S, H, D)", "sbhd": "(S, B, H, D)",
             "thd": "(T, H, D)", "t(hd)": "(T, H * D)", "bs(hd)": "(B, S, H * D)"}  # fmt: skip
    return names[layout]
