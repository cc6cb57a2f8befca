"""The document that a sweep writes: dated, with versions, evidence and scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from .expected import Expected
from .record import APPLY, AS_CONFIGURED, FLOAT32, OUTCOMES, Judged
from .show import HEAD, cells, counts, what
from .sweep import Sweep

JUDGED = ("conforms", "deviates")
#: How many modules are named under one deviation, and how many reasons for refusals.
_NAMED, _REASONS = 10, 12
LOGITS = """\
With other rope types, the default entry of `rope_parameters` is replaced (factor 4, or 8 for
llama3; original length 2048). `scores` are the logits of the attention class: q, k and the scale
that it hands to its attention function, at seven positions, against `ModelEncoding.scores` of q and
k as they are at position 0. That shows the slice of the head, the layers that are not rotated, and
every factor wherever it is put. Attention classes that could not be built or called with hidden
states and position embeddings alone are counted as not drivable."""
#: Where the scripts of the deviations are, beside the document.
SCRIPTS = "sweep-deviations"
READING = """\
Every rotary module class of every model in the installed `transformers` is built from its default
configuration, filled as loading a checkpoint fills it, driven with its own function that rotates,
and judged against what `posenc_ref.from_config` reads in that configuration. A **score** is the
largest error in units of rounding (see README): up to 128 pass. **angles** is how the module holds
them, found by recomputing. Names are `model.Class(configuration) [layer type]`; one class may be
built from several configurations, and may keep a table for each type of layer.

- **deviates**: the module is not what its configuration says. A *bug* is one by its own source or
  paper; a *convention* is a choice of its own that others have to know.
- **our gap**: we cannot express it, or not judge it.
- **not drivable**: nothing told us how to call it.
- **refused**: the model does not take the rope type that was asked for. That is no deviation."""


def markdown(found: Sweep, folder: Path | None = None) -> str:
    """The result as a document; scripts are read from ``folder`` where it has them."""
    footer = found.footer()
    versions = ", ".join(f"{name} {value}" for name, value in footer["versions"].items())
    plain = [line for line in found.lines if _ordinary(line)]
    others = [line for line in found.lines if not _ordinary(line)]
    parts = [
        "# Every rotary module of transformers, judged",
        f"{footer['date']}, with {versions}. Written by `{_command(found)}` in "
        f"{found.cpu_seconds:.0f} seconds of processor time.",
        f"**As configured: {counts(plain)}.**" if plain else "",
        READING,
        *_deviations(found, folder),
        *_reasons(found),
        *_others(others),
    ]
    if plain:
        parts += ["## As configured, float32", "\n".join(_rows(HEAD, [cells(x) for x in plain]))]
    settings = sorted({f"- `{x.name}` is {x.settings}." for x in plain if x.settings})
    if settings:
        parts += ["## Configurations that are not the default", "\n".join(settings)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _ordinary(line: Judged) -> bool:
    return (line.rope_type, line.dtype, line.surface) == (AS_CONFIGURED, FLOAT32, APPLY)


def _command(found: Sweep) -> str:
    words = ["posenc sweep"]
    for option, values, usual in (
        ("--rope-type", {line.rope_type for line in found.lines}, {AS_CONFIGURED}),
        ("--dtype", {line.dtype for line in found.lines}, {FLOAT32}),
        ("--surface", {line.surface for line in found.lines}, {APPLY}),
    ):
        if values != usual:
            words += [f"{option} {value}" for value in sorted(values)]
    return " ".join([*words, "--markdown FILE"])


def _deviations(found: Sweep, folder: Path | None) -> Iterable[str]:
    lines = [line for line in found.lines if line.outcome == "deviates"]
    if not lines:
        return
    yield "## Deviations"
    left = list(lines)
    for entry in found.known:
        own = [line for line in left if entry.explains(line)]
        if own:
            left = [line for line in left if line not in own]
            yield from _deviation(entry, own, folder)
    for line in left:
        yield f"### {line.name}\n\n**Unexplained.** {what(line)}."


def _deviation(entry: Expected, lines: Sequence[Judged], folder: Path | None) -> Iterable[str]:
    yield f"### {entry.title} ({entry.claim})"
    yield entry.reason
    yield f"*Evidence.* {entry.evidence}"
    named = [f"- `{line.name}`: {what(line)}" for line in lines[:_NAMED]]
    if len(lines) > _NAMED:
        named.append(f"- and {len(lines) - _NAMED} more, by the same message")
    yield "*Found in*\n\n" + "\n".join(named)
    script = folder / SCRIPTS / entry.script if folder else None
    if script is not None and script.is_file():
        code = script.read_text(encoding="utf-8").strip()
        yield f"`{SCRIPTS}/{entry.script}` shows it without this project:\n\n```python\n{code}\n```"


def _reasons(found: Sweep) -> Iterable[str]:
    for outcome, title in (("gap", "Our gaps"), ("undrivable", "Not drivable")):
        lines = [x for x in found.lines if x.outcome == outcome and x.surface == APPLY]
        if not lines:
            continue
        yield f"## {title}"
        named: dict[str, str] = {}
        for line in lines:  # once, not for every rope type and dtype
            known = next((entry for entry in found.known if entry.explains(line)), None)
            named.setdefault(
                line.target, f"- `{line.name}`: {known.reason if known else what(line)}"
            )
        yield "\n".join(named.values())


def _others(lines: Sequence[Judged]) -> Iterable[str]:
    if not lines:
        return
    yield "## Other rope types, other dtypes, and logits"
    yield LOGITS
    rows = []
    for key in dict.fromkeys(map(_kind, lines)):
        own = [line for line in lines if _kind(line) == key]
        c = Counter(line.outcome for line in own)
        classes = Counter(x.precision for x in own if x.outcome in JUDGED and x.precision)
        worst = max((line.score or 0.0 for line in own if line.outcome == "conforms"), default=0.0)
        counted = (str(c[outcome]) for outcome in OUTCOMES)
        held = ", ".join(f"{name} ({n})" for name, n in classes.most_common())
        rows.append([*key, *counted, f"{worst:.2f}", held])
    head = ["surface", "rope type", "dtype", *OUTCOMES, "worst that conforms", "classes"]
    yield "\n".join(_rows(head, rows))
    refused = Counter(line.reason for line in lines if line.outcome == "refused")
    if refused:
        said = [f"- {n}: {reason}" for reason, n in refused.most_common(_REASONS)]
        said += [f"- and {len(refused) - _REASONS} rarer reasons"] * (len(refused) > _REASONS)
        yield "Why rope types were refused:\n\n" + "\n".join(said)


def _kind(line: Judged) -> tuple[str, str, str]:
    return line.surface, line.rope_type, line.dtype


def _rows(head: list[str], rows: list[list[str]]) -> list[str]:
    made = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in made]
