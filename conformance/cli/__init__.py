"""The commands of ``posenc``; only this package imports typer and rich."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Annotated

import numpy as np
import typer

from posenc_ref import SPEC_VERSION, __version__

from .accuracy import accuracy_command
from .check import check_command
from .ci import ci_command
from .convert import convert_command
from .diff import diff_command
from .explain import explain_command
from .export import export_command
from .gallery import gallery_command
from .identify import identify_command
from .plan import plan_command
from .presets import presets_command
from .report import report_command
from .sweep import sweep_command
from .vectors import vectors_command
from .verify import verify_command

app = typer.Typer(
    name="posenc",
    help="Judge implementations of Transformer positional encodings against their specification.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        typer.echo(
            f"posenc-ref {__version__} (specification {SPEC_VERSION}), NumPy {np.__version__}, "
            f"Python {platform.python_version()}"
        )
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print versions.")
    ] = False,
) -> None:
    pass


#: Every command, with an example.
_COMMANDS: tuple[tuple[Callable[..., None], str], ...] = (
    (verify_command, "posenc verify --only 'transformers llama*'"),
    (
        check_command,
        "posenc check rope.py:apply --encoding "
        '\'{"encoding": "RoPE", "head_dim": 64, "layout": "half"}\'',
    ),
    (ci_command, "posenc ci posenc.toml --junit posenc.xml"),
    (identify_command, "posenc identify rope.py:apply --head-dim 64"),
    (export_command, "posenc export llama-3.1-8b -o rope.onnx"),
    (gallery_command, "posenc gallery --only llama --only mlx"),
    (report_command, "posenc report posenc.ndjson --markdown"),
    (diff_command, "posenc diff meta-llama/Llama-3.1-8B llama-3.1-8b.gguf"),
    (plan_command, "posenc plan llama-3-8b --length 32768 --plot plan.svg"),
    (presets_command, "posenc presets llama-3.1-8b"),
    (vectors_command, "posenc vectors --verify"),
    (sweep_command, "posenc sweep --only llama --only 'qwen*'"),
    (
        convert_command,
        "posenc convert model.safetensors --from meta --to hf --config config.json -o out",
    ),
    (explain_command, "posenc explain angle-precision"),
    (accuracy_command, "posenc accuracy --full"),
)
for _command, _example in _COMMANDS:
    _name = _command.__name__.removesuffix("_command")
    app.command(_name, epilog=f"Example: `{_example}`")(_command)
