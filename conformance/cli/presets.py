"""The command ``posenc presets``."""

from __future__ import annotations

from typing import Annotated

import typer

from .options.loading import UsageError
from .options.models import PART, describe, load_model, preset_list
from .options.output import say, usage_errors


@usage_errors(UsageError)
def presets_command(
    name: Annotated[
        str | None, typer.Argument(help="A preset, a config.json or its folder, or a .gguf file.")
    ] = None,
    part: Annotated[str | None, typer.Option(help=PART)] = None,
    override: Annotated[
        str | None, typer.Option(help="Replace entries of its configuration: JSON or @file.json.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the models whose positional encoding is known, or show one with its sources."""
    if name is None:
        say(preset_list(as_json))
    else:
        say(describe(load_model(name, part, override=override), as_json))
