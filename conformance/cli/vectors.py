"""The command ``posenc vectors``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from posenc_ref._text import one_line
from posenc_ref.conformance.vectors import VectorCase, load_vectors

from .options.output import say, usage_error, usage_errors


def vectors_command(
    folder: Annotated[
        Path | None, typer.Argument(help="A folder with vectors; by default the installed ones.")
    ] = None,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Check the files, and compute every expected output again."),
    ] = False,
    list_cases: Annotated[
        bool, typer.Option("--list", help="List the cases, one on each line.")
    ] = False,
    generate_to: Annotated[
        Path | None, typer.Option("--generate", help="Compute all vectors anew into this folder.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show, verify or compute the golden vectors: exact inputs and outputs for any language.

    Exits with 0, with 1 if `--verify` finds a problem, and with 2 for a usage error. It also exits
    with 2, and writes nothing, if `posenc_ref` fails a case that `--generate` computed.
    """
    if sum((verify, list_cases, generate_to is not None)) > 1:
        raise usage_error("give one of --verify, --list and --generate")
    with usage_errors(ImportError, ValueError):
        if verify:
            from posenc_ref.conformance.vectors.verify import verify_vectors

            found = verify_vectors(folder)
            say(json.dumps(found.to_dict(), indent=1) if as_json else str(found))
            raise typer.Exit(0 if found.passed else 1)
        if generate_to is not None:
            from posenc_ref.conformance.vectors.files import shipped
            from posenc_ref.conformance.vectors.make.generate import Disagreement, generate

            with usage_errors(Disagreement):
                generate(generate_to, folder or shipped())
            folder = generate_to
        cases = load_vectors(folder=folder)
    say((_listed if list_cases else _summary)(cases, as_json))


#: The keys in the JSON of a case, each with the attribute of its value.
_KEYS = {
    **{name: name for name in ("id", "file", "surface")}, "encoding": "declared",
    **{name: name for name in ("spec", "comment", "flags", "kills", "level")},
}  # fmt: skip


def _listed(cases: list[VectorCase], as_json: bool) -> str:
    if as_json:
        every = [{key: getattr(case, name) for key, name in _KEYS.items()} for case in cases]
        return json.dumps(every, indent=1)
    width = max((len(case.id) for case in cases), default=0)
    return "\n".join(
        one_line(f"{case.id:{width}}  {case.surface}, mistakes detected: {len(case.kills)}; ")
        + one_line(case.comment)
        for case in cases
    )


def _summary(cases: list[VectorCase], as_json: bool) -> str:
    files: dict[str, list[VectorCase]] = {}
    for case in cases:
        files.setdefault(case.file, []).append(case)
    body = {
        name: {
            "cases": len(own),
            "surfaces": sorted({case.surface for case in own}),
            "groups": len({case.group for case in own}),
        }
        for name, own in files.items()
    }
    if as_json:
        return json.dumps({"cases": len(cases), "files": body}, indent=1)
    width = max(map(len, body), default=0)
    lines = [
        f"{one_line(name):{width}}  {entry['cases']:3} cases of {entry['groups']:2} groups: "
        f"{', '.join(entry['surfaces'])}"  # type: ignore[arg-type]
        for name, entry in body.items()
    ]
    return "\n".join([*lines, f"{len(cases)} cases; --list shows them, --verify checks them"])
