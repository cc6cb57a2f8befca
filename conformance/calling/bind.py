"""Turn what people have into an implementation of a surface: functions, classes, objects."""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posenc_ref import Bias, Encoding, ModelEncoding, MultiAxisRoPE, RoPE, Rotary, Table
from posenc_ref.backends import backend as backend_named
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.harness.signatures import SURFACES

from . import functions
from .conventions import CONVENTIONS, NAMES, Convention
from .facts import Facts, facts_of
from .instances import MAKES_TABLES, ROTATES, MethodOf, candidates, main_call, make, methods
from .libraries import Library, backend_of, libraries_of
from .libraries import LIBRARIES
from .roles import Unbound, role_of
from .rotations import Rotation, roles_in_call, ways
from .tables import NoTable, Source, find_source
from .trial import PERFECT, returns_none, score

#: The head sizes to try if nothing states it, for functions that have no tables.
HEAD_DIMS = (64, 128, 32, 96, 80, 256, 16)
#: The surfaces that conventions are bound to.
BOUND = tuple(dict.fromkeys(surface for c in CONVENTIONS for surface in c.surfaces))


class NoConvention(ValueError):
    """No calling convention fits a function; the message has the nearest one and its stub."""


@dataclass(frozen=True)
class _Subject:
    """A function to be bound, and everything that is known about it."""

    function: Callable[..., Any]
    owner: Any  #: the object that it is a method of, or None
    facts: Facts
    words: str
    encoding: Encoding | None
    scope: dict[str, Any]  #: the names of its file
    table: Any  #: the object that the user names for its tables, or None
    head_dims: tuple[int, ...]
    part: tuple[int, int] | None
    axes: int
    dtype: str
    layout: str | None

    @functools.cached_property
    def signature(self) -> Mapping[str, inspect.Parameter]:
        """Return the parameters of the function."""
        return inspect.signature(self.function).parameters


