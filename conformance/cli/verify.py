"""The command ``posenc verify``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.adapters.library import LIBRARIES
from posenc_ref.conformance.surveys.ndjson_writer import recording
from posenc_ref.conformance.surveys.show import parts
from posenc_ref.conformance.surveys.verify import Options, verify

from .options.output import progress, require_among, say, show, usage_error, usage_errors


def verify_command(
    full: Annotated[
        bool, typer.Option("--full/--quick", help="Judge every dtype and many more positions.")
    ] = False,
    only: Annotated[
        str | None,
        typer.Option(help="Only checks whose name has this in it, such as 'torch' or 'jax*alibi'."),
    ] = None,
    dtype: Annotated[
        list[str] | None, typer.Option(help="Only this dtype; may be given several times.")
    ] = None,
    library: Annotated[
        list[str] | None,
        typer.Option(
            help="Judge every function of this library, and nothing else; may be given several "
            "times. Without it, a choice of functions is judged."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    ndjson: Annotated[
        Path | None, typer.Option(help="Also write the report to this file, for `posenc report`.")
    ] = None,
    processes: Annotated[
        int, typer.Option(min=0, help="How many libraries to judge at a time (0: one by one).")
    ] = 2,
) -> None:
    """Judge every array backend and every known library found on this machine.

    Exits with 1 if `posenc_ref` deviates on an array library, 3 if a check failed to run or
    nothing was executed, else 0. Deviations of other libraries do not change the exit code.
    """
    require_among("--dtype", dtype, ROUNDOFF)
    require_among("--library", library, LIBRARIES)
    chosen = tuple(library or ())
    options = Options(full=full, only=only, dtypes=tuple(dtype or ()), libraries=chosen)
    asked = {"full": full, "only": only, "dtypes": list(options.dtypes), "libraries": list(chosen)}
    with usage_errors(OSError), recording(ndjson, "verify", options=asked) as record:
        with progress() as bar:
            found = verify(options, processes=processes, progress=bar)
        if record is not None and found.outcomes:
            record.verification(found)
    if not found.outcomes:
        raise usage_error(
            f"no check has {only!r} in its name" if only else "no backend has this dtype"
        )
    if as_json:
        say(json.dumps(found.to_dict(), indent=1))
    else:
        show(parts(found), found.exit_code)
    raise typer.Exit(found.exit_code)
