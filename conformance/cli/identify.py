"""The command ``posenc identify``."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer

from posenc_ref import Encoding
from posenc_ref.conformance.harness.driver import TENSOR_LAYOUTS
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.identify.function import SURFACES, identify

from .loading import UsageError, load_encoding, load_target
from .models import encoding_of, load_model
from .output import usage_error


def identify_command(
    target: Annotated[str, typer.Argument(help="file.py:function or package.module:function")],
    head_dim: Annotated[
        int | None,
        typer.Option(help="Size of the last axis of x (or q and k); for `apply` and `scores`."),
    ] = None,
    surface: Annotated[
        str | None, typer.Option(help=f"The surface of the function: {', '.join(SURFACES)}.")
    ] = None,
    axes: Annotated[
        int, typer.Option(help="Position axes, where positions are (A, B, S).", min=1)
    ] = 1,
    backend: Annotated[
        str | None, typer.Option(help="Its array library: numpy, torch, jax, ...")
    ] = None,
    dtype: Annotated[str, typer.Option(help="The dtype of x and of the result.")] = "float32",
    tensor_layout: Annotated[
        str | None, typer.Option(help=f"The tensor layout of x: {', '.join(TENSOR_LAYOUTS)}.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="The device of the arrays, e.g. cuda.")] = None,
    max_position: Annotated[int | None, typer.Option(help="The highest position to try.")] = None,
    to: Annotated[
        str | None,
        typer.Option(help="Also say how to use it as another encoding: a preset, or JSON (@file)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the card as JSON.")] = False,
) -> None:
    """Say what a function is: its encoding, the models that use it, and what deviates.

    Exits with 0 if an encoding describes it with nothing left over, 1 if one does with deviations,
    2 for a usage error, 3 if none was found or its frequencies follow no known rule.
    """
    try:
        fn = load_target(target)
        with redirect_stdout(sys.stderr):  # keep the function's own output out of the card
            card = identify(
                fn,
                surface,
                head_dim=head_dim,
                axes=axes,
                to=None if to is None else _target(to),
                backend=backend,
                dtype=dtype,
                tensor_layout=tensor_layout,
                device=device,
                max_position=max_position,
                name=None if isinstance(fn, Implementation) else target,
            )
    except (UsageError, TypeError, ValueError) as error:
        raise usage_error(error) from None
    typer.echo(card.to_json() if as_json else str(card))
    raise typer.Exit(3 if card.encoding is None or not card.rule else 0 if card.exact else 1)


def _target(text: str) -> Encoding:
    """Return the encoding of ``--to``."""
    if text.lstrip().startswith(("{", "@")):
        return load_encoding(text)
    return encoding_of(load_model(text), None)