def bind(
    target: Any,
    encoding: Encoding | ModelEncoding | None = None,
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

    Returns
    -------
    Implementation
        Its ``how`` says in one line how the function is called.

    Raises
    ------
    NoConvention
        Nothing fits; the message names the nearest convention.
    """
    if signature is not None and signature not in NAMES:
        raise ValueError(f"signature must be one of {', '.join(NAMES)}, got {signature!r}")
    if isinstance(encoding, ModelEncoding):
        known = list(dict.fromkeys(e for e in encoding.encodings.values() if e is not None))
        encoding = known[0] if len(known) == 1 else None
    settings = {
        "encoding": encoding, "surface": surface, "table": table, "init": init, "config": config,
        "signature": signature, "tensor_layout": tensor_layout, "backend": backend,
        "dtype": dtype, "head_dim": head_dim, "axes": axes, "name": name,
    }  # fmt: skip
    several = encoding.num_axes if isinstance(encoding, Rotary) else axes
    tried: list[str] = []
    sizes = _head_dims(encoding, head_dim)
    for size in sizes:
        facts = facts_of(encoding, init, config, size)
        subjects = [*_subjects(target, facts, encoding, table, (size,), several, dtype,
                               tensor_layout, tried)]  # fmt: skip
        for rotates, subject in itertools.product((True, False), subjects):
            rows = [c for c in _fitting(subject, surface, signature) if c.rotates is rotates]
            found = _best(subject, rows, surface, backend, tried)
            if found is not None:
                again = functools.partial(bind, target, **settings)
                fresh = again if isinstance(target, type | MethodOf) else None
                return replace(found, name=name or subject.words, factory=fresh)
        if not isinstance(target, type) and encoding is not None:
            break
    if surface in (None, "apply") and signature is None and _takes_two(target):
        return Implementation(
            target, "apply", name or _name(target), encoding, backend or "numpy",
            tensor_layout or "bhsd", head_dim,
        )  # fmt: skip
    raise NoConvention(_nothing_fits(target, surface, signature, tried))


def _name(target: Any) -> str:
    return str(getattr(target, "__qualname__", type(target).__name__))


def _takes_two(target: Any) -> bool:
    """Return whether a function has the signature fn(x, positions), though every call failed."""
    if not inspect.isroutine(target):
        return False
    try:
        signature = inspect.signature(target)
        signature.bind(None, None)
    except (TypeError, ValueError):
        return False
    roles = {role_of(name) for name in signature.parameters}
    return len(signature.parameters) == 2 and roles <= {"x", "positions", None}


def takes(function: Callable[..., Any], surface: str) -> bool:
    """Return whether ``function`` takes exactly the positional arguments of ``surface``."""
    most = len(SURFACES[surface].arguments)
    counts = range(most + 1) if surface not in BOUND or surface == "frequencies" else (most,)
    for count in counts:
        try:
            inspect.signature(function).bind(*[None] * count)
        except TypeError:
            continue
        except ValueError:  # no signature, as of functions in C
            return True
        return True
    return False


def _head_dims(encoding: Encoding | None, head_dim: int | None) -> tuple[int, ...]:
    if isinstance(encoding, Rotary):
        return (encoding.head_dim,)
    return (head_dim,) if head_dim is not None else HEAD_DIMS


def _subjects(
    target: Any, facts: Facts, encoding: Encoding | None, table: Any, sizes: tuple[int, ...],
    axes: int, dtype: str, layout: str | None, tried: list[str],
) -> Iterator[_Subject]:  # fmt: skip
    """Yield the functions that ``target`` may mean: itself, its call, or one of its methods."""
    part = None
    if isinstance(encoding, RoPE) and encoding.rotary_dim not in (None, encoding.head_dim):
        part = (encoding.rotary_start, encoding.rotary_start + (encoding.rotary_dim or 0))
    owner: Any = None
    text = getattr(target, "__qualname__", type(target).__name__)
    found: list[tuple[Callable[..., Any], str]] = []
    method = target.name if isinstance(target, MethodOf) else None
    cls = target.owner if isinstance(target, MethodOf) else target
    if inspect.isclass(cls):
        try:
            owner, text = make(cls, facts), f"{cls.__name__}({facts.described(cls)})"
        except Unbound as error:
            tried.append(str(error))
            return
    elif not inspect.isroutine(target) and not isinstance(target, functools.partial):
        owner = target
    if method is not None:
        found = [(getattr(owner, method), f"{text}.{method}")]
    elif owner is None:
        found = [(target, text)]
        owner = getattr(target, "__self__", None)
    else:
        main = main_call(owner)
        found = [] if main is None else [(_calling(owner, main), text)]
        found += [
            (m, f"{text}.{m.__name__}") for m in methods(owner, ROTATES) if m.__name__ != "forward"
        ]
        if not found:
            tried.append(f"{text} has no forward, call, __call__ or method that rotates")
    for function, words in found:
        plain = inspect.unwrap(getattr(function, "func", function))
        scope = getattr(plain, "__globals__", None) or getattr(
            sys.modules.get(getattr(plain, "__module__", "") or ""), "__dict__", {}
        )
        if owner is not None and not scope:
            scope = vars(sys.modules[type(owner).__module__])
        try:
            inspect.signature(function)
        except (TypeError, ValueError):
            tried.append(f"{words} has no signature that Python can read")
            continue
        yield _Subject(
            function, owner, facts, words, encoding, scope, table, sizes, part, axes, dtype, layout
        )


def _calling(owner: Any, main: Callable[..., Any]) -> Callable[..., Any]:
    """Return the object itself, which may do more than its ``forward``, with that signature."""
    if not callable(owner) or main.__name__ == "__call__":
        return main

    @functools.wraps(main)
    def call(*args: Any, **kwargs: Any) -> Any:
        return owner(*args, **kwargs)

    return call


def _best(
    subject: _Subject, rows: list[Convention], surface: str | None, backend: str | None,
    tried: list[str],
) -> Implementation | None:  # fmt: skip
    """Return the way of calling with the best score, or None."""
    best: tuple[int, Implementation | None] = (0, None)
    owner = subject.owner if subject.owner is not None else subject.function
    libraries = [LIBRARIES[backend]] if backend in LIBRARIES else libraries_of(owner)
    if backend is not None and backend not in LIBRARIES:
        libraries = [Library(backend, backend)]
    for library in libraries:
        if backend_named(library.backend).missing() is not None:
            continue
        for points, found in _ways(subject, library, rows, surface, tried):
            if points > best[0]:
                best = (points, found)
            if points >= PERFECT:
                return found
    return best[1]


def _ways(
    subject: _Subject, library: Library, rows: list[Convention], surface: str | None,
    tried: list[str],
) -> Iterator[tuple[int, Implementation]]:  # fmt: skip
    """Yield scored implementations of the conventions."""
    for convention in rows:
        maker = _rotations if convention.rotates else _others
        try:
            yield from maker(subject, library, convention, surface, tried)
        except (Unbound, NoTable) as error:
            tried.append(f"{convention.name}: {error}")


def _fitting(
    subject: _Subject, surface: str | None, signature: str | None
) -> Iterator[Convention]:
    """Yield the conventions to try, by the declared encoding, the surface and the roles."""
    roles = {role_of(name) for name in subject.signature}
    for convention in CONVENTIONS:
        if signature not in (None, convention.name):
            continue
        if surface is not None and surface not in convention.surfaces:
            continue
        if not any(_fits_family(s, subject.encoding) for s in convention.surfaces):
            continue
        if convention.rotates and signature is None:
            vectors = {"query", "key"} & set(convention.roles) or {"x"}
            if not vectors <= roles and any(r in roles for r in ("query", "key", "x")):
                continue
            if {"query", "key"} <= roles and "x" in convention.roles:
                continue
        yield convention


def _fits_family(surface: str, encoding: Encoding | None) -> bool:
    if encoding is None:
        return True
    families = SURFACES[surface].families
    if isinstance(encoding, Rotary):
        return "rotary" in families
    if isinstance(encoding, Table):
        return "table" in families
    return not isinstance(encoding, Bias) or not {"rotary", "table"} & set(families)


# --- rotations ------------------------------------------------------------------------------------


def _rotations(
    subject: _Subject, library: Library, convention: Convention, surface: str | None,
    tried: list[str],
) -> Iterator[tuple[int, Implementation]]:  # fmt: skip
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
            points, why = score(direct, library.backend, layout, dim, subject.dtype, subject.axes)
            if points:
                words = f"{subject.words}(x, positions), x {_shape(layout)}"
                yield points, _implementation(subject, library, direct, "apply", layout, dim, words)
        for way in ways(function, order, subject.facts, layouts, sources, subject.part):
            yield from _scored(subject, library, way, wanted, dim, fixed, tried)


def _plain(subject: _Subject, convention: Convention, fixed: Mapping[str, Any]) -> bool:
    """Return whether the function is called as the surface ``apply`` calls: fn(x, positions)."""
    if convention.name != "x-positions" or fixed:
        return False
    placed = [p for p in subject.signature.values()
              if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]  # fmt: skip
    needed = [p for p in placed if p.default is p.empty]
    return len(needed) == 2 and role_of(needed[0].name) not in ("positions", "offset")


def _scored(
    subject: _Subject, library: Library, way: Rotation, surface: str, dim: int,
    fixed: Mapping[str, Any], tried: list[str],
) -> Iterator[tuple[int, Implementation]]:  # fmt: skip
    call = library.wrapped(way)
    if returns_none(call, library.backend, way.layout, dim, subject.dtype):
        way = replace(way, inplace=True)
        call = library.wrapped(way)
    points, why = score(call, library.backend, way.layout, dim, subject.dtype, subject.axes)
    if points and not way.positions and way.source is None and points < 8:
        points, why = 0, "without positions, all tokens are treated alike"
    if not points:
        tried.append(why)
        return
    if surface == "apply_qk" and way.is_pair:
        call = library.wrapped(way.both)
    else:
        surface = "apply"
    found = _implementation(
        subject, library, call, surface, way.layout, dim, _words(subject, way, fixed)
    )
    yield points, found


def _order(subject: _Subject, convention: Convention) -> tuple[dict[str, str], dict[str, Any]]:
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


def _sources(subject: _Subject, library: Library, tried: list[str]) -> Iterator[Source]:
    """Yield the tables for a rotation: what the user names, else what the file has."""
    like = _like(library, subject.dtype, subject.head_dims[0])
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
    place: Any, subject: _Subject, tried: list[str]
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
        yield _calling(place, main), words
    for method in methods(place, MAKES_TABLES):
        if method.__name__ not in ("forward", "__call__", getattr(subject.function, "__name__", "")):
            yield method, f"{words}.{method.__name__}"


# --- other surfaces -------------------------------------------------------------------------------


def _others(
    subject: _Subject, library: Library, convention: Convention, surface: str | None,
    tried: list[str],
) -> Iterator[tuple[int, Implementation]]:  # fmt: skip
    kind = convention.surfaces[0]
    like = _like(library, subject.dtype, subject.head_dims[0])
    made = backend_named(library.backend)
    try:
        call = _other(kind, subject, like, made)
    except Exception as error:
        tried.append(f"{convention.name}: {type(error).__name__}: {error}")
        return
    words = f"{subject.words}({subject.facts.described(subject.function, _ASKED[kind])})"
    yield (
        PERFECT,
        _implementation(subject, library, call, kind, "bhsd", subject.head_dims[0], words),
    )


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


def _other(kind: str, subject: _Subject, like: Any, made: Any) -> Callable[..., Any]:
    from .tables import _namespace

    function, facts, xp = subject.function, subject.facts, _namespace(like)
    if kind == "frequencies":
        return functions.frequencies(function, facts)
    if kind == "slopes":
        return functions.slopes(function, facts)
    if kind == "bucket":
        return functions.bucket(function, facts, xp.arange(-5, 6))
    if kind == "bias":
        return functions.bias(function, facts, xp)
    if kind == "table":
        return functions.table(function, facts, like, subject.words)
    if kind == "add":
        return functions.add(function, facts, subject.head_dims[0], xp)
    source = find_source(function, facts, subject.words, like)

    def cos_sin(positions: Any) -> tuple[Any, Any]:
        found = source.cos_sin(source.rows(like, positions)).parts
        return found[0], found[1]

    return cos_sin


# --- what is shared -------------------------------------------------------------------------------


def _like(library: Library, dtype: str, dim: int) -> Any:
    """Return an array of the library, such as x, for calls that need one."""
    made = backend_named(library.backend)
    return made.asarray(np.zeros((1, 1, 1, dim)), dtype, None)


def _implementation(
    subject: _Subject, library: Library, call: Callable[..., Any], surface: str, layout: str,
    dim: int, words: str,
) -> Implementation:  # fmt: skip
    return Implementation(
        call,
        surface,
        subject.words,
        subject.encoding,
        backend=library.backend,
        tensor_layout=layout,
        head_dim=dim if surface in ("apply", "apply_qk") else None,
        axes=subject.axes,
        how=words,
    )


def _words(subject: _Subject, way: Rotation, fixed: Mapping[str, Any]) -> str:
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


def _nothing_fits(
    target: Any, surface: str | None, signature: str | None, tried: list[str]
) -> str:
    name = getattr(target, "__qualname__", type(target).__name__)
    try:
        owner = main_call(target) if not inspect.isroutine(target) else target
        takes = str(inspect.signature(owner or target))
        roles = {role_of(n) for n in inspect.signature(owner or target).parameters}
    except (TypeError, ValueError):
        takes, roles = "(...)", set()
    rows = [c for c in CONVENTIONS if surface is None or surface in c.surfaces]
    rows = [NAMES[signature]] if signature is not None else rows or list(CONVENTIONS)
    nearest = max(rows, key=lambda c: len(roles & set(c.roles)) - len(set(c.roles) - roles))
    reasons = list(dict.fromkeys(tried))[-3:]
    lines = [f"no calling convention fits {name}{takes}"]
    lines += [f"  tried: {reason}" for reason in reasons]
    lines += [f"nearest is {nearest.name!r}: {nearest.call}; write", *nearest.stub.splitlines(),
              "or choose with --signature and --tensor-layout; `posenc explain signatures` lists "
              "the conventions"]  # fmt: skip
    return "\n".join(lines)


__all__ = ["BOUND", "NoConvention", "bind", "backend_of"]
