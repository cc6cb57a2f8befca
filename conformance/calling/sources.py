"""Find the tables that a rotation takes: in its file, or made by what the user names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref._namespace import namespace, to_host

from .axes_tables import EACH, AxesSource, axes_sources
from .facts import Facts
from .grids import SIZES
from .instances import MAKES_TABLES, Made, candidates, likeness, main_call, methods, objects_of
from .libraries import Library
from .roles import Unbound, role_of
from .signatures import is_function, signature_of
from .subject import Subject, calling, same_call
from .table_search import NoTable, find_source
from .tables import AT_POSITIONS, Source


def sources_of(subject: Subject, library: Library) -> list[Source]:
    """Return the tables for a rotation: what the user names, else what the file has."""
    request = subject.request
    key = (id(subject.function), id(subject.facts), library.name)
    if key not in request.sources:  # kept with the subject, so that no other has its id
        before = len(request.tried)
        found = list(_found(subject, library))
        request.sources[key] = (subject, found, request.tried[before:])
    else:
        request.tried.extend(request.sources[key][2])
    return list(request.sources[key][1])


def _found(subject: Subject, library: Library) -> Iterator[Source]:
    """Yield the tables, searched for anew."""
    request, like = subject.request, subject.like_x(library)
    if request.table is not None:
        places = [request.table]
    else:
        owner = [subject.owner] if subject.owner is not None else []
        places = [*owner, *candidates(subject.scope, subject.function)]
    axes = (request.axes,) if request.axes > 1 else ()
    fixed = not getattr(request.encoding, "depends_on_length", False)
    name = getattr(subject.function, "__name__", "")
    failed: dict[str, tuple[tuple[int, bool, bool], str]] = {}
    for place in places:
        known, tried = len(request.made), len(request.tried)
        words_of_place = getattr(place, "__name__", "")
        like_place = likeness(name, words_of_place, place)
        instead = "; ".join(why for other, why in failed.values() if other <= like_place)
        found_any = False
        served = set()  # the methods that give tables, for one way to state the size of a grid
        for call, words, made in _makers(place, subject):
            if call.__name__ in served:
                continue
            facts = _agreeing(subject, call)
            try:
                found = find_source(call, facts, words, like, axes)
                if request.table is None and _is_zero(found, like):
                    raise NoTable(f"{words} returns no table of cos and sin: all rows are 0")
                if request.axes == 1 or found.kind in AT_POSITIONS:
                    found_any = True
                    yield replace(
                        found, words=_source_words(found), every_length=fixed, instead=instead
                    )
            except (NoTable, Unbound) as error:
                request.tried.append(str(error))
            if request.axes == 1:
                continue
            try:
                for several in _axes_sources(call, words, made, subject, facts, like):
                    served.add(call.__name__)
                    found_any = True
                    yield replace(several, words=_source_words(several), instead=instead)
            except (NoTable, Unbound) as error:
                request.tried.append(str(error))
        if not found_any:
            del request.made[known:]  # nothing calls these again
            if inspect.isclass(place) and like_place[0] < 0:
                why = next(iter(request.tried[tried:]), "it has no method that makes a table")
                failed[words_of_place] = like_place, why


def _is_zero(source: Source, like: Any) -> bool:
    """Return whether two rows hold nothing but 0, as of functions that pass their input on."""
    return not any(
        np.any(to_host(part)) for part in source.rows(like, namespace(like).arange(2)).parts
    )


def _axes_sources(
    call: Callable[..., Any],
    words: str,
    made: Made | None,
    subject: Subject,
    facts: Facts,
    like: Any,
) -> Iterator[AxesSource]:
    """Return the tables of several axes that a callable gives."""
    owner = made.owner if made is not None else None
    if made is None or made.grid is None:
        return axes_sources(call, facts, words, like, subject.request.axes, owner)

    def called(sizes: tuple[int, ...]) -> Callable[..., Any]:
        assert made.again is not None
        return same_call(made.again(sizes), call)

    return axes_sources(call, facts, words, like, subject.request.axes, owner, made.grid, called)


def _agreeing(subject: Subject, maker: Callable[..., Any]) -> Facts:
    """Return the facts, with the rotation's defaults for switches that the maker has too.

    In diffusers, ``use_real`` of both says whether tables are complex, with opposite defaults.
    """
    takes = signature_of(maker).parameters
    switches = {
        name: p.default
        for name, p in subject.signature.items()
        if isinstance(p.default, bool) and role_of(name) is None and name in takes
    }
    return replace(subject.facts, by_name={**switches, **subject.facts.by_name})


def _source_words(source: Source) -> str:
    """Return how a source of rows is called, such as ``precompute_freqs_cis(dim=64, end)``."""
    asked: tuple[str, ...] = ("x", "positions", "length", "dtype", "device", *EACH)
    grid = source.grid if isinstance(source, AxesSource) else None
    asked += SIZES if grid is not None else ()
    words = f"{source.words}({source.facts.described(source.call, asked)})"
    return words if grid is None else f"{words} of {grid.words}"


def _makers(place: Any, subject: Subject) -> Iterator[tuple[Callable[..., Any], str, Made | None]]:
    """Yield the callables of a class, object or function that may make tables."""
    words = getattr(place, "__name__", type(place).__name__)
    if inspect.isclass(place):
        try:
            every = list(objects_of(place, subject.facts, subject.request.axes))
            for made in every:
                subject.request.remember(made.owner)
        except Unbound as error:
            subject.request.tried.append(str(error))
            return
    elif is_function(place):
        yield place, words, None
        return
    else:
        every = [Made(place, words)]
    own = getattr(subject.function, "__name__", "")
    for made in every:
        main = main_call(made.owner)
        if main is not None and main != subject.function:
            yield calling(made.owner, main), made.words, made
        for method in methods(made.owner, MAKES_TABLES):
            if method.__name__ != own:
                yield method, f"{made.words}.{method.__name__}", made
