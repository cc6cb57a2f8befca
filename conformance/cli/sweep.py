"""The command ``posenc sweep``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.whole import write_whole
from posenc_ref.conformance.surveys.transformers.case import (
    APPLY,
    AS_CONFIGURED,
    FAMILIES,
    FLOAT32,
    SURFACES,
)
from posenc_ref.conformance.surveys.transformers.document import markdown as rotary_document
from posenc_ref.conformance.surveys.transformers.scaled import ROPE_TYPES
from posenc_ref.conformance.surveys.transformers.show import parts
from posenc_ref.conformance.surveys.transformers.sweep import TIME_LIMIT, sweep
from posenc_ref.conformance.surveys.whole_models.document import markdown as models_document
from posenc_ref.conformance.surveys.whole_models.document import parts as models_parts
from posenc_ref.conformance.surveys.whole_models.sweep import sweep_models

from .options.output import progress, require_among, show, usage_error, usage_errors

ROTARY = "rotary"


def sweep_command(
    only: Annotated[
        list[str] | None,
        typer.Option(help="A model, or a pattern of module names; may be given several times."),
    ] = None,
    rope_type: Annotated[
        list[str] | None,
        typer.Option(
            help=f"'default' keeps the configured type; others replace it: {', '.join(ROPE_TYPES)}."
        ),
    ] = None,
    dtype: Annotated[
        list[str] | None,
        typer.Option(help="The dtype of x. Rope types other than 'default' use the first one."),
    ] = None,
    surface: Annotated[
        list[str] | None,
        typer.Option(help="'apply' judges the function that rotates, 'scores' the logits."),
    ] = None,
    family: Annotated[
        list[str] | None,
        typer.Option(help=f"'rotary', or one of the other encodings: {', '.join(FAMILIES)}."),
    ] = None,
    whole_models: Annotated[
        bool, typer.Option("--whole-models", help="Judge the attention of small whole models.")
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write a line of JSON per outcome to this file.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Write the result as a document to this file.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="As --json, but keep the outcomes that the file has.")
    ] = None,
    time_limit: Annotated[
        float, typer.Option(min=1.0, help="Seconds for one module.")
    ] = TIME_LIMIT,
    processes: Annotated[int, typer.Option(min=1, help="How many modules to judge at a time.")] = 2,
) -> None:
    """Judge every rotary module of the installed `transformers` against its own configuration.

    With `--family`, judge tables, biases or scores against their source; that needs a checkout of
    the repository. With `--whole-models`, judge what the attention of every language model
    returns, built small, over padding, a cache and generation. Exits with 0 if every module
    conforms or is a known exception; 1 if another module deviates or cannot be judged; 2 for a
    usage error; 3 if nothing was judged.
    """
    families = sorted(set(family or (ROTARY,)))
    others = families != [ROTARY]
    require_among("--family", families, (ROTARY, *FAMILIES))
    if others and (ROTARY in families or rope_type or dtype or surface):
        raise usage_error(
            f"--family {' or '.join(FAMILIES)} cannot be combined with --family rotary, "
            "--rope-type, --dtype or --surface"
        )
    if whole_models and (family or rope_type or dtype or surface):
        raise usage_error(
            "--whole-models cannot be combined with --family, --rope-type, --dtype or --surface"
        )
    if json_file is not None and resume is not None:
        raise usage_error("--json begins a file and --resume continues one: give one of them")
    require_among("--rope-type", rope_type, (AS_CONFIGURED, *ROPE_TYPES))
    require_among("--dtype", dtype, ROUNDOFF)
    require_among("--surface", surface, SURFACES)
    settings: dict[str, Any] = {
        "file": resume or json_file,
        "resume": resume is not None,
        "time_limit": time_limit,
        "processes": processes,
    }
    with usage_errors(ModuleNotFoundError, ValueError, OSError), progress() as bar:
        settings["progress"] = bar
        if whole_models:
            found, document = sweep_models(only or (), **settings), models_document
        elif others:
            found, document = _other(families, only or (), settings)
        else:
            document = rotary_document
            found = sweep(
                only or (),
                rope_types=rope_type or (AS_CONFIGURED,),
                dtypes=dtype or (FLOAT32,),
                surfaces=surface or (APPLY,),
                **settings,
            )
    if not found.outcomes:
        what = "place of these families" if others else "rotary module"
        what = "language model" if whole_models else what
        raise usage_error(f"no {what} is called {' or '.join(map(repr, only or ()))}")
    if markdown is not None:
        write_whole(markdown, document(found, markdown.parent))
    show((models_parts if whole_models else parts)(found), found.exit_code)
    raise typer.Exit(found.exit_code)


def _other(families: list[str], only: Any, settings: dict[str, Any]) -> Any:
    """Return the sweep of encodings other than rotary ones, and a function for its document.

    Only a checkout of the repository contains this sweep.
    """
    try:
        from posenc_ref.conformance.surveys.transformers_other.document import markdown
        from posenc_ref.conformance.surveys.transformers_other.sweep import sweep_other
    except ModuleNotFoundError as error:
        if "transformers_other" not in str(error.name):
            raise
        raise usage_error(
            f"--family {families[0]} needs a checkout of the repository: the code for it fits only "
            "one release of transformers, so the wheel does not contain it"
        ) from None
    found = sweep_other(families, only, **settings)
    command = " ".join(["posenc sweep", *(f"--family {name}" for name in families)])
    return found, partial(markdown, command=f"{command} --markdown FILE")
