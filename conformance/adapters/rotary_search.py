"""Find the rotary function of a modeling file by its name, its callers, and trial calls."""

from __future__ import annotations

import inspect
import itertools
import re
import sys
import types
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from posenc_ref.conformance.calling.roles import parameters

from .rotary_function import LAYOUTS, TABLE_SHAPES, Rotation, attribute, head_dim_of
from .rotary_table import CosSinTable, H, describe


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


def find_rotation(
    table: CosSinTable, functions: Iterator[Any], config: Any, width: int
) -> Rotation:
    """Return a working rotation with `table`, or raise ValueError with the failed attempts.

    `width` is the number of columns of the table.
    """
    tried = []
    for name, function in functions:
        ways = itertools.product(_widths(config, width), TABLE_SHAPES, LAYOUTS)
        for (head_dim, rotary_dim), table_shape, layout in ways:
            if layout == "bs(hd)" and rotary_dim is not None:
                continue
            trial = Rotation(name, function, table, layout, table_shape, head_dim, rotary_dim)
            reason = _failure(trial)
            if not reason:
                return trial
            tried.append(f"{name} on {layout} with D={head_dim}: {reason}")
    module = type(table.module)
    if not tried:
        raise ValueError(
            f"{module.__module__} has no function that rotates with {module.__name__}. If a method "
            "rotates, pass the model that contains the module and the method's class."
        )
    raise ValueError(
        f"found no way to rotate with {module.__name__}, whose tables are {width} wide; tried "
        f"{len(tried)}, among them {'; '.join(dict.fromkeys(tried[:3]))}"
    )


def _failure(trial: Rotation) -> str:
    """Return why a call on vectors with distinct axis sizes fails, or "" if it succeeds."""
    import torch

    x = torch.zeros(LAYOUTS[trial.tensor_layout](H, trial.head_dim))
    try:
        y = trial(x, trial.table.probe_positions())
    except Exception as error:
        return describe(error)
    return "" if y.shape == x.shape else f"{tuple(x.shape)} came back as {tuple(y.shape)}"


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


def find_direct(module: Any, config: Any) -> Rotation | None:
    """Return the rotation by a method of `module` that takes no table, or None.

    The method takes positions as a tuple with one array for each axis.
    """
    file = sys.modules[type(module).__module__]
    for name, (function, owner) in rotating_functions(file).items():
        bound = partial(function, module)
        if owner is None or not isinstance(module, owner):
            continue
        if {"x", "positions"} != set(parameters(bound)):
            continue
        for axes, (head_dim, _) in itertools.product((3, 2), _widths(config, 2)):
            table = CosSinTable(module, "tuple", "?", axes)
            trial = Rotation(name, bound, table, "bhsd", "(B, S, W)", head_dim, None)
            if not _failure(trial):
                return trial
    return None
