"""The command ``posenc compare``."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from functools import partial
from typing import Annotated, Any

import typer

from posenc_ref.conformance.calling import UnusedInit
from posenc_ref.conformance.check import SURFACES
from posenc_ref.conformance.compare.function import compare
from posenc_ref.conformance.harness.driver import TENSOR_LAYOUTS
from posenc_ref.conformance.harness.implementation import Implementation

from .options.loading import UsageError, load_target
from .options.output import usage_errors
from .options.targets import Init, Signature, Table, bound_target


@usage_errors(UsageError, TypeError, ValueError)
def compare_command(
    a: Annotated[
        str, typer.Argument(help="The function to judge: file.py:function or package:function.")
    ],
    b: Annotated[str, typer.Argument(help="The function that is the declaration.")],
    head_dim: Annotated[
        int | None,
        typer.Option(
            help="Size of the last axis of x; by default the first usual size that both accept."
        ),
    ] = None,
    surface: Annotated[
        str | None, typer.Option(help=f"The surface of both functions: {', '.join(SURFACES)}.")
    ] = None,
    table: Table = None,
    init: Init = None,
    signature: Signature = None,
    axes: Annotated[
        int, typer.Option(help="The number A of axes of positions (A, B, S).", min=1)
    ] = 1,
    backend: Annotated[
        list[str] | None,
        typer.Option(help="The array library of both functions; given twice: of A, then of B."),
    ] = None,
    dtype: Annotated[str, typer.Option(help="The dtype of x and of the result.")] = "float32",
    tensor_layout: Annotated[
        list[str] | None,
        typer.Option(
            help=f"The tensor layout of x: {', '.join(TENSOR_LAYOUTS)}; given twice: of A, then "
            "of B."
        ),
    ] = None,
    device: Annotated[str | None, typer.Option(help="The device of the arrays, e.g. cuda.")] = None,
    max_position: Annotated[int | None, typer.Option(help="The highest position compared.")] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Fail if tensors differ, even if every logit agrees."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Judge function A against function B, and say how to get from A to B.

    B is the declaration. If its encoding can be identified, A is checked against that encoding. If
    not, the results of B are the reference. The last lines say whether tensors or logits agree, the
    first position with a visible difference, and what to permute or change. Exits with 0 if A
    conforms to B, 1 if it deviates, 2 for a usage error, 3 if the comparison was inconclusive.
    """
    libraries, layouts = (
        _both("--backend", backend),
        _both("--tensor-layout", tensor_layout),
    )
    stated = table is not None or bool(init) or signature is not None
    with redirect_stdout(sys.stderr):  # keep the functions' own output out of the report
        functions = [load_target(target) for target in (a, b)]
        if stated:  # otherwise ``compare`` binds both, with one size of a head
            functions = _bound(
                functions,
                (a, b),
                init or [],
                [
                    {"tensor_layout": layout, "backend": library}
                    for layout, library in zip(layouts, libraries, strict=True)
                ],
                surface=surface,
                table=table,
                signature=signature,
                dtype=dtype,
                head_dim=head_dim,
                axes=axes,
            )
        report = compare(
            functions[0],
            functions[1],
            surface,
            head_dim=head_dim,
            axes=axes,
            backend=libraries,
            dtype=dtype,
            tensor_layout=layouts,
            device=device,
            max_position=max_position,
            strict=strict,
            names=(_name(functions[0], a), _name(functions[1], b)),
        )
    typer.echo(report.to_json(indent=1) if as_json else str(report))
    raise typer.Exit(report.exit_code)


def _name(fn: object, target: str) -> str | None:
    """Return the name of a function in the report, or None if it has its own."""
    return None if isinstance(fn, Implementation) else target


def _both(option: str, values: list[str] | None) -> tuple[str | None, str | None]:
    """Return the value of an option for A and for B."""
    match values or []:
        case []:
            return None, None
        case [one]:
            return one, one
        case [one, other]:
            return one, other
    raise UsageError(f"{option} may be given once or twice, got {len(values or [])} values")


def _bound(
    functions: list[Any],
    targets: tuple[str, str],
    init: list[str],
    own: list[dict[str, Any]],
    *,
    surface: str | None,
    **settings: Any,
) -> list[Any]:
    """Return both functions bound; an argument of ``--init`` may belong to one of them alone."""
    found: list[Any] = []
    unused: list[UnusedInit] = []
    for fn, target, each in zip(functions, targets, own, strict=True):
        call = partial(bound_target, fn, target, None, surface, **each, **settings)
        try:
            found.append(call(init=init))
        except UnusedInit as error:
            unused.append(error)
            found.append(call(init=[x for x in init if x.partition("=")[0] not in error.names]))
    if len(unused) == len(functions):
        nobody = set(unused[0].names) & set(unused[1].names)
        if nobody:
            raise UsageError(f"--init: neither A nor B takes {', '.join(sorted(nobody))}")
    return found
