"""The command ``posenc identify``."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer

from posenc_ref.conformance.harness.driver import TENSOR_LAYOUTS
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.identify.function import SURFACES, identify

from .loading import UsageError, is_encoding, load_encoding, load_target
from .models import PART, encoding_of, load_model
from .output import usage_errors
from .targets import Init, Signature, Table, bound_target


@usage_errors(UsageError, TypeError, ValueError)
def identify_command(
    target: Annotated[str, typer.Argument(help="file.py:function or package.module:function")],
    head_dim: Annotated[
        int | None,
        typer.Option(help="Size of the last axis of x (or q and k); for `apply` and `scores`."),
    ] = None,
    surface: Annotated[
        str | None, typer.Option(help=f"The surface of the function: {', '.join(SURFACES)}.")
    ] = None,
    table: Table = None,
    init: Init = None,
    signature: Signature = None,
    axes: Annotated[
        int, typer.Option(help="The number A of axes of positions (A, B, S).", min=1)
    ] = 1,
    backend: Annotated[
        str | None, typer.Option(help="The array library of x: numpy, torch, jax, ...")
    ] = None,
    dtype: Annotated[str, typer.Option(help="The dtype of x and of the result.")] = "float32",
    tensor_layout: Annotated[
        str | None, typer.Option(help=f"The tensor layout of x: {', '.join(TENSOR_LAYOUTS)}.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="The device of the arrays, e.g. cuda.")] = None,
    max_position: Annotated[int | None, typer.Option(help="The highest position to try.")] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="Also print how to convert the function to this encoding: a preset, config.json, "
            'RoPE(64, layout="half"), JSON or @file.json.'
        ),
    ] = None,
    part: Annotated[str | None, typer.Option(help=f"For --to. {PART}")] = None,
    fact: Annotated[
        list[str] | None,
        typer.Option(help="For --to: a value that the model requires, NAME=VALUE."),
    ] = None,
    layer_type: Annotated[
        str | None, typer.Option(help="For --to: the layer type, if the model has several.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the card as JSON.")] = False,
) -> None:
    """Identify the encoding of a function, the models that use it, and deviations from it.

    Exits with 0 if an encoding describes the function exactly, 1 if there are deviations, 2 for a
    usage error, 3 if no encoding was found or the frequencies follow no known rule.
    """
    if to is None or is_encoding(to):
        for option, value in (("--part", part), ("--fact", fact), ("--layer-type", layer_type)):
            if value:
                raise UsageError(f"{option} needs --to with a preset or a config.json")
    goal = None
    if to is not None:
        goal = load_encoding(to) if is_encoding(to) else None
        goal = goal or encoding_of(load_model(to, part, fact or ()), layer_type)
    with redirect_stdout(sys.stderr):  # keep the function's own output out of the card
        fn = bound_target(
            load_target(target),
            target,
            None,
            surface,
            table=table,
            init=init,
            signature=signature,
            tensor_layout=tensor_layout,
            backend=backend,
            dtype=dtype,
            head_dim=head_dim,
            axes=axes,
        )
        card = identify(
            fn,
            surface,
            head_dim=head_dim,
            axes=axes,
            to=goal,
            backend=backend,
            dtype=dtype,
            tensor_layout=tensor_layout,
            device=device,
            max_position=max_position,
            name=None if isinstance(fn, Implementation) else target,
        )
    typer.echo(card.to_json() if as_json else str(card))
    raise typer.Exit(3 if card.encoding is None or not card.rule else 0 if card.exact else 1)
