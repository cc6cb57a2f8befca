"""Find the rotary function of a modeling file by its name, its callers, and trial calls."""

from __future__ import annotations

import inspect
import itertools
import re
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from posenc_ref.conformance.calling.facts import Facts
from posenc_ref.conformance.calling.positions import ONE_ROW
from posenc_ref.conformance.calling.roles import Unbound, parameters
from posenc_ref.conformance.calling.rotations import Rotation
from posenc_ref.conformance.calling.tables import ONE_TABLE, Source
from posenc_ref.conformance.calling.trial import ALIKE, MOVES, driver_of, score
from posenc_ref.conformance.calling.ways import roles_in_call, ways

from .rotary_table import module_of
from .transformers_config import attribute, head_dim_of

#: Batch, heads and tokens of trial inputs: like no number of axes, and none is 1.
SIZES = (5, 7, 11)
#: The tensor layouts to try.
LAYOUTS = ("bhsd", "bshd", "bs(hd)")


def rotating_functions(file: types.ModuleType) -> dict[str, tuple[Callable[..., Any], type | None]]:
    """Return a file's rotary functions by name: (function, None), or (method, its class)."""
    wanted = re.compile("(apply|rotate_queries).*(rotary|rope|keys)")
    found: dict[str, tuple[Callable[..., Any], type | None]] = {}
    for name, value in vars(file).items():
        if inspect.isclass(value) and value.__module__ == file.__name__:
            for attribute, method in vars(value).items():
                if isinstance(method, staticmethod) and wanted.search(attribute):
                    found[attribute] = (method.__func__, None)
                elif inspect.isfunction(method) and wanted.search(attribute):
                    found[attribute] = (method, value)
        elif callable(value) and wanted.search(name):
            found[name] = (value, None)
    return found


def ranked(module: Any, file: types.ModuleType, config: Any, target: Any) -> Iterator[Any]:
    """Yield (name, function), best candidate first.

    The best candidate is called by the attention class whose name is most like that of `module`.
    Among equals, `rope_interleave` in the configuration decides whether the name must have
    "interleave" in it.
    """
    called = _called_by_attention(type(module).__name__, file)
    interleave = bool(getattr(config, "rope_interleave", True))

    def rank(found: tuple[str, Any]) -> tuple[int, bool]:
        return -called.get(found[0], -1), ("interleave" in found[0]) != interleave

    for name, (function, owner) in sorted(rotating_functions(file).items(), key=rank):
        if owner is None:
            yield name, function
        elif (instance := _instance(owner, config, target)) is not None:
            yield name, partial(function, instance)


def _called_by_attention(module: str, file: types.ModuleType) -> dict[str, int]:
    """Return, for every name in the code of attention classes, how well a class fits ``module``.

    The fit is the number of leading letters that their names share.  A vision module fits vision
    classes only, any other module only the rest.
    """
    called: dict[str, int] = {}
    for name, value in vars(file).items():
        tower = ("Vision" in name) == ("Vision" in module)
        if inspect.isclass(value) and "Attention" in name and tower:
            alike = sum(1 for end in range(1, len(name)) if module.startswith(name[:end]))
            for method in filter(inspect.isfunction, vars(value).values()):
                for word in method.__code__.co_names:
                    called[word] = max(alike, called.get(word, 0))
    return called


def _instance(owner: type, config: Any, target: Any) -> Any:
    """Return an instance of `owner`: the one inside `target`, or a new one."""
    own = next((module for module in target.modules() if isinstance(module, owner)), None)
    if own is not None or config is None:
        return own
    try:
        return owner(config)
    except Exception:  # the constructor requires other arguments
        return None


def find_rotation(source: Source, functions: Iterator[Any], config: Any) -> tuple[Rotation, int]:
    """Return a rotation with a table, and its head size; raise ValueError with what was tried."""
    import torch

    cos, _ = source.cos_sin_at(torch.zeros(1, 1, 1, 2), torch.zeros(1, dtype=torch.int64))
    columns = int(cos.shape[-1])
    tried = []
    for name, function in functions:
        for head_dim, cut in _widths(config, columns):
            for way in _ways(function, source, head_dim, cut):
                why = _failure(way, head_dim)
                if not why:
                    return way, head_dim
                tried.append(f"{name} on {way.layout} with D={head_dim}: {why}")
    module = type(module_of(source))
    if not tried:
        raise ValueError(
            f"{module.__module__} has no function that rotates with {module.__name__}. If a method "
            "rotates, pass the model that contains the module and the method's class."
        )
    raise ValueError(
        f"found no way to rotate with {module.__name__}, whose tables are {columns} wide; tried "
        f"{len(tried)}, among them {'; '.join(dict.fromkeys(tried[:3]))}"
    )


def _ways(
    function: Callable[..., Any], source: Source | None, head_dim: int, cut: int | None
) -> list[Rotation]:
    """Return the ways to rotate the first `cut` channels; those for one row of the batch last."""
    try:
        order, fixed = roles_in_call(function, Facts({}, {}, {}))
    except Unbound:
        return []
    needed = {n for n, p in inspect.signature(function).parameters.items() if p.default is p.empty}
    function = partial(function, **{n: value for n, value in fixed.items() if n in needed})
    part = None if cut is None else (0, cut)
    layouts = LAYOUTS if cut is None else LAYOUTS[:2]
    found = ways(function, order, Facts({}, {}, {}), layouts, [source] if source else [], part)
    heads = getattr(function.args[0], "num_heads", None) if function.args else None
    return sorted(
        (
            # A method of an attention module has a fixed number of heads.
            replace(way, width=heads * head_dim if heads and way.layout == "bs(hd)" else None)
            for way in found
            if way.part == part and way.shape != "as returned"  # "(1, S, W)" says more
        ),
        key=lambda way: way.shape in ONE_TABLE or way.positions in ONE_ROW,
    )


def _failure(way: Rotation, head_dim: int) -> str:
    """Return why a way does not rotate, or "" if it does."""
    driver = driver_of(way, "torch", "float32", way.layout, way.axes)
    points, why = score(driver, head_dim, SIZES, rows=True)
    return "" if points >= ALIKE + MOVES else why or "rows, heads or tokens are mixed"


def _widths(config: Any, width: int) -> Iterator[tuple[int, int | None]]:
    """Yield possible (head_dim, rotary_dim or None), most likely first.

    Partial rotation and latent attention rotate fewer channels than head_dim.
    """
    head_dim, latent = head_dim_of(config), attribute(config, "qk_rope_head_dim")
    for direct in dict.fromkeys(d for d in (head_dim, latent) if d):
        yield direct, None
    if head_dim and not latent:
        yield from ((head_dim, cut) for cut in (width, 2 * width) if cut < head_dim)
    yield width, None
    yield 2 * width, None


def find_direct(module: Any, config: Any) -> tuple[Rotation, int] | None:
    """Return a method of `module` that rotates without a table, and its head size; or None."""
    file = sys.modules[type(module).__module__]
    for function, owner in rotating_functions(file).values():
        if owner is None or not isinstance(module, owner):
            continue
        bound = partial(function, module)
        if {"x", "positions"} != set(parameters(bound)):
            continue
        for axes, (head_dim, _) in itertools.product((3, 2), _widths(config, 2)):
            for plain in _ways(bound, None, head_dim, None):
                way = replace(plain, axes=axes)
                if not _failure(way, head_dim):
                    return way, head_dim
    return None
