"""The command ``posenc identify``."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from posenc_ref.conformance.calling import NoConvention
from posenc_ref.conformance.external.command import TIMEOUT, from_command
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.harness.pace import watched
from posenc_ref.conformance.identify.card import Card
from posenc_ref.conformance.identify.function import SURFACES, identify
from posenc_ref.conformance.identify.natural.foreign import started

from .options.apart import MEMORY, SECONDS, InProcess, Memory, Printed, Timeout, shown
from .options.loading import UsageError, is_encoding, is_onnx, load_encoding, load_target
from .options.models import PART, encoding_of, load_model, named_value
from .options.output import usage_errors
from .options.targets import (
    Axes,
    BackendName,
    Device,
    Dtype,
    Init,
    Signature,
    Table,
    TensorLayout,
    bound_target,
)

#: The part of the time limit after which no call is begun, so that the card is printed.
_SHARE = 0.7


@usage_errors(UsageError, TypeError, ValueError, OSError)
@shown
def identify_command(
    target: Annotated[
        str | None, typer.Argument(help="file.py:function, package.module:function or model.onnx")
    ] = None,
    command: Annotated[
        str | None,
        typer.Option("--exec", help="Identify a program in any language, as in `posenc check`."),
    ] = None,
    recorded: Annotated[
        Path | None,
        typer.Option(help="Identify the rotation of recorded tensors, as in `posenc check`."),
    ] = None,
    role: Annotated[
        list[str] | None, typer.Option(help="The name of a recorded tensor, ROLE=NAME.")
    ] = None,
    head_dim: Annotated[
        int | None,
        typer.Option(help="Size of the last axis of x (or q and k); for `apply` and `scores`."),
    ] = None,
    surface: Annotated[
        str | None, typer.Option(help=f"The surface of the function: {', '.join(SURFACES)}.")
    ] = None,
    table: Table = None,
    init: Init = None,
    signature: Signature = None,
    axes: Axes = 1,
    backend: BackendName = None,
    dtype: Dtype = "float32",
    tensor_layout: TensorLayout = None,
    device: Device = None,
    max_position: Annotated[int | None, typer.Option(help="The highest position to try.")] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="Also print how to convert the function to this encoding: a preset, config.json, "
            'RoPE(64, layout="half"), JSON or @file.json.'
        ),
    ] = None,
    part: Annotated[str | None, typer.Option(help=f"For --to. {PART}")] = None,
    fact: Annotated[
        list[str] | None,
        typer.Option(help="For --to: a value that the model requires, NAME=VALUE."),
    ] = None,
    layer_type: Annotated[
        str | None, typer.Option(help="For --to: the layer type, if the model has several.")
    ] = None,
    node: Annotated[
        str | None, typer.Option(help="The node of an ONNX model; by default, every rotary one.")
    ] = None,
    timeout: Timeout = None,
    memory: Memory = None,
    in_process: InProcess = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the card as JSON.")] = False,
) -> Iterator[Printed]:
    """Identify the encoding of a function, the models that use it, and deviations from it.

    Exits with 0 if an encoding describes the function exactly, 1 if there are deviations, 2 for a
    usage error, 3 if no encoding was found, the frequencies follow no known rule, or the function
    crashed or took too long.
    """
    if [target, command, recorded].count(None) != 2:
        raise UsageError(
            "give one of TARGET (file.py:function), --exec './program' and --recorded FILE"
        )
    if recorded is not None:
        from .options.recorded import identify_recording

        others = (surface, table, init, signature, backend, device, max_position, to)
        if any(others) or axes > 1:
            raise UsageError("--recorded takes only --role, --head-dim, --tensor-layout and --json")
        cards = identify_recording(recorded, role or (), head_dim, tensor_layout)
        texts = [card.to_json() for card in cards] if as_json else list(map(str, cards))
        text = f"[{', '.join(texts)}]" if as_json else "\n\n".join(texts)
        yield Printed(text, max(map(_exit_code, cards), key=(0, 1, 3).index))
        return
    if to is None or is_encoding(to):
        for option, value in (("--part", part), ("--fact", fact), ("--layer-type", layer_type)):
            if value:
                raise UsageError(f"{option} needs --to with a preset or a config.json")
    goal = None
    if to is not None:
        goal = load_encoding(to) if is_encoding(to) else None
        goal = goal or encoding_of(load_model(to, part, fact or ()), layer_type)
    if target is not None and is_onnx(target):
        from .options.onnx_model import identify_model

        yield identify_model(
            target,
            node=node,
            as_json=as_json,
            head_dim=head_dim,
            to=goal,
            exit_code=_exit_code,
            surface=surface,
            backend=backend,
            tensor_layout=tensor_layout,
            device=device,
            max_position=max_position,
            table=table,
            init=init,
            signature=signature,
        )
        return
    if node is not None:
        raise UsageError("--node needs a TARGET that is an ONNX model")
    share = float("inf") if command is not None else _SHARE * (timeout or SECONDS)
    with watched(share) as limit:
        fn: Any
        unbound: NoConvention | None = None
        if command is not None:
            if table or init or signature:
                raise UsageError("--exec takes no --table, --init and --signature")
            fn = from_command(
                shlex.split(command),
                surface or "apply",
                None,
                tensor_layout=tensor_layout or "bhsd",
                timeout=TIMEOUT if timeout is None else timeout,
                memory=MEMORY if memory is None else memory,
            )
        else:
            assert target is not None
            fn = load_target(target)
            try:
                fn = bound_target(
                    fn,
                    target,
                    None,
                    surface,
                    table=table,
                    init=init,
                    signature=signature,
                    tensor_layout=tensor_layout,
                    backend=backend,
                    dtype=dtype,
                    head_dim=head_dim,
                    axes=axes,
                )
            except NoConvention as error:
                if table or signature:
                    raise
                if surface is not None or init or not inspect.isroutine(fn):
                    unbound = error
                    fn = started(fn, dict(named_value(text, "--init") for text in init or ()))
                    if fn is None:
                        raise
        card = identify(
            fn,
            surface,
            head_dim=head_dim,
            axes=axes,
            to=goal,
            backend=backend,
            dtype=dtype,
            tensor_layout=tensor_layout,
            device=device,
            max_position=max_position,
            name=None if isinstance(fn, Implementation) else target,
        )
    if unbound is not None and not card.found and not limit.left:
        raise unbound
    yield Printed(card.to_json() if as_json else str(card), _exit_code(card))


def _exit_code(card: Card) -> int:
    known = card.found and card.rule and not card.unsure
    return 3 if not known else 0 if card.exact else 1
