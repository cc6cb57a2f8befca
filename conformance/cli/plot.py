"""The command ``posenc plot``."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from posenc_ref import from_dict
from posenc_ref.conformance.external.process import HarnessError
from posenc_ref.conformance.guide.names import encodings, others
from posenc_ref.conformance.harness.report import Report
from posenc_ref.conformance.harness.whole import write_whole
from posenc_ref.conformance.plots.declarations import examples
from posenc_ref.conformance.plots.draw import drawn
from posenc_ref.conformance.plots.encodings import KINDS, pictures
from posenc_ref.conformance.plots.overlay import overlay
from posenc_ref.conformance.plots.picture import Picture
from posenc_ref.conformance.plots.reports import errors, measured, of_report
from posenc_ref.conformance.surveys.ndjson import read_ndjson
from posenc_ref.encoding import Value

from .check import check_command
from .identify import identify_command
from .options.apart import NoVerdict, Printed, Timeout, judged
from .options.loading import UsageError, is_encoding, load_declaration
from .options.models import LEARNED, PART, load_described
from .options.output import require_among, say, usage_errors

#: One row of panels: its title and its pictures.
Row = tuple[str, list[Picture]]
_SOURCE = (
    'An encoding (ALiBi, RoPE(64, layout="half"), JSON or @file.json), a preset, config.json or '
    "GGUF file, a function (file.py:function), or a report that --ndjson wrote."
)
_KINDS = {**KINDS, "errors": "the error of a judged function, by position"}


@usage_errors(UsageError, HarnessError, NoVerdict, TypeError, ValueError, ImportError, OSError)
def plot_command(
    source: Annotated[str, typer.Argument(help=_SOURCE)],
    other: Annotated[
        str | None, typer.Argument(help="The same, to draw both in one picture.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A new file: .svg, .png or .pdf.")
    ] = None,
    picture: Annotated[
        list[str] | None, typer.Option(help=f"Only this picture: {', '.join(_KINDS)}.")
    ] = None,
    length: Annotated[
        int | None, typer.Option(help="How many positions to show; by default 128, or all.")
    ] = None,
    head: Annotated[int, typer.Option(help="The head that a heat map shows.")] = 0,
    encoding: Annotated[
        str | None, typer.Option(help="The expected encoding of a function; else it is identified.")
    ] = None,
    part: Annotated[str | None, typer.Option(help=PART)] = None,
    fact: Annotated[
        list[str] | None, typer.Option(help="A value that the preset requires, NAME=VALUE.")
    ] = None,
    layer_type: Annotated[str | None, typer.Option(help="Only layers of this type.")] = None,
    timeout: Timeout = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Draw an encoding, a model, a judged function or a recorded report; two of them together.

    An encoding without settings, such as ALiBi, is its first registered example; attention layers,
    convolutions, rules of position ids and factors on queries are drawn as well. The pictures of
    two sources are drawn together: lines in one panel, heat maps as their difference. A function is
    judged first, in a process of its own. Needs matplotlib, unless --json is given.
    """
    require_among("--picture", picture, _KINDS)
    if output is None and not as_json:
        raise UsageError("give -o FILE, a new .svg, .png or .pdf file, or --json")
    if output is not None and output.exists():
        raise UsageError(f"-o: {output} exists already; give the name of a new file")

    def rows_of(text: str) -> list[Row]:
        if text.endswith(".ndjson"):
            return [(text, [errors(measured([read_ndjson(Path(text))]))])]
        if ":" in text and not is_encoding(text) and not Path(text).exists():
            return [_function(text, encoding, timeout)]
        found = _declared(text, part, fact or (), layer_type)
        return [(title, pictures(one, length, head)) for title, one in found]

    rows = rows_of(source)
    if other is not None:
        rows = _together(rows, rows_of(other), source, other)
    if picture:
        rows = [(title, [one for one in own if one.name in picture]) for title, own in rows]
    rows = [(title, own) for title, own in rows if own]
    if not rows:
        raise UsageError(f"{source} has no picture {' or '.join(picture or _KINDS)}")
    if output is not None:
        form = output.suffix[1:].lower()
        if form not in ("svg", "png", "pdf"):
            raise UsageError(f"-o must end in .svg, .png or .pdf, got {output}")
        write_whole(output, drawn(rows, form))
    if as_json:
        body = [{"title": t, "pictures": [one.to_dict() for one in own]} for t, own in rows]
        say(json.dumps(body, indent=1))
    else:
        drawn_ones = ", ".join(dict.fromkeys(one.name for _, own in rows for one in own))
        say(f"{output}: {drawn_ones}")


def _declared(
    text: str, part: str | None, facts: Sequence[str], layer_type: str | None
) -> list[tuple[str, Value]]:
    """Return the declarations of a text, each with a title."""
    if example := _example(text):
        return [(f"{type(example).__name__}, for example {example!r}", example)]
    if is_encoding(text):
        one = load_declaration(text)
        return [(repr(one), one)]
    model = load_described(text, part, facts, LEARNED).model
    if layer_type is not None and layer_type not in model.encodings:
        raise UsageError(
            f"--layer-type must be one of {', '.join(model.encodings)}, got {layer_type!r}"
        )
    own = {t: e for t, e in model.encodings.items() if layer_type in (None, t) and e is not None}
    if not own:
        raise UsageError(f"{text} has no positional encoding to draw")
    several = len(own) > 1
    return [(model.name + (f", layers of type {t}" if several else ""), e) for t, e in own.items()]


def _example(name: str) -> Value | None:
    """Return the example of the class with this name, or None if there is no such class."""
    from posenc_ref.conformance.registry import entries

    named: dict[str, type[Value]] = {c.__name__.lower(): c for c in (*encodings(), *others())}
    cls = named.get(name.lower())
    if cls is None or cls in examples():
        return examples()[cls] if cls else None
    entry = next(entry for entry in entries() if entry.encoding is cls)
    return next(iter(entry.examples.values()))


def _function(target: str, encoding: str | None, timeout: float | None) -> Row:
    """Return the picture of a function's errors."""
    if encoding is None:
        card = _run(identify_command, target=target, as_json=True, timeout=timeout)
        assert isinstance(card, Printed)
        found = json.loads(card.text)["encoding"]
        if found is None:
            raise UsageError(f"{target} was not identified: pass --encoding")
        encoding = json.dumps(from_dict(found).to_dict())
    report = _run(check_command, target=target, encoding=encoding, timeout=timeout)
    if not isinstance(report, Report):
        raise UsageError(f"{target} has several reports: judge it with --ndjson, and draw that")
    if report.error:
        raise UsageError(f"{target}: {report.error}")
    by_position = of_report(report)
    if not by_position:
        raise UsageError(f"{target}: errors by position are measured of rotations only")
    codes = f" ({', '.join(report.codes)})" if report.codes else ""
    return f"{target} {report.verdict}{codes}", [errors(by_position)]


def _run(command: Any, **given: Any) -> Report | Printed:
    """Run ``posenc check`` or ``identify`` with these options, and return what it would print."""
    function = inspect.unwrap(command)
    parameters = inspect.signature(function).parameters.values()
    return judged(function, {p.name: p.default for p in parameters} | given)


def _together(a: list[Row], b: list[Row], one: str, other: str) -> list[Row]:
    """Return the rows of two sources in one: of each the first."""
    for name, rows in ((one, a), (other, b)):
        if len(rows) > 1:
            raise UsageError(f"{name} has several layer types: pass --layer-type")
    return [(f"{a[0][0]} and {b[0][0]}", overlay(a[0][1], b[0][1], (one, other)))]
