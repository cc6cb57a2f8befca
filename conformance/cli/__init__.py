"""The commands of ``posenc``; only this package imports typer and rich."""

from __future__ import annotations

import importlib
import platform
from collections.abc import Iterable
from typing import Annotated, Any

import numpy as np
import typer

from posenc_ref import SPEC_VERSION, __version__


def _version(value: bool) -> None:
    if value:
        typer.echo(
            f"posenc-ref {__version__} (specification {SPEC_VERSION}), NumPy {np.__version__}, "
            f"Python {platform.python_version()}"
        )
        raise typer.Exit()


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print versions.")
    ] = False,
) -> None:
    pass


#: Every command, with an example.
COMMANDS = {
    "verify": "posenc verify --only 'transformers llama*'",
    "check": "posenc check rope.py:apply --encoding "
    '\'{"encoding": "RoPE", "head_dim": 64, "layout": "half"}\'',
    "ci": "posenc ci posenc.toml --junit posenc.xml",
    "identify": "posenc identify rope.py:apply --head-dim 64",
    "compare": "posenc compare new.py:apply old.py:apply --head-dim 64",
    "export": "posenc export llama-3.1-8b -o rope.onnx",
    "gallery": "posenc gallery --only llama --only mlx",
    "report": "posenc report posenc.ndjson --markdown",
    "diff": "posenc diff meta-llama/Llama-3.1-8B llama-3.1-8b.gguf",
    "plan": "posenc plan llama-3-8b --length 32768 --plot plan.svg",
    "plot": "posenc plot llama-3.1-8b llama-3-8b -o llama.svg",
    "presets": "posenc presets llama-3.1-8b",
    "vectors": "posenc vectors --verify",
    "sweep": "posenc sweep --only llama --only 'qwen*'",
    "convert": "posenc convert model.safetensors --from meta --to hf --config config.json -o out",
    "explain": "posenc explain angle-precision",
    "accuracy": "posenc accuracy --full",
}


def make_app(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Return the command line with these commands; only their modules are imported."""
    app = typer.Typer(
        name="posenc",
        help="Judge implementations of Transformer positional encodings against their "
        "specification.",
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name in names:
        command = getattr(importlib.import_module(f"{__name__}.{name}"), f"{name}_command")
        app.command(name, epilog=f"Example: `{COMMANDS[name]}`")(command)
    return app


def __getattr__(name: str) -> Any:
    """Return the whole command line as ``app``, made when it is used for the first time."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()["app"] = app = make_app()
    return app
