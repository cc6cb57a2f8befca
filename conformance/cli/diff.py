"""The command ``posenc diff``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from posenc_ref.conformance.configurations.diff import diff
from posenc_ref.models.context import Described

from .options.loading import UsageError
from .options.models import LEARNED, load_described, refuse_idle
from .options.output import say, usage_errors

_SOURCE = "A preset, a name on the Hub, a config.json or its folder, or a .gguf file."
_OVERRIDE = "Entries that replace those of {}, as vLLM's --hf-overrides: JSON or @file.json."
_FACT = "A value that the preset {} requires, NAME=VALUE."


@usage_errors(UsageError)
def diff_command(
    a: Annotated[str, typer.Argument(help=_SOURCE)],
    b: Annotated[str, typer.Argument(help="The same, to compare with it.")],
    override_a: Annotated[str | None, typer.Option(help=_OVERRIDE.format("A"))] = None,
    override_b: Annotated[str | None, typer.Option(help=_OVERRIDE.format("B"))] = None,
    fact_a: Annotated[list[str] | None, typer.Option(help=_FACT.format("A"))] = None,
    fact_b: Annotated[list[str] | None, typer.Option(help=_FACT.format("B"))] = None,
    part: Annotated[
        str | None, typer.Option(help="The part of both configurations: vision_config, ...")
    ] = None,
    rules: Annotated[
        bool,
        typer.Option(
            "--rules",
            help="Compare base, scaling, rotated fraction and similar rules only, as for a draft "
            "model: sizes of heads and numbers of layers may differ.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare the positional encodings of two configurations, layer by layer.

    It says what differs, from which position on a difference shows, and how much logits change.
    Learned numbers are not compared. Exits with 0 if all layers have the same encoding, 1 if any
    layer differs, 2 for a usage error.
    """
    one = _loaded(a, part, fact_a, override_a, "--override-a")
    other = _loaded(b, part, fact_b, override_b, "--override-b")
    files = [name for name, source in (("A", a), ("B", b)) if source.endswith(".gguf")]
    converted = files[0] if len(files) == 1 else ""
    names = (_named(a, override_a), _named(b, override_b))
    found = diff(one, other, names=names, converted=converted, rules=rules)
    say(json.dumps(found.to_dict(), indent=1) if as_json else str(found))
    raise typer.Exit(found.exit_code)


def _loaded(
    source: str, part: str | None, facts: list[str] | None, override: str | None, option: str
) -> Described:
    made = load_described(source, part, facts or (), LEARNED, override)
    if override is not None:
        refuse_idle(load_described(source, part, facts or (), LEARNED), made, source, option)
    return made


def _named(source: str, override: str | None) -> str:
    return source if override is None else f"{source} with {override}"
