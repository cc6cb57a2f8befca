"""Turn what people have into an implementation of a surface: functions, classes, objects."""

from __future__ import annotations

import functools
import inspect
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from posenc_ref import (
    Attention,
    ConvPositions,
    ModelEncoding,
    PositionRule,
    Rotary,
)
from posenc_ref._text import class_name
from posenc_ref.backends import backend as backend_named
from posenc_ref.conformance.harness.foreign import said
from posenc_ref.conformance.harness.implementation import Declared, Implementation
from posenc_ref.conformance.harness.pace import SECONDS, watch
from posenc_ref.conformance.harness.rope_index import SURFACE as ROPE_INDEX
from posenc_ref.conformance.harness.rope_index import named_otherwise, rope_index
from posenc_ref.conformance.harness.signatures import SURFACES

from .bind_function import others
from .bind_rotation import rotations
from .conventions import CONVENTIONS, NAMES, Convention
from .facts import Facts, facts_of
from .instances import MethodOf
from .known.own_configuration import head_sizes
from .libraries import LIBRARIES, Library, libraries_of
from .refusals import as_named, fits_family, nothing_fits
from .roles import Unbound, role_of
from .rotations import TABLES, VECTORS
from .signatures import signature_of
from .size_order import is_size, named_size, stated_sizes
from .subject import Request, Subject, subjects_of
from .table_search import NoTable
from .trial import PERFECT, SIZES, Hopeless

#: The head sizes to try if nothing states it, for functions that have no tables.
HEAD_DIMS = (64, 128, 32, 96, 80, 256, 16, 24, 40, 48, 72, 112, 160, 192, 8)
#: The most sizes to try that the code of the function has, and that its exceptions have.
_STATED = 12
_NUMBER = re.compile(r"\b\d{1,4}\b")
#: The surfaces that conventions are bound to.
BOUND = tuple(dict.fromkeys(surface for c in CONVENTIONS for surface in c.surfaces))


class NoConvention(ValueError):
    """No calling convention fits a function; the message has the nearest one and its stub."""


class UnusedInit(ValueError):
    """Arguments of ``init`` that nothing takes, in ``names``."""

    def __init__(self, message: str, names: list[str]) -> None:
        super().__init__(message)
        self.names = names


def bind(
    target: Any,
    encoding: Declared = None,
    surface: str | None = None,
    *,
    table: Any = None,
    init: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    signature: str | None = None,
    tensor_layout: str | None = None,
    backend: str | None = None,
    dtype: str = "float32",
    head_dim: int | None = None,
    axes: int = 1,
    name: str | None = None,
    layer_type: str | None = None,
) -> Implementation:
    """Return ``target`` as an implementation of a surface, whatever arguments it takes.

    The parameters of the function are recognised by their names, and small inputs decide between
    the ways that are left: the tensor layout, the shape of tables, the form of positions.

    Parameters
    ----------
    target : callable, class or object
        A function, a method, an object with a ``forward``, ``call`` or ``__call__``, or a class,
        which is instantiated.
    encoding : Encoding or ModelEncoding, optional
        The declared encoding: it gives constructors and tables their sizes and settings.
    surface : str, optional
        The only surface to try.
    table : object, optional
        A class, an object or a function that makes the tables which the function takes. By default
        it is searched for in the function's file.
    init : mapping, optional
        Arguments for constructors and other parameters, by name.
    config : mapping, optional
        The parsed configuration of the model, for constructors that take one.
    signature : str, optional
        The name of the only calling convention to try.
    tensor_layout, backend, dtype, head_dim, axes, name
        As for :func:`posenc_ref.conformance.check`.
    layer_type : str, optional
        What modules get that have an encoding for each type of layer.

    Returns
    -------
    Implementation
        Its ``how`` says in one line how the function is called.

    Raises
    ------
    NoConvention
        Nothing fits; the message names the nearest convention.
    UnusedInit
        ``init`` names no parameter.
    """
    if signature is not None and signature not in NAMES:
        raise ValueError(f"signature must be one of {', '.join(NAMES)}, got {signature!r}")
    if isinstance(encoding, PositionRule):
        if surface not in (None, ROPE_INDEX):
            raise NoConvention(
                f"{name or class_name(target)} does not take the arguments of surface {surface!r}: "
                f"{SURFACES[surface].call}"
            )
        return _numbering(target, encoding, config or {}, init or {}, name, backend)
    if isinstance(encoding, ConvPositions):
        return _convolution(target, encoding, init or {}, name, backend)
    if isinstance(encoding, Attention):
        encoding = encoding.encoding
    if isinstance(encoding, ModelEncoding):
        known = list(dict.fromkeys(e for e in encoding.encodings.values() if e is not None))
        encoding = known[0] if len(known) == 1 else None
    settings = {
        "table": table, "init": init or None, "config": config, "signature": signature,
        "tensor_layout": tensor_layout, "backend": backend, "dtype": dtype,
        "head_dim": head_dim, "axes": axes, "name": name,
        "layer_type": layer_type,
    }  # fmt: skip
    request = Request(
        target, encoding, surface, table, init or {}, config or {}, signature, tensor_layout,
        backend, dtype, encoding.num_axes if isinstance(encoding, Rotary) else axes, [], [],
    )  # fmt: skip
    limit, hopeless = watch(), list[str]()
    for n, (dim, stated) in enumerate(_head_dims(request, head_dim)):
        if hopeless and not stated:
            break
        if n and limit.searched > SECONDS:
            request.tried.insert(
                0,
                f"vectors of {dim} and more sizes were not tried: the search "
                f"for a way of calling the function took {limit.searched:.0f} s",
            )
            break
        known_facts = facts_of(encoding, init, config, dim, layer_type)
        try:
            with limit.searching():
                found, facts = _best_facts(request, known_facts, dim)
        except Hopeless as error:
            hopeless.append(f"vectors of {dim}: {error}")
            request.refusals.clear()
            found = None
        finally:
            request.restore()
        if found is not None and request.axes == 1 and "axes_dim" in facts.used_roles:
            request.tried.append(f"{found.name} has several position axes: pass --axes")
            found = None
        if found is not None:
            unused = sorted(set(init or {}) - facts.used)
            if unused:
                raise UnusedInit(
                    f"init must name parameters of {found.name} or of what makes its tables: "
                    f"neither has {', '.join(unused)}",
                    unused,
                )
            again = functools.partial(bind, target, encoding, surface, **settings)
            fresh = again if isinstance(target, type | MethodOf) else None
            made_by = _stated(facts, encoding=encoding, surface=surface, **settings)
            return replace(
                found,
                name=name or found.name,
                factory=fresh,
                bound={"target": target} | made_by,
            )
    request.tried[:0] = hopeless[:1]
    own = as_named(request, head_dim)
    if own is not None:
        return replace(own, name=name or own.name)
    raise NoConvention(nothing_fits(request))


