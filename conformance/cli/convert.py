"""The command ``posenc convert``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from posenc_ref.conformance.weights import (
    ConversionError,
    compare_checkpoints,
    convert_checkpoint,
)
from posenc_ref.conformance.weights.heads import CONVENTIONS, read_model, resolve
from posenc_ref.conformance.weights.plan import ARRANGEMENTS

from .options.loading import UsageError
from .options.output import progress, say, usage_errors

_LAYOUTS = ", ".join(CONVENTIONS)


@usage_errors(UsageError, TypeError, ValueError, OSError, ImportError)
def convert_command(
    source: Annotated[
        Path, typer.Argument(help="A .safetensors file, or the folder or index of its shards.")
    ],
    other: Annotated[
        Path | None, typer.Argument(help="With --compare: the second file; .gguf is allowed.")
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", help=f"The layout of the weights now: {_LAYOUTS}.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", help=f"The layout of the weights then: {_LAYOUTS}.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="config.json or params.json; by default the one beside the weights."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The folder, or the .safetensors file, to write."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Convert tensors whose names begin like this; may be repeated."),
    ] = None,
    fused: Annotated[
        str | None,
        typer.Option(
            help="The order of q, k and v in a fused projection of an unknown model: "
            f"{', '.join(ARRANGEMENTS)}."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing output, never the input.")
    ] = False,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare", help="Compare two checkpoints: same, permuted or neither. Writes nothing."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Convert the query and key weights of a checkpoint to another layout, or compare two.

    `hf` is the layout in which transformers rotates the model (half for Llama), `meta` is
    interleaved, `gguf` is that of llama.cpp. Rows of the q and k projections, their biases and
    norms are moved; everything else, names of tensors too, is copied and compared byte for byte.
    Exits with 0 if the weights were converted (or compared: same or permuted), 1 if the two are
    neither or a conversion failed its verification, 2 for a usage error.
    """
    if compare:
        if other is None or output is not None or force or only or fused:
            raise UsageError(
                "--compare takes two checkpoints and at most --config, --from with --to, and --json"
            )
        if (from_ is None) != (to is None):
            raise UsageError("--compare takes --from and --to together")
        model = None if config is None else read_model(config, from_)
        layouts = None
        if from_ is not None and to is not None:
            layouts = (resolve("--from", from_, model), resolve("--to", to, model))
        found = compare_checkpoints(source, other, layouts=layouts, model=model)
        say(json.dumps(found.to_dict(), indent=1) if as_json else str(found))
        raise typer.Exit(found.exit_code)
    if other is not None:
        raise UsageError(f"one checkpoint is converted at a time, got {source} and {other}")
    if from_ is None or to is None or output is None:
        missing = [
            name
            for name, value in (("--from", from_), ("--to", to), ("-o", output))
            if value is None
        ]
        raise UsageError(
            f"{' and '.join(missing)} must be given, as in `posenc convert model.safetensors "
            "--from meta --to hf --config config.json -o out`"
        )
    try:
        with progress() as shown:
            done = convert_checkpoint(
                source,
                output,
                from_=from_,
                to=to,
                config=config,
                only=only or (),
                fused=fused,
                force=force,
                progress=shown,
            )
    except ConversionError as error:
        say(f"posenc: nothing was written: {error}", err=True)
        raise typer.Exit(1) from None
    say(json.dumps(done.to_dict(), indent=1) if as_json else str(done))
