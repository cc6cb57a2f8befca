"""Make objects of classes, and find the method of an object that does the work."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref.conformance.harness.foreign import Refused, refusals

from .facts import Facts
from .grid_search import grids_of, rows_and_columns
from .grids import SIZES, Grid
from .libraries import dtype_for
from .roles import Unbound, role_of
from .signatures import signature_of
from .size_order import own_members

#: Words in the names of methods that rotate, and of functions and methods that make tables.
ROTATES = frozenset({"apply", "rotate", "rope", "rotary", "rot"})
MAKES_TABLES = frozenset(
    {"angles", "cache", "cis", "cos", "cossin", "emb", "embed", "embedding", "freq", "freqs",
     "frequencies", "pos", "positional", "precompute", "rope", "rot", "rotary", "rotations", "sin",
     "sincos", "sinusoid", "sinusoidal", "table", "tables"}
)  # fmt: skip


#: Words in the names of what serves another kind of input than text.
_KINDS_OF_INPUT = frozenset({"vision", "visual", "image", "video", "audio"})
#: Layers of torch, Keras and Flax with learned weights.
_LEARNED = re.compile(r"\b(nn|layers|torch\.nn|nnx)\.(Linear|Conv[123]d|Dense|Embedding)\(")


@dataclass(frozen=True)
class MethodOf:
    """A method of a class that is still to be instantiated."""

    owner: type
    name: str

    @property
    def __name__(self) -> str:
        return f"{self.owner.__name__}.{self.name}"


def make(cls: type, facts: Facts) -> Any:
    """Return an object of ``cls``, made from what is known.

    Raises
    ------
    Unbound
        A required parameter of the constructor has no known value, or the constructor fails.
    """
    also = {"dtype": dtype_for(cls), "device": "cpu"}
    try:
        arguments = facts.arguments(cls, also, tuple(also))
        with refusals():
            made = cls(**arguments)
    except Unbound as error:
        raise Unbound(f"{cls.__name__}: {error}; give it with --init NAME=VALUE") from None
    except Refused as error:
        raise Unbound(
            f"{cls.__name__}({facts.described(cls)}) could not be made: {error}; "
            "change an argument with --init NAME=VALUE"
        ) from error
    return made.eval() if hasattr(made, "eval") and hasattr(made, "parameters") else made


@dataclass(frozen=True)
class Made:
    """An object to call; ``again`` makes one for another grid, if its class takes the size."""

    owner: Any
    words: str
    grid: Grid | None = None
    again: Callable[[tuple[int, ...]], Any] | None = None


def objects_of(cls: type, facts: Facts, axes: int) -> Iterator[Made]:
    """Yield objects of ``cls``: one, or one for each way to state the size of a grid.

    Raises
    ------
    Unbound
        No object can be made.
    """
    names = list(signature_of(cls).parameters)
    sizes = {role_of(name) for name in names} & set(SIZES)
    given = any(role_of(name) in SIZES for name in names if name in facts.by_name)
    if axes == 1 or given or not sizes or not rows_and_columns(facts):
        yield Made(make(cls, facts), f"{cls.__name__}({facts.described(cls)})")
        return
    why: list[Unbound] = []
    grids = list(grids_of(cls, None, facts, axes))
    for grid in grids:
        known = grid.facts(facts, grid.sizes(np.zeros((axes, 1), dtype=int) + 4))

        @functools.lru_cache(maxsize=8)
        def again(sizes: tuple[int, ...], grid: Grid = grid) -> Any:
            return make(cls, grid.facts(facts, sizes))

        words = f"{cls.__name__}({known.described(cls, SIZES)})"
        try:
            made = make(cls, known)
        except Unbound as error:
            why.append(error)
            continue
        yield Made(made, words, grid, again)
    if len(why) == len(grids):
        raise why[0]


def made_for(cls: type, facts: Facts) -> int | None:
    """Return the number of positions that an object of ``cls`` is made for, if it has a limit."""
    also = dict.fromkeys(("dtype", "device"), ...)
    for name, value in facts.arguments(cls, also, tuple(also)).items():
        if role_of(name) == "length" and isinstance(value, int):
            return value
    return None


def main_call(instance: Any) -> Callable[..., Any] | None:
    """Return the method that an object of a framework defines as its call, or None.

    Where that method hands all its arguments on, as in vLLM, the ``forward_native`` that it calls
    on a CPU has the names.
    """
    instance = getattr(instance, "_orig_mod", instance)  # torch.compile
    kind = type(instance)
    scripted = getattr(instance, "forward", None)
    if hasattr(scripted, "schema"):
        return scripted
    for name in ("forward", "call", "__call__"):
        own = getattr(kind, name, None)
        module = getattr(own, "__module__", "") or ""
        if inspect.isfunction(own) and not module.startswith(("torch.", "keras.", "flax.")):
            native = getattr(instance, f"{name.strip('_')}_native", None)
            found = native if hands_on(own) and native is not None else getattr(instance, name)
            return found  # type: ignore[no-any-return]
    return None


def hands_on(function: Callable[..., Any]) -> bool:
    """Return whether a method names no argument: it takes ``*args`` and ``**kwargs`` alone."""
    kinds = {p.kind for p in list(inspect.signature(function).parameters.values())[1:]}
    return bool(kinds) and kinds <= {
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.VAR_KEYWORD,
    }


def words_of(name: str) -> frozenset[str]:
    """Return the words of a name such as ``RotaryEmbedding`` or ``precompute_freqs_cis``."""
    return frozenset(word.lower() for word in re.findall("[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name))


def methods(instance: Any, words: frozenset[str]) -> Iterator[Callable[..., Any]]:
    """Yield the methods with one of the words that no framework defines."""
    for name, value in own_members(type(instance)).items():
        plain = value.__func__ if isinstance(value, staticmethod) else value
        if isinstance(value, functools.partialmethod):
            plain = value.func
        private = name.startswith("__") or name in ("forward", "call")
        if inspect.isfunction(plain) and words & words_of(name) and not private:
            method = getattr(instance, name)
            if isinstance(method, functools.partial):
                functools.update_wrapper(method, method.func).__name__ = name
            yield method


def candidates(scope: Mapping[str, Any], target: Any) -> Iterator[Any]:
    """Yield classes and functions of a file that may make tables for ``target``, likely ones first.

    Names that share words with the target's name come first, and those that are not of another
    kind of input, such as vision; so do classes.  Classes with learned maps make no tables.
    """
    module = scope.get("__name__")
    name = getattr(target, "__name__", "")
    found = []
    for own, value in scope.items():
        if value is target or own.startswith(("__", "test_")):  # tests may do anything
            continue
        if getattr(value, "__module__", None) != module or not MAKES_TABLES & words_of(own):
            continue
        if inspect.isfunction(value) or (inspect.isclass(value) and not _learns(value)):
            found.append((own, value))
    yield from (value for _, value in sorted(found, key=lambda item: likeness(name, *item)))


def likeness(name: str, own: str, value: Any) -> tuple[int, bool, bool]:
    """Return how far what has the name ``own`` is from making tables for ``name``; least is next.

    A rotation that does not say so is no rotation of images.
    """
    words = words_of(name)
    other = bool((_KINDS_OF_INPUT & words_of(own)) - words)
    return -len(words & words_of(own)), other, not inspect.isclass(value)


def _learns(cls: type) -> bool:
    """Return whether the code of a class makes learned maps, which may be large."""
    try:
        return _LEARNED.search(inspect.getsource(cls)) is not None
    except (OSError, TypeError):  # typed into an interpreter
        return False