def _numbering(
    target: Any,
    rule: PositionRule,
    config: Mapping[str, Any],
    init: Mapping[str, Any],
    name: str | None,
    backend: str | None,
) -> Implementation:
    """Return a function that numbers tokens by a rule, called as the surface or by its names."""
    library, words = _libraries(target, backend)[0], name or class_name(target)
    if takes(target, ROPE_INDEX):
        return Implementation(target, ROPE_INDEX, words, rule, library.backend)
    try:
        parameters = signature_of(target).parameters
        return rope_index(target, parameters, library, rule, config, init, words)
    except ValueError as error:
        raise NoConvention(str(error)) from None


def _convolution(
    target: Any,
    encoding: ConvPositions,
    init: Mapping[str, Any],
    name: str | None,
    backend: str | None,
) -> Implementation:
    """Return layers that are called as the surface says, without other conventions."""
    surface = "convolve" if encoding.num_axes == 1 else "convolve_grid"
    library, words = _libraries(target, backend)[0], name or class_name(target)
    try:
        call = target(**init) if isinstance(target, type) else target
    except Exception as error:
        raise NoConvention(
            f"{words} cannot be built ({said(error)}): pass --init, or a function "
            f"{SURFACES[surface].call}"
        ) from error
    return Implementation(call, surface, words, encoding, library.backend)


def _best_facts(request: Request, facts: Facts, dim: int) -> tuple[Implementation | None, Facts]:
    """Return the best way of calling the target, and the facts that it needs.

    With several position axes, the ``dim`` of constructors may be the size of a head, or the part
    of it that each axis turns.
    """
    points, found = _found(request, facts, dim)
    if points >= PERFECT or request.axes == 1 or not isinstance(request.encoding, Rotary):
        return found, facts
    part = dim // request.axes
    roles = dict.fromkeys(("rotary_dim", "width"), part)
    other = replace(facts, by_role={**facts.by_role, **roles})
    more, again = _found(request, other, dim)
    return (again, other) if more > points else (found, facts)


def _stated(facts: Facts, **arguments: Any) -> dict[str, Any]:
    """Return the arguments of :func:`bind` that change what it returns, apart from the name."""
    defaults = inspect.signature(bind).parameters
    unread = {"name"} if "config" in facts.used_roles else {"name", "config"}
    return {n: v for n, v in arguments.items() if n not in unread and v is not defaults[n].default}


