"""``posenc explain``: what the code of a finding means, or how an encoding is defined."""

from __future__ import annotations

import difflib
import inspect
import textwrap
from collections.abc import Sequence
from typing import Annotated

import typer

from posenc_ref.conformance.calling.conventions import CONVENTIONS, NAMES, Convention
from posenc_ref.conformance.exact.property_text import declared, meanings
from posenc_ref.conformance.harness.codes import CODES
from posenc_ref.conformance.harness.signatures import SURFACES
from posenc_ref.conformance.registry import entries

from .loading import UsageError, encodings, scalings
from .output import usage_errors

WIDTH = 88
#: Names of encodings and scalings in configurations and papers.
ALIASES = {
    "linear": "LinearScaling", "pi": "LinearScaling", "ntk": "NTKScaling", "ntkaware": "NTKScaling",
    "dynamic": "DynamicNTK", "dynamicntk": "DynamicNTK", "llama3": "Llama3Scaling",
    "su": "LongRoPE", "prope": "Proportional", "mrope": "MultiAxisRoPE", "axial": "MultiAxisRoPE",
    "partial": "RoPE", "partialrotary": "RoPE", "t5": "T5Bias", "learnedfrequencies":
    "GivenFrequencies", "conformer": "TransformerXL", "funnel": "TransformerXL",
    "musictransformer": "Shaw", "swin": "SwinBias", "swinv2": "LogCPB", "beit": "BEiTBias",
    "levit": "LeViTBias", "mvit": "DecomposedRelative", "sam": "DecomposedRelative",
    "perceiver": "FourierFeatures", "fourier": "FourierFeatures", "detr": "DETRSine",
    "dabdetr": "BoxSine", "conditionaldetr": "BoxSine", "wavlm": "GatedBias",
    "fox": "ForgettingBias", "cable": "ForgettingBias", "convit": "ConViTBias",
    "patchtst": "StandardizedSinusoidal", "espnet": "TransformerXL", "neox": "RoPE",
    "gptneox": "RoPE", "gptj": "RoPE", "crossformer": "DynamicWindowBias",
    "sincos2d": "Sinusoidal2D", "mae": "Sinusoidal2D", "reformer": "AxialLearned",
}  # fmt: skip


@usage_errors(UsageError)
def explain_command(
    name: Annotated[
        str | None,
        typer.Argument(help="A finding code, surface, encoding or scaling; omit it to list all."),
    ] = None,
) -> None:
    """Explain the code of a finding and its remedy, or define a surface, encoding or scaling."""
    typer.echo(explain(name))


def explain(name: str | None = None) -> str:
    """Return the text about a code, surface, encoding or scaling; None lists all of them."""
    if name is None:
        return _everything()
    values = {c.__name__: c for c in [*encodings(), *scalings()]}
    wanted = name.strip().lower().replace("_", "-")
    if wanted in ("signatures", "conventions"):
        return _signatures(CONVENTIONS)
    surface = wanted.replace("-", "_")
    if wanted in NAMES and surface not in SURFACES:
        return _signatures([NAMES[wanted]])
    if surface in SURFACES:  # "slopes" is both a surface and a code
        known = f"surface {surface}\n{_hanging('call', SURFACES[surface].call)}"
        return f"{known}\n\n{_code(wanted)}" if wanted in CODES else known
    if wanted in CODES:
        return _code(wanted)
    by_lower = {known.lower(): known for known in values} | ALIASES
    if wanted.replace("-", "") in by_lower:
        cls = values[by_lower[wanted.replace("-", "")]]
        return f"{_signature(cls)}\n\n{inspect.getdoc(cls)}{_properties(cls)}"
    near = difflib.get_close_matches(wanted, [*CODES, *by_lower, *SURFACES], n=5, cutoff=0.5)
    near += [code for code in CODES if wanted in code and code not in near]
    texts = {c.name: f"{c.meaning} {c.remedy}" for c in CODES.values()}
    texts |= {known: inspect.getdoc(cls) or "" for known, cls in values.items()}
    mentioned = [known for known, text in texts.items() if wanted in text.lower()]
    hint = "; `posenc explain` without a name lists everything"
    if near:
        hint = f"; did you mean {', '.join(by_lower.get(n, n) for n in near)}?"
    elif mentioned:
        hint = f"; it is mentioned in {', '.join(mentioned[:6])}"
    raise UsageError(f"there is no code and no encoding called {name!r}{hint}")


def _signature(cls: type) -> str:
    """Return the constructor's arguments with their defaults."""
    plain = inspect.signature(cls)
    bare = [p.replace(annotation=p.empty) for p in plain.parameters.values()]
    arguments = str(plain.replace(parameters=bare, return_annotation=plain.empty))
    return textwrap.fill(
        f"{cls.__name__}{arguments}", WIDTH, subsequent_indent=" " * (len(cls.__name__) + 1)
    )


def _properties(cls: type) -> str:
    """Return the properties that a registered encoding declares, with their meanings."""
    entry = next((entry for entry in entries() if entry.encoding is cls), None)
    if entry is None:
        return ""
    known, lines = meanings(entry), ["\n\nProperties"]
    for what, but in declared(entry).items():
        text = known[what] + (f"; the example {but} does not have this property" if but else "")
        lines.append(_hanging(f"  {what}", text, 19))
    return "\n".join([*lines, *([] if len(lines) > 1 else ["    none declared"])])


def _signatures(rows: Sequence[Convention]) -> str:
    """Return calling conventions as text: who has them, where they are judged, and a stub."""
    parts = []
    for row in rows:
        parts += [
            row.name,
            _hanging("call", row.call),
            _hanging("used by", row.users),
            _hanging("surface", " or ".join(row.surfaces)),
            "  stub",
            textwrap.indent(row.stub, "    "),
            "",
        ]
    return "\n".join(parts[:-1])


def _code(name: str) -> str:
    parts = ("meaning", "trigger", "remedy")
    return "\n".join([name, *(_hanging(part, getattr(CODES[name], part)) for part in parts)])


def _everything() -> str:
    lines = ["Codes of findings:"]
    lines += [_hanging(code.name, code.meaning, 20) for code in CODES.values()]
    lines += ["", "Surfaces, the shapes of functions:"]
    lines += [_hanging(row.name, row.call, 20) for row in SURFACES.values()]
    for title, classes in (("Encodings:", encodings()), ("Scalings:", scalings())):
        lines += ["", title]
        lines += [_hanging(c.__name__, (c.__doc__ or "").split("\n")[0], 20) for c in classes]
    lines += ["", "`posenc explain NAME` explains one of them."]
    return "\n".join(lines)


def _hanging(title: str, text: str, indent: int = 10) -> str:
    """Return ``title`` with ``text`` next to it, wrapped."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=f"  {title}".ljust(indent + 1) + " ",
        subsequent_indent=" " * (indent + 2),
    )
