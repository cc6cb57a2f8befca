"""The document of the sweep over whole models, and what the command prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from posenc_ref._text import markdown as escaped
from posenc_ref.conformance.surveys.document import deviations, document
from posenc_ref.conformance.surveys.record import Outcome
from posenc_ref.conformance.surveys.tables import (
    WORDS,
    Cell,
    TextTable,
    markdown_table,
    swept_score,
)
from posenc_ref.conformance.surveys.transformers.show import STATES, sentences
from posenc_ref.conformance.surveys.transformers.sweep import JUDGED, Sweep, libraries

from .case import PARTS

#: The folder of the deviations' scripts, beside the document.
SCRIPTS = "whole-model-deviations"
TITLE = "The attention of whole models of transformers"
COMMAND = "posenc sweep --whole-models --markdown FILE"
READING = """\
Each model type with a causal or a masked language model is built with a small configuration,
usually two layers, and random weights. It runs as users run it: one call, padding on the right and
on the left, a cache (a prompt, a chunk, single tokens), the same with padding, `generate` with
padding, packed sequences, and the first call again. Position ids and masks are those that
`generate` makes. Masked models have no cache and get no packed sequences, nor do models that
take no position ids.
Not run here: models with an encoder and a decoder, cross-attention, images and audio.

At every attention layer, the output of the attention function is compared with a plain softmax
attention in float64. Its q, k and v are those that the layer computes for each token alone, at
position 0, with cos = 1 and sin = 0. Rotation, attention factor, scale, windows and softcap are
those that `from_config` and the configuration state; positions and masks are those of the tokens in
their own sequences. A query scale is compared relative to position 0: a constant factor on all
queries is part of q here.

The score is the largest error in units of rounding ([judging.md](../judging.md)): 128 pass in
float32, 8 in bfloat16. A pass in float32 counts only if wrong references are rejected in every
layer, as far as they apply to it: a scale or frequencies 1 % larger, cos and sin 1.5 times larger,
queries one position late, a mask one key late, visible padding. A model that raises in one of the
calls deviates; one whose attention calls cannot be put together is a gap of ours.

"conforms" means: equal to this reference, whose facts are read from the configuration and the
source code of transformers. It does not certify a checkpoint. Of learned tables that are added to
embeddings, the rows of every call are compared: position p must have the row p + r, where r is the
row of a single token. [transformers-sweep-other.md](transformers-sweep-other.md) judges r."""


def counts(found: Sweep) -> str:
    """Return the number of models with each result, as text."""
    verdicts = {name: {line.verdict for line in lines} for name, lines in _models(found)}
    run = [v for v in verdicts.values() if v & set(JUDGED)]
    worse = sum("deviates" in v for v in run)
    gaps = sum("gap" in v and "deviates" not in v for v in run)
    seconds = found.cpu_seconds / max(1, len(verdicts))
    return (
        f"{len(verdicts)} models: {len(run)} run, {len(run) - worse - gaps} agree in every "
        f"call, {worse} disagree, {len(verdicts) - len(run) + gaps} not judged in full; "
        f"{seconds:.1f} s of processor time for each"
    )


def markdown(found: Sweep, folder: Path | None = None) -> str:
    """Return the result as a document; scripts are read from ``folder`` where it has them."""
    parts = [
        f"**{counts(found)}.**",
        READING,
        *deviations(found, found.known, folder, SCRIPTS, most=6),
        *_reasons(found),
        *_not_run(found),
        "## Every model",
        markdown_table(["model", *map(" ".join, PARTS), "seconds"], _rows(found)),
    ]
    return document(TITLE, libraries(), COMMAND, f"{found.cpu_seconds:.0f} seconds", parts)


def parts(found: Sweep) -> list[TextTable | str]:
    """Return the table, sentences about outcomes that do not conform, and the counts."""
    rows: list[list[Cell]] = []
    for line in found.outcomes:
        if line.verdict != "refused":
            state = (WORDS[line.verdict], STATES.get(line.verdict, "skipped"))
            score = swept_score(line) or "none"
            rows.append([line.name, line.encoding or "none", state, score])
    head = ["model", "what it is", "verdict", "score"]
    return [
        TextTable(TITLE, head, rows, numbers=["score"]),
        "\n".join(sentences(found)),
        counts(found),
    ]


def _models(found: Sweep) -> list[tuple[str, list[Outcome]]]:
    models: dict[str, list[Outcome]] = {}
    for line in found.outcomes:
        models.setdefault(line.group, []).append(line)
    return sorted(models.items())


def _reasons(found: Sweep) -> Iterator[str]:
    for verdict, title in (("gap", "Our gaps"), ("undrivable", "Not drivable")):
        by: dict[str, list[str]] = {}
        for name, lines in _models(found):
            for line in lines:
                if line.verdict == verdict:
                    by.setdefault(line.reason, []).append(name)
        if by:
            yield f"## {title}"
            yield "\n".join(
                f"- {', '.join(f'`{n}`' for n in dict.fromkeys(names))}: {escaped(reason)}"
                for reason, names in by.items()
            )


def _not_run(found: Sweep) -> Iterator[str]:
    """Yield the calls that raise, or that this sweep cannot put together."""
    rows = [
        f"- `{line.name}`: {escaped(limit)}" for line in found.outcomes for limit in line.limits
    ]
    if rows:
        yield "## Calls that failed"
        yield "\n".join(rows)


def _rows(found: Sweep) -> Iterator[Sequence[str]]:
    for name, lines in _models(found):
        by = {line.part: line for line in lines}
        if not any(line.verdict in JUDGED for line in lines):
            continue
        cells = [_cell(by.get(" ".join(part))) for part in PARTS]
        yield [f"`{name}`", *cells, f"{sum(line.seconds for line in lines):.1f}"]


def _cell(line: Outcome | None) -> str:
    if line is None:
        return ""
    if line.verdict not in JUDGED:
        return WORDS[line.verdict]
    return f"{WORDS[line.verdict]} ({swept_score(line)})"