def _found(request: Request, facts: Facts, dim: int) -> tuple[int, Implementation | None]:
    """Return the best way of calling the target: rotations first, then other functions."""
    try:
        subjects = list(subjects_of(request, facts, dim))
    except (KeyboardInterrupt, ValueError, TypeError, ImportError):
        raise
    except BaseException as error:
        raise NoConvention(
            f"the attributes of {class_name(request.target)} cannot be read ({said(error)}): wrap "
            "it in a function"
        ) from error
    for sizes, rotates in itertools.product(SIZES, (True, False)):
        for subject in subjects:
            rows = [c for c in _fitting(subject) if c.rotates is rotates]
            if not rotates and sizes != SIZES[0]:
                continue
            points, found = _best(replace(subject, sizes=sizes), rows)
            if found is not None:
                return points, found
    return 0, None


def takes(function: Callable[..., Any], surface: str) -> bool:
    """Return whether ``function`` takes exactly the positional arguments of ``surface``."""
    if surface not in SURFACES:
        return True  # the caller refuses it
    most = len(SURFACES[surface].arguments)
    exact = surface in (*BOUND, ROPE_INDEX) and surface != "frequencies"
    counts = (most,) if exact else range(most + 1)
    for count in counts:
        try:
            signature = signature_of(function)
            if surface == ROPE_INDEX and named_otherwise(signature.parameters):
                return False
            signature.bind(*[None] * count)
        except TypeError:
            continue
        except ValueError:  # no signature, as of functions in C
            return True
        return True
    return False


def _head_dims(request: Request, head_dim: int | None) -> Iterator[tuple[int, bool]]:
    """Yield the sizes of a head to try, and whether a size is the usual one, or stated.

    The code of the function states sizes, and so do the messages of its exceptions.
    """
    if isinstance(request.encoding, Rotary):
        head_dim = request.encoding.head_dim
    if head_dim is not None:
        yield head_dim, False
        return
    target = request.target
    known = target.owner if isinstance(target, MethodOf) else target
    stated = list(dict.fromkeys(stated_sizes(known)))[:_STATED]
    named = [n for n in stated[:1] if n == named_size(known)]
    if request.encoding is None:
        named += [n for n in head_sizes(known, request.init) if is_size(n)]
    seen = {*named, HEAD_DIMS[0]}
    yield from ((dim, True) for dim in (*named, HEAD_DIMS[0]))
    said = Counter(int(n) for text in request.tried for n in _NUMBER.findall(text))
    common = [n for n, _ in said.most_common(_STATED) if is_size(n)]
    every = dict.fromkeys((*stated, *common, *(2 * n for n in common)))
    left = [n for n in every if n not in seen]
    yield from ((dim, True) for dim in left)
    yield from ((dim, False) for dim in HEAD_DIMS if dim not in {*seen, *left})


def _best(subject: Subject, rows: list[Convention]) -> tuple[int, Implementation | None]:
    """Return the best score, and its way of calling, or None."""
    best: tuple[int, Implementation | None] = (0, None)
    request = subject.request
    for library in _libraries(
        subject.owner if subject.owner is not None else subject.function, subject.request.backend
    ):
        if backend_named(library.backend).missing() is not None:
            continue
        for convention in rows:
            maker = rotations if convention.rotates else others
            try:
                for points, found in maker(subject, library, convention):
                    if points > best[0]:
                        best = (points, found)
                    if points >= PERFECT:
                        return points, found
            except (Unbound, NoTable) as error:
                request.tried.append(f"{convention.name}: {error}")
            if best[0] >= PERFECT and not convention.rotates:
                return best
    return best


def _libraries(target: Any, backend: str | None) -> list[Library]:
    """Return the libraries to try: the one that the user names, or those that the code names."""
    if backend is None:
        return libraries_of(target)
    return [LIBRARIES.get(backend, Library(backend, backend))]


def _fitting(subject: Subject) -> Iterator[Convention]:
    """Yield the conventions to try, by the declared encoding, the surface and the roles."""
    request = subject.request
    for convention in CONVENTIONS:
        if request.signature not in (None, convention.name):
            continue
        if request.surface is not None and request.surface not in convention.surfaces:
            continue
        if not any(fits_family(s, request.encoding) for s in convention.surfaces):
            continue
        if convention.rotates and request.signature is None and not _may_be(convention, subject):
            continue
        yield convention


def _may_be(convention: Convention, subject: Subject) -> bool:
    """Return whether the names of the parameters leave a convention open."""
    roles = {role_of(name) for name in subject.signature}
    required = {
        role_of(n) for n, p in subject.signature.items() if p.default is inspect.Parameter.empty
    }
    if {"cos", "sin", *TABLES} & required and not convention.table:
        return False
    known = roles & {*VECTORS} - {"value"}
    known = {"x"} if known == {"query"} else known
    wanted = set(convention.roles) & set(VECTORS)
    return not known or (
        wanted <= known and ("x" not in wanted or {"query", "key"} - known != set())
    )
