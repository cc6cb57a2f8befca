"""Bind functions that do not rotate: tables, frequencies, slopes, buckets and biases."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from posenc_ref._namespace import namespace
from posenc_ref.conformance.harness.foreign import Refused, refusals
from posenc_ref.conformance.harness.implementation import Implementation

from . import functions
from .conventions import Convention
from .libraries import Library
from .roles import parameters
from .subject import Subject
from .table_search import find_source
from .tables import WINDOWS
from .trial import PERFECT

#: The roles of the arguments that a surface passes.
_ASKED = {
    "frequencies": ("length", "device", "x"),
    "slopes": ("num_heads", "dtype", "device", "length"),
    "bucket": ("relative_position",),
    "bias": ("query_length", "key_length", "length", "num_heads", "start", "offset", "tokens",
             "dtype", "device"),
    "table": ("x", "positions", "length", "dtype", "device"),
    "cos_sin": ("x", "positions", "length", "dtype", "device"),
    "add": ("x",),
}  # fmt: skip


def others(
    subject: Subject, library: Library, convention: Convention
) -> Iterator[tuple[int, Implementation]]:
    """Yield the implementation of a function that does not rotate, if a call succeeds."""
    kind = convention.surfaces[0]
    subject = replace(subject, function=library.wrapped(subject.function))
    try:
        with refusals():
            like = subject.like_x(library)
            axes = ""
            if kind == "add":
                call, axes = functions.add(subject.function, subject.dim, namespace(like))
                asked = _ASKED[kind]
            else:
                call, asked = _called(kind, subject, like)
    except Refused as error:
        subject.request.tried.append(f"{convention.name}: {error}")
        return
    kept = functions.own_length(subject.function) if kind in ("bias", "bucket") else ()
    how = f"{subject.words}({subject.facts.described(subject.function, asked, kept)})"
    how += f"; x {axes}" if axes else ""
    yield PERFECT, subject.implementation(library, call, kind, "bhsd", how)


def _called(kind: str, subject: Subject, like: Any) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """Return the function as one of a surface, and the roles of the arguments that it gets."""
    function, facts, xp = subject.function, subject.facts, namespace(like)
    if kind == "frequencies":
        return functions.frequencies(function, facts), _ASKED[kind]
    if kind == "slopes":
        return functions.slopes(function, facts), _ASKED[kind]
    if kind == "bucket":
        return functions.bucket(function, facts, xp.arange(-5, 6)), _ASKED[kind]
    if kind == "bias":
        return functions.bias(function, facts, xp), _ASKED[kind]
    source = find_source(function, facts, subject.words, like)
    asked = (*_ASKED[kind], *(("tokens", "start", "offset") if source.kind in WINDOWS else ()))
    if kind == "table":
        return functions.table(source, like), asked
    if source.form == "angles" and "num_heads" in parameters(function):
        raise ValueError("a number of heads gives slopes, and no angles")
    return functools.partial(source.cos_sin_at, like), asked
