"""The Markdown document of a sweep, with versions, evidence and scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from posenc_ref.conformance.surveys.document import deviations, document
from posenc_ref.conformance.surveys.expected import explanation
from posenc_ref.conformance.surveys.record import Outcome
from posenc_ref.conformance.surveys.tables import markdown_table

from .case import APPLY, AS_CONFIGURED, FLOAT32
from .show import HEAD, cells, counts
from .sweep import JUDGED, VERDICTS, Sweep, libraries

#: The largest number of modules listed for a deviation, and of reasons for refusals.
_NAMED, _REASONS = 10, 12
LOGITS = """\
With other rope types, the default entry of `rope_parameters` is replaced (factor 4, or 8 for
llama3; original length 2048). `scores` are the logits of the attention class: q, k and the scale
that it hands to its attention function, at seven positions, against `ModelEncoding.scores` of q and
k as they are at position 0. That shows the slice of the head, the layers that are not rotated, and
every factor wherever it is put. Attention classes that could not be built or called with hidden
states and position embeddings alone are counted as not drivable."""
#: The folder of the deviations' scripts, next to the document.
SCRIPTS = "sweep-deviations"
TITLE = "Every rotary module of transformers, judged"
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
    """Return the document, including the scripts that exist in ``folder``."""
    plain = [line for line in found.outcomes if _ordinary(line)]
    parts = [
        f"**As configured: {counts(plain)}.**" if plain else "",
        READING,
        *deviations(found, found.known, folder, SCRIPTS, _NAMED),
        *_reasons(found),
        *_others([line for line in found.outcomes if not _ordinary(line)]),
    ]
    if plain:
        parts += ["## As configured, float32", markdown_table(HEAD, map(cells, plain))]
    settings = sorted({f"- `{x.name}` is {x.settings}." for x in plain if x.settings})
    if settings:
        parts += ["## Configurations that are not the default", "\n".join(settings)]
    duration = f"{found.cpu_seconds:.0f} seconds"
    return document(TITLE, libraries(), _command(found), duration, parts)


def _ordinary(line: Outcome) -> bool:
    return (line.rope_type, line.dtype, line.surface) == (AS_CONFIGURED, FLOAT32, APPLY)


def _command(found: Sweep) -> str:
    words = ["posenc sweep"]
    for option, values, usual in (
        ("--rope-type", {line.rope_type for line in found.outcomes}, {AS_CONFIGURED}),
        ("--dtype", {line.dtype for line in found.outcomes}, {FLOAT32}),
        ("--surface", {line.surface for line in found.outcomes}, {APPLY}),
    ):
        if values != usual:
            words += [f"{option} {value}" for value in sorted(values)]
    return " ".join([*words, "--markdown FILE"])


def _reasons(found: Sweep) -> Iterator[str]:
    for verdict, title in (("gap", "Our gaps"), ("undrivable", "Not drivable")):
        lines = [x for x in found.outcomes if x.verdict == verdict and x.surface == APPLY]
        if not lines:
            continue
        yield f"## {title}"
        named: dict[str, str] = {}
        for line in lines:  # one entry for all rope types and dtypes
            known = explanation(line, found.known)
            why = known.reason if known else line.found
            named.setdefault(line.target, f"- `{line.name}`: {why}")
        yield "\n".join(named.values())


def _others(lines: Sequence[Outcome]) -> Iterator[str]:
    if not lines:
        return
    yield "## Other rope types, other dtypes, and logits"
    yield LOGITS
    rows = []
    for key in dict.fromkeys(map(_kind, lines)):
        own = [line for line in lines if _kind(line) == key]
        c = Counter(line.verdict for line in own)
        classes = Counter(x.precision for x in own if x.verdict in JUDGED and x.precision)
        worst = max((line.worst or 0.0 for line in own if line.verdict == "conforms"), default=0.0)
        counted = (str(c[verdict]) for verdict in VERDICTS)
        held = ", ".join(f"{name} ({n})" for name, n in classes.most_common())
        rows.append([*key, *counted, f"{worst:.2f}", held])
    head = ["surface", "rope type", "dtype", *VERDICTS, "worst that conforms", "classes"]
    yield markdown_table(head, rows)
    refused = Counter(line.reason for line in lines if line.verdict == "refused")
    if refused:
        said = [f"- {n}: {reason}" for reason, n in refused.most_common(_REASONS)]
        said += [f"- and {len(refused) - _REASONS} rarer reasons"] * (len(refused) > _REASONS)
        yield "Why rope types were refused:\n\n" + "\n".join(said)


def _kind(line: Outcome) -> tuple[str, str, str]:
    return line.surface, line.rope_type, line.dtype
