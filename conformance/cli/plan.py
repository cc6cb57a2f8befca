"""The command ``posenc plan``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from posenc_ref import Encoding, MultiAxisRoPE, RoPE
from posenc_ref.conformance.configurations.plan import Plan, plan
from posenc_ref.conformance.configurations.plan_text import other_plan, plan_text
from posenc_ref.conformance.configurations.plot import plot as draw

from .options.loading import UsageError
from .options.models import LEARNED, load_described, refuse_idle
from .options.output import say, usage_errors


@usage_errors(UsageError, ValueError, ImportError, OSError)
def plan_command(
    model: Annotated[
        str,
        typer.Argument(help="A preset, a name on the Hub, a config.json or its folder, or a GGUF."),
    ],
    length: Annotated[int, typer.Option(help="The planned length of the context, in tokens.")],
    trained: Annotated[
        int | None,
        typer.Option(
            help="The length on which the model was trained, with these frequencies. By default "
            "its context, or the original length that the scaling states."
        ),
    ] = None,
    override: Annotated[
        str | None,
        typer.Option(help="Entries that replace those of the configuration: JSON or @file.json."),
    ] = None,
    layer_type: Annotated[str | None, typer.Option(help="Only layers of this type.")] = None,
    part: Annotated[
        str | None, typer.Option(help="The part of a config.json: vision_config, ...")
    ] = None,
    fact: Annotated[
        list[str] | None, typer.Option(help="A value that the preset requires, NAME=VALUE.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw the wavelengths: a new file, .svg, .png or .pdf.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what the frequencies of a model do in a context of a given length.

    A table has the wavelength of every pair of channels, in training and in the planned context,
    and whether its angles occurred in training. The lines before it give the error of angles in
    float32 and bfloat16, and which frequency scalings leave no angle unseen.
    """
    found = load_described(model, part, fact or (), LEARNED, override)
    shipped = found
    if override is not None:
        shipped = load_described(model, part, fact or (), LEARNED)
        refuse_idle(shipped, found, model, "--override")
    encodings = found.model.encodings
    if layer_type is not None and layer_type not in encodings:
        raise UsageError(f"--layer-type must be one of {', '.join(encodings)}, got {layer_type!r}")
    chosen = [layer_type] if layer_type is not None else list(encodings)
    plans: list[tuple[str, Plan]] = []
    parts: list[str] = []
    for name in chosen:
        encoding = encodings[name]
        head = f"{found.model.name}, layers of type {name}"
        if not isinstance(encoding, RoPE | MultiAxisRoPE):
            parts.append(f"{head}\n{other_plan(encoding, length)}")
            continue
        own = _alike(shipped.model.encodings.get(name), encoding)
        made = plan(
            encoding,
            length,
            trained=trained,
            context=None if own is None else (found if own == encoding else shipped).length,
            window=found.windows.get(name),
            shipped=own,
        )
        if "sliding" in name and name not in found.windows:
            made.notes.append("the window of these layers is unknown; no distance exceeds it")
        plans.append((head, made))
        parts.append(f"{head}\n{plan_text(made)}")
    if plot is not None:
        if not plans:
            raise UsageError("--plot needs an encoding with frequencies; this model has none")
        draw(plans, plot)
    data: dict[str, Any] = {name: made.to_dict() for name, made in plans}
    say(json.dumps(data, indent=1) if as_json else "\n\n".join(parts))


def _alike(shipped: Encoding | None, planned: RoPE | MultiAxisRoPE) -> RoPE | MultiAxisRoPE | None:
    """Return the encoding without the override, if it has pairs to compare with the planned."""
    if not isinstance(shipped, RoPE | MultiAxisRoPE):
        return None
    return shipped if len(shipped.pairs()[0]) == len(planned.pairs()[0]) else None
