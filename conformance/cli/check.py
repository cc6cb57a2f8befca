"""The command ``posenc check``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from posenc_ref import Encoding
from posenc_ref.accuracy import ANGLES
from posenc_ref.backends import backends
from posenc_ref.conformance.diagnosis.layer_types import name_layer_type
from posenc_ref.conformance.external.command import TIMEOUT, from_command
from posenc_ref.conformance.external.process import HarnessError
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.harness.report import Report
from posenc_ref.conformance.harness.run import describe
from posenc_ref.conformance.harness.signatures import SURFACES
from posenc_ref.conformance.harness.tensor_layouts import TENSOR_LAYOUTS
from posenc_ref.conformance.surfaces import Declared, refuse

from .options.apart import InProcess, Memory, Printed, Started, Timeout, memory_limit
from .options.delivery import known_deviation, printed
from .options.loading import (
    UsageError,
    command_words,
    is_onnx,
    load_declaration,
    load_target,
    refuse_options,
)
from .options.models import (
    PART,
    declared_by,
    layer_types,
    load_model,
    other_layer_types,
    require_model,
    require_one_declaration,
)
from .options.output import usage_errors
from .options.rules import OF_RULES, load_rule
from .options.targets import Init, Signature, Table, bound_target, makes_a_grid, only_surface


@usage_errors(UsageError, HarnessError, TypeError, ValueError, OSError)
@printed
def check_command(
    target: Annotated[
        str | None, typer.Argument(help="file.py:function, package.module:function or model.onnx")
    ] = None,
    command: Annotated[
        str | None,
        typer.Option("--exec", help="Judge a program in any language, such as './rope --fast'."),
    ] = None,
    recorded: Annotated[
        Path | None,
        typer.Option(
            help="Judge recorded q and k, before and after the rotation, in place of a function: "
            "a .npz or .safetensors file, or a folder of such files or of .npy files."
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(help="Compare --recorded with this recording, layer by layer."),
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(
            help="The name of a recorded tensor, ROLE=NAME: q_before=attn.q, positions=ids; "
            "a * in NAME stands for the layer."
        ),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(help='The expected encoding: RoPE(64, layout="half"), JSON or @file.json.'),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="The model that has the expected encoding.")
    ] = None,
    fact: Annotated[
        list[str] | None,
        typer.Option(
            help="A value that the preset requires or that differs from the preset or "
            "configuration, NAME=VALUE: num_heads=12, weight=@rows.npy."
        ),
    ] = None,
    config: Annotated[
        str | None, typer.Option(help="The config.json or .gguf file with the expected encoding.")
    ] = None,
    part: Annotated[str | None, typer.Option(help=PART)] = None,
    override: Annotated[
        str | None,
        typer.Option(help="Entries that replace those of --preset or --config: JSON or @file."),
    ] = None,
    layer_type: Annotated[
        str | None, typer.Option(help="The layer type, for a model with several encodings.")
    ] = None,
    table: Table = None,
    init: Init = None,
    signature: Signature = None,
    surface: Annotated[
        str | None, typer.Option(help=f"The surface of the function: {', '.join(SURFACES)}.")
    ] = None,
    backend: Annotated[
        str | None, typer.Option(help="The array library of x: numpy, torch, jax, ...")
    ] = None,
    dtype: Annotated[str, typer.Option(help="The dtype of x and of the result.")] = "float32",
    tensor_layout: Annotated[
        str | None, typer.Option(help=f"The tensor layout of x: {', '.join(TENSOR_LAYOUTS)}.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="The device of the arrays, e.g. cuda.")] = None,
    angles: Annotated[
        str | None, typer.Option(help=f"The required precision of angles: {', '.join(ANGLES)}.")
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(help="The dtype in which the function computes, if coarser than --dtype."),
    ] = None,
    head_dim: Annotated[
        int | None,
        typer.Option(help="The head size. Without an encoding, only properties are judged."),
    ] = None,
    max_position: Annotated[int | None, typer.Option(help="The highest position judged.")] = None,
    node: Annotated[
        str | None, typer.Option(help="The node of an ONNX model; by default, every rotary one.")
    ] = None,
    inplace: Annotated[
        bool, typer.Option("--inplace", help="The function may overwrite x.")
    ] = False,
    timeout: Timeout = None,
    memory: Memory = None,
    in_process: InProcess = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Fail if tensors differ, even if every logit agrees."),
    ] = False,
    accept_limits: Annotated[
        bool,
        typer.Option("--accept-limits", help="A function that refuses most inputs may conform."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    ndjson: Annotated[
        Path | None, typer.Option(help="Also write the report to this file, for `posenc report`.")
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(help="Also write JUnit XML, with a test for each check.")
    ] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            help="The code of a known deviation: exit with 0 for exactly this error, else with 1."
        ),
    ] = None,
    reason: Annotated[
        str | None, typer.Option(help="Why the deviation of --expect is expected, e.g. an issue.")
    ] = None,
) -> Iterator[Started | Report | Printed]:
    """Judge one function, class, program or ONNX model against the expected encoding.

    How a function is called is found out from its parameters: vectors with positions, an offset,
    or tables that its file makes; flat or separate heads; in place or not. A class is instantiated.
    The report says how it was called; `posenc explain signatures` lists what is recognised. With
    --surface, a function that takes the arguments that `posenc explain SURFACE` shows gets exactly
    these; any other is bound to that surface. A program gets them as lines of JSON. Recorded
    tensors need no function. A function runs in a process of its own. Exits with 0 if it conforms,
    1 if it deviates, 2 for a usage error, 3 if there is no such verdict: too little was judged, or
    the function crashed, took too long or ended its process.
    """
    if [target, command, recorded].count(None) != 2:
        raise UsageError(
            "give one of TARGET (file.py:function or package.module:function), --exec './program' "
            "and --recorded FILE"
        )
    of_functions = {
        "--surface": surface, "--backend": backend, "--device": device,
        "--inplace": inplace or None, "--max-position": max_position,
        "--accept-limits": accept_limits or None,
        "--table": table, "--init": init or None, "--signature": signature,
        "--timeout": timeout, "--memory": memory,
    }  # fmt: skip
    of_recordings = {"--against": against, "--role": role or None}
    refuse_options(of_recordings if recorded is None else of_functions, recorded)
    known = known_deviation(expect, reason)
    graph = is_onnx(target)
    if node is not None and not graph:
        raise UsageError("--node needs a TARGET that is an ONNX model")
    fn: Any = None if target is None or graph else load_target(target)
    own = isinstance(fn, Implementation)
    chosen = surface or ("apply" if fn is None else only_surface(fn))
    needed = chosen not in SURFACES or SURFACES[chosen].needs_encoding
    if recorded is not None:
        needed = against is None
    optional = own or not needed or (head_dim is not None and recorded is None)
    require_one_declaration(encoding, preset, config, optional=optional)
    several: dict[str, Encoding] = {}
    declared: Declared = None if encoding is None else load_declaration(encoding, chosen)
    model = None
    if preset is None and config is None:
        require_model(fact=fact, part=part, layer_type=layer_type, override=override)
    elif chosen in OF_RULES:
        declared = load_rule(preset, config)
    else:
        model = load_model(preset or config or "", part, fact or (), chosen, override)
        several = layer_types(model, layer_type) if graph else {}
        if recorded is not None:
            declared = model
        elif not several:
            declared = declared_by(model, chosen or "apply", layer_type)
    if chosen is None and makes_a_grid(fn, declared):
        surface = chosen = "grid"
    if chosen in OF_RULES:
        refuse(chosen, declared)
    settings: dict[str, Any] = {
        "backend": backend, "tensor_layout": tensor_layout, "device": device, "angles": angles,
        "precision": precision, "head_dim": head_dim, "max_position": max_position,
        "inplace": inplace, "accept_limits": accept_limits,
    }  # fmt: skip
    if target is not None and graph:
        from .options.onnx_model import check_model

        yield from check_model(
            target,
            several or {layer_type or "": declared},
            layers=model.layer_types if model is not None and several else (),
            node=node,
            as_json=as_json,
            known=known,
            surface=surface,
            table=table,
            init=init,
            signature=signature,
            **settings,
        )
        return
    if target is not None:
        fn = bound_target(
            fn,
            target,
            declared,
            chosen,
            table=table,
            init=init,
            signature=signature,
            config=config,
            stated=surface is not None,
            tensor_layout=tensor_layout,
            backend=backend,
            dtype=dtype,
            head_dim=head_dim,
            layer_type=layer_type,
        )
    if command is not None:
        fn = from_command(
            command_words(command),
            chosen or "apply",
            declared,
            tensor_layout=tensor_layout or "bhsd",
            timeout=TIMEOUT if timeout is None else timeout,
            memory=memory_limit(memory),
        )
    bound = isinstance(fn, Implementation)
    chosen = chosen or fn.surface
    declared = declared or (fn.encoding if bound else None)
    library = backend or (fn.backend if bound else "numpy")
    facts = {
        "subject": fn.name if isinstance(fn, Implementation) else target or str(recorded),
        "surface": chosen,
        "declared": describe(declared),
        "backend": library,
        # Empty for an unknown library, which ``check`` rejects.
        "backend_version": next((b.version for b in backends() if b.name == library), ""),
        "dtype": dtype,
    }
    yield Started(facts, None if declared is None else declared.to_dict())
    from posenc_ref.conformance.calling.libraries import libraries_of
    from posenc_ref.conformance.check import check

    def judge(encoding: Declared, library: str | None = backend) -> Report:
        made = check(
            fn,
            encoding,
            chosen,
            dtype=dtype,
            strict=strict,
            name=target if isinstance(target, str) and not own else None,
            **{**settings, "backend": library},
        )
        if library is None and not bound and made.codes == ["raises"] and not made.executed:
            # It takes no NumPy arrays; its module says which others it may take.
            for other in (one.backend for one in libraries_of(fn)):
                again = None if other == "numpy" else judge(encoding, other)
                if again is not None and again.codes != ["raises"]:
                    return again
        return made

    if recorded is not None:
        from .options.recorded import judge_recorded

        report = judge_recorded(
            recorded,
            against,
            declared,
            role or (),
            head_dim=head_dim,
            layer_type=layer_type,
            tensor_layout=tensor_layout,
            angles=angles,
            precision=precision,
            strict=strict,
        )
    else:
        report = judge(declared)
    if model is not None and recorded is None:
        name_layer_type(report, other_layer_types(model, report.surface, declared), judge)
    report.expected = known
    yield report
