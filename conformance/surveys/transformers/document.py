"""The Markdown document of a sweep, with versions, evidence and scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from posenc_ref.conformance.surveys.document import claims, deviations, document
from posenc_ref.conformance.surveys.expected import explanation
from posenc_ref.conformance.surveys.record import Outcome
from posenc_ref.conformance.surveys.tables import markdown_table

from .case import APPLY, AS_CONFIGURED, FLOAT32
from .show import HEAD, cells, counts
from .sweep import JUDGED, VERDICTS, Sweep, libraries

#: The largest number of modules listed for a deviation, and of reasons for refusals.
_NAMED, _REASONS = 10, 12
LOGITS = """\
For another rope type, the sweep changes the default configuration: `rope_parameters` with the rope
type "default" get the other type (factor 4, or 8 for llama3; original length 2048).

`scores` are logits. The sweep records q, k and the scale that the attention class passes to its
attention function, first at seven positions, then at position 0. From q and k at position 0,
`ModelEncoding.scores` must compute the logits of the seven positions. This checks the rotated
channels, the layers without rotation, and factors on queries, keys, cos, sin or the softmax scale.
Attention classes that need other arguments than hidden states and position embeddings count as not
drivable."""
#: The folder of the deviations' scripts, next to the document.
SCRIPTS = "sweep-deviations"
TITLE = "Every rotary module of transformers, judged"
READING = """\
Every rotary module class of every model in the installed `transformers` is built from its default
configuration. The model's `_init_weights` fills its buffers, and the model's own function rotates
with its table. The result is compared with the encoding that `posenc_ref.from_config` reads in the
configuration. A **score** is the largest error in units of rounding (judging.md): up to 128 pass.
**angles** is the precision in which the module computes angles: the one that explains its output.
Names are `model.Class(configuration) [layer type]`; one class may be built from several
configurations, and may have a table for each layer type.

- **ok**: the module equals its configuration, as `from_config` reads it. That says nothing about
  other parts of the model.
- **deviates**: the module differs from its configuration.
- **our gap**: `posenc_ref` has no encoding for the module, or cannot judge it.
- **not drivable**: the sweep found no way to build or call the module.
- **refused**: the model does not support this rope type. That is no deviation.

"""


def markdown(found: Sweep, folder: Path | None = None) -> str:
    """Return the document, including the scripts that exist in ``folder``."""
    plain = [line for line in found.outcomes if _ordinary(line)]
    parts = [
        f"**As configured: {counts(plain)}.**" if plain else "",
        READING + claims(),
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
    # Rope types that replace the configured one are judged in the first dtype only.
    lines = sorted(found.outcomes, key=lambda line: line.rope_type == AS_CONFIGURED)
    for option, values, usual in (
        ("--rope-type", sorted({line.rope_type for line in lines}), [AS_CONFIGURED]),
        ("--dtype", list(dict.fromkeys(line.dtype for line in lines)), [FLOAT32]),
        ("--surface", sorted({line.surface for line in lines}), [APPLY]),
    ):
        if values != usual:
            words += [f"{option} {value}" for value in values]
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
