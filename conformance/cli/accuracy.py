"""The command ``posenc accuracy``."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from .options.output import say, usage_error


def accuracy_command(
    full: Annotated[
        bool, typer.Option("--full", help="Check many more positions, which takes two minutes.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the errors as JSON.")] = False,
) -> None:
    """Compare every encoding with formulas computed with 50 digits, and print its errors."""
    from posenc_ref.conformance.exact.certificate import FULL, QUICK, certify, format_table
    from posenc_ref.conformance.registry import entries

    try:
        rows = certify(entries(), FULL if full else QUICK)
    except ImportError as error:
        raise usage_error(error) from None
    if as_json:
        body = [asdict(row) | {"passed": row.passed} for row in rows]
        say(json.dumps(body, indent=1))
    else:
        say(format_table(rows))
    raise typer.Exit(0 if all(row.passed for row in rows) else 1)
