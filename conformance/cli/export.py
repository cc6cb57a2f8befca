"""The command ``posenc export``."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from posenc_ref import Encoding
from posenc_ref.conformance.check import check
from posenc_ref.conformance.graphs.export import DEFAULT_OPSET, DTYPES, KINDS, export
from posenc_ref.conformance.graphs.load import from_onnx
from posenc_ref.conformance.harness.report import Report
from posenc_ref.conformance.harness.whole import write_whole

from .options.loading import UsageError, load_encoding
from .options.models import encoding_of, load_model
from .options.output import say, usage_errors


@usage_errors(UsageError, ValueError, ImportError, OSError)
def export_command(
    encoding: Annotated[
        str, typer.Argument(help="The encoding as JSON or @file.json, or a preset or config.json.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The .onnx file to write.")],
    what: Annotated[
        str | None,
        typer.Option(
            help=f"What the model computes: {', '.join(dict.fromkeys(sum(KINDS.values(), ())))}."
        ),
    ] = None,
    dtype: Annotated[
        str, typer.Option(help=f"The dtype of x and of the results: {', '.join(DTYPES)}.")
    ] = "float32",
    length: Annotated[
        int | None,
        typer.Option(help="Store the tables of positions below this."),
    ] = None,
    opset: Annotated[int, typer.Option(help="The version of the operators.")] = DEFAULT_OPSET,
    layer_type: Annotated[
        str | None, typer.Option(help="The layer type, for a model with several encodings.")
    ] = None,
    fact: Annotated[
        list[str] | None, typer.Option(help="A value that the preset requires, NAME=VALUE.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Write an encoding as an ONNX model of standard operators, and judge the model.

    A rotation takes x (B, H, S, D) and position_ids (B, S); tables take positions (S,); a bias
    takes q_positions (Q,) and k_positions (K,). The model is run by ONNX Runtime and judged by
    `posenc check` before it is written. Exits with 0; with 1 if the model deviates, and then
    writes nothing; with 2 for a usage error.
    """
    if output.suffix != ".onnx":
        raise UsageError(f"the file must end in .onnx, got {output}")
    if output.exists() and not force:
        raise UsageError(f"{output} exists: choose another name, or pass --force to replace it")
    declared = _declared(encoding, layer_type, fact or [])
    try:
        model = export(declared, what, dtype=dtype, length=length, opset=opset)
        written, report = _judged(model, declared, dtype, output)
    except ModuleNotFoundError as error:
        raise UsageError(f'{error}; pip install "posenc-ref[runtimes]"') from None
    if not report.passed:
        say(report.to_json(indent=1) if as_json else str(report))
        say(f"posenc: {output} was not written: the model deviates", err=True)
        raise typer.Exit(report.exit_code)
    write_whole(output, written)
    if as_json:
        body = {"file": str(output), "bytes": len(written), "report": report.to_dict()}
        say(json.dumps(body, indent=1))
    else:
        say(_summary(output, model, written, declared, report))


def _declared(text: str, layer_type: str | None, facts: list[str]) -> Encoding:
    if text.lstrip().startswith(("{", "@")) or "(" in text:
        if layer_type is not None or facts:
            raise UsageError("--layer-type and --fact need the name of a preset or a config.json")
        return load_encoding(text)
    return encoding_of(load_model(text, facts=facts), layer_type)


def _judged(model: Any, declared: Encoding, dtype: str, output: Path) -> tuple[bytes, Report]:
    """Return the bytes of a model, and the report on these bytes."""
    import onnx

    onnx.checker.check_model(model, full_check=True)
    written = model.SerializeToString()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(written)
        fn = from_onnx(path, head_dim=getattr(declared, "head_dim", None))
        return written, check(fn, declared, dtype=dtype, name=os.fspath(output))


def _summary(output: Path, model: Any, written: bytes, declared: Encoding, report: Report) -> str:
    def shapes(values: Any) -> str:
        sizes = (
            ", ".join(str(d.dim_value or d.dim_param) for d in v.type.tensor_type.shape.dim)
            for v in values
        )
        return ", ".join(f"{v.name} ({s})" for v, s in zip(values, sizes, strict=True))

    lines = [
        f"wrote     {output}: {declared!r}, {len(written)} bytes",
        f"takes     {shapes(model.graph.input)}",
        f"returns   {shapes(model.graph.output)}",
    ]
    if report.accuracy is not None:
        a = report.accuracy
        lines.append(f"judged    run by ONNX Runtime: worst {a.worst:.3g} units of {a.budget:g}")
        if a.highest:
            lines[-1] += f", up to position {a.highest}"
    return "\n".join(lines)
