"""The command ``posenc explain``."""

from __future__ import annotations

from typing import Annotated

import typer

from posenc_ref.conformance.guide.explain import explain

from .options.output import say, usage_errors


@usage_errors(ValueError)
def explain_command(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A surface, an encoding, a scaling or a code of a finding; or one of surfaces, "
            "encodings, scalings, codes and signatures. Omit it for an overview."
        ),
    ] = None,
) -> None:
    """Explain a surface, an encoding, a frequency scaling, or a finding and its remedy."""
    say(explain(name))
