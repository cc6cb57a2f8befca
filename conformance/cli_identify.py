"""The command ``posenc identify``."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer

from .identify import SURFACES, identify
from .implementation import Implementation
from .loading import UsageError, load_target
from .subject import TENSOR_LAYOUTS


def identify_command(
    target: Annotated[str, typer.Argument(help="file.py:function or package.module:function")],
    head_dim: Annotated[
        int | None, typer.Option(help="Size of the last axis of x; needed for `apply`.")
    ] = None,
    surface: Annotated[
        str | None, typer.Option(help=f"The shape of the function: {', '.join(SURFACES)}.")
    ] = None,
    axes: Annotated[
        int, typer.Option(help="Position axes, where positions are (A, B, S).", min=1)
    ] = 1,
    backend: Annotated[
        str | None, typer.Option(help="The library of its arrays: numpy, torch, jax, ...")
    ] = None,
    dtype: Annotated[str, typer.Option(help="The dtype of x and of the result.")] = "float32",
    tensor_layout: Annotated[
        str | None, typer.Option(help=f"How it wants x: {', '.join(TENSOR_LAYOUTS)}.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Where the arrays live, e.g. cuda.")] = None,
    max_position: Annotated[int | None, typer.Option(help="Try no position beyond it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the card as JSON.")] = False,
) -> None:
    """Say what a function is: its encoding, the models that use it, and what deviates.

    Exits with 0 if an encoding describes it with nothing left over, 1 if one does with deviations,
    2 for a usage error, 3 if none was found or its frequencies follow no known rule.
    """
    try:
        fn = load_target(target)
        with redirect_stdout(sys.stderr):  # what the function prints is not part of the card
            card = identify(
                fn,
                surface,
                head_dim=head_dim,
                axes=axes,
                backend=backend,
                dtype=dtype,
                tensor_layout=tensor_layout,
                device=device,
                max_position=max_position,
                name=None if isinstance(fn, Implementation) else target,
            )
    except (UsageError, TypeError, ValueError) as error:
        typer.echo(f"posenc: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(card.to_json() if as_json else str(card))
    raise typer.Exit(3 if card.encoding is None or not card.rule else 0 if card.exact else 1)
