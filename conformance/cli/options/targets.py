"""Bind the functions, classes and objects that arguments of the command line name."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from posenc_ref import Table as EncodedTable
from posenc_ref._documents import read_json
from posenc_ref.conformance.calling import CONVENTIONS, NoConvention, bind, takes
from posenc_ref.conformance.calling.roles import role_of
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.harness.tensor_layouts import TENSOR_LAYOUTS
from posenc_ref.conformance.surfaces import Declared

from .loading import UsageError, load_target
from .models import named_value

#: The options of every command that takes a function.
Table = Annotated[
    str | None,
    typer.Option(
        help="What makes the tables that the function takes: file.py:Class or file.py:function. "
        "By default the function's own file is searched."
    ),
]
Init = Annotated[
    list[str] | None,
    typer.Option(
        help="An argument of a constructor or of another parameter, NAME=VALUE: head_size=64."
    ),
]
Signature = Annotated[
    str | None,
    typer.Option(
        help=f"The calling convention: {', '.join(c.name for c in CONVENTIONS)}. By default it is "
        "found out; `posenc explain signatures` shows them."
    ),
]
#: The options of the inputs of a function.
Axes = Annotated[int, typer.Option(help="The number A of axes of positions (A, B, S).", min=1)]
BackendName = Annotated[
    str | None, typer.Option(help="The array library of x: numpy, torch, jax, ...")
]
Dtype = Annotated[str, typer.Option(help="The dtype of x and of the result.")]
TensorLayout = Annotated[
    str | None, typer.Option(help=f"The tensor layout of x: {', '.join(TENSOR_LAYOUTS)}.")
]
Device = Annotated[str | None, typer.Option(help="The device of the arrays, e.g. cuda.")]


def bound_target(
    fn: Any,
    target: str,
    declared: Declared,
    surface: str | None,
    *,
    table: str | None = None,
    init: Sequence[str] | None = None,
    signature: str | None = None,
    config: str | None = None,
    stated: bool = True,
    **settings: Any,
) -> Any:
    """Return ``fn``, which ``target`` names, bound unless it is a function of the surface.

    ``stated`` is whether the user named the surface.
    """
    if isinstance(fn, Implementation):
        return fn
    plain = table is None and not init and signature is None and not inspect.isclass(fn)
    as_it_is = plain and stated and surface is not None and takes(fn, surface)
    if as_it_is and inspect.isroutine(fn):
        return fn
    try:
        return bind(
            fn,
            declared,
            surface,
            table=None if table is None else load_target(table),
            init=dict(named_value(text, "--init") for text in init or ()),
            config=_parsed(config),
            signature=signature,
            name=target,
            **settings,
        )
    except NoConvention:
        # A module whose forward returns tables may take as many arguments as the surface passes.
        if as_it_is:
            return fn
        raise


def makes_a_grid(fn: Any, declared: Declared) -> bool:
    """Return whether a function takes the height and the width of a grid, as a table of one."""
    if not isinstance(declared, EncodedTable) or declared.num_axes != 2:
        return False
    try:
        every = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return False
    needed = [role_of(p.name) for p in every if p.default is p.empty]
    return needed == ["grid_height", "grid_width"]


def only_surface(fn: Any) -> str | None:
    """Return the surface that a function's parameters state by themselves, or None.

    T5's buckets need no learned biases, so that the model may lack them.
    """
    try:
        names = inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return None
    return "bucket" if any(role_of(name) == "relative_position" for name in names) else None


def _parsed(config: str | None) -> dict[str, Any] | None:
    """Return the entries of a config.json, or None if there is none."""
    path = Path(config) if config is not None else None
    path = path / "config.json" if path is not None and path.is_dir() else path
    if path is None or path.suffix != ".json":
        return None
    try:
        found = read_json(path)
    except ValueError as error:
        raise UsageError(f"--config: {error}") from error
    return found if isinstance(found, dict) else None
