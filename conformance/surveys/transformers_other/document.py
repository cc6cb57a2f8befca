"""The document of the sweep over encodings that are no rotation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from posenc_ref.conformance.surveys.document import claims, deviations, document
from posenc_ref.conformance.surveys.record import Outcome
from posenc_ref.conformance.surveys.tables import WORDS, markdown_table, swept_score
from posenc_ref.conformance.surveys.transformers.sweep import JUDGED, Sweep, libraries

from .census import CLASSES, classes, places

#: Where the scripts of the deviations are, beside the document.
SCRIPTS = "sweep-other-deviations"
HEAD = ["place", "kind", "surface", "declared", "verdict", "score", "findings", "source"]
MEANING = {
    "non-rotary": "have at least one place below",
    "rotary only": "rotate queries and keys, and nothing else",
    "parts": "have no encoding of their own: they are made of other models, by configuration",
    "none": "have no position encoding: convolutions, recurrences, state spaces",
    "no model code": "are a tokenizer, a configuration or a folder of others' code",
    "unknown": "speak of positions in a way that nobody has read yet",
}
TITLE = "Every position encoding of transformers that is no rotation, judged"
READING = """\
A *place* is where a model's file makes a position encoding that is no rotation: an attribute of a
class, a class that computes sines, a function that builds biases. The class is built from its
configuration, small and with random weights, on the CPU; what is declared is read off its
configuration and its source by rule, never measured; `posenc check` judges. A **score** is the
largest error in units of rounding (judging.md), of which 128 pass; looked-up rows and integers are
equal or wrong. What is learned cannot be wrong: judged are the rows that are looked up, for
tokens, masks, padding and caches, and what becomes of a grid at another size.

- `table`: rows at given positions, or of a sequence from its start; `padded`: the same with three
  masked tokens in front, which these models count.
- `position_ids`, `ids_from_tokens`: numbered over the attention mask, or over the tokens that are
  no padding (RoBERTa).
- `decode_positions`: tokens after a cache of another length.
- `grid`: the patches of images of nine sizes; "refused" sizes are limits in the file.
- `scores`: the logits of an attention class of one head that is given its q and k, up to where it
  masks or cuts off. A cap on logits is lifted; where rows of offsets have a projection of the
  query of their own, it is given the same q; what a class makes for pairs of tokens (proteins,
  Phi-4's audio) is taken for the rows that are added to keys.
- **ok**: equal to the declaration, which was read from the module's own source. That is no
  certificate of the model.
- **deviates**: not what it says it is.
- **not drivable**: it could not be built or called alone, nothing calls it, or it is something
  that posenc_ref has no encoding for.

"""


def counts(found: Sweep) -> str:
    """Models and places by what came of them."""
    models = {line.group for line in found.outcomes}
    driven = {line.group for line in found.outcomes if line.verdict in JUDGED}
    c = found.counts
    return (
        f"{len(models)} models with {len({x.target for x in found.outcomes})} places: "
        f"{len(driven)} models judged, {len(models - driven)} not drivable. "
        f"{len(found.outcomes)} lines: {c['conforms']} conforming, {c['deviates']} deviating, "
        f"{c['gap']} our gap, {c['undrivable']} not drivable"
    )


def markdown(found: Sweep, folder: Path | None = None, *, command: str) -> str:
    """Return the result as a document; scripts are read from ``folder`` where it has them."""
    judged = [line for line in found.outcomes if line.verdict in JUDGED]
    parts = [
        f"**{counts(found)}.**",
        census(),
        READING + claims(),
        *deviations(found, found.known, folder, SCRIPTS),
        *_undriven(found.outcomes),
        "## By kind",
        markdown_table(["kind", "models", "judged", *WORDS_OF], _kinds(found.outcomes)),
        "## Every line that was judged",
        markdown_table(HEAD, map(_cells, judged)),
    ]
    return document(TITLE, libraries(), command, f"{found.cpu_seconds:.0f} seconds", parts)


WORDS_OF = ["conforms", "deviates", "our gap", "not drivable"]


def census() -> str:
    """How many folders of the library are what; the few that need their names have them."""
    found = classes()
    c = Counter(found.values())
    said = [f"Of the {len(found)} folders of `transformers.models`:"]
    for name in CLASSES:
        named = [model for model in found if found[model] == name]
        names = (
            f" ({', '.join(named)})" if named and name not in ("non-rotary", "rotary only") else ""
        )
        said.append(f"- {c[name]} {MEANING[name]}{names}")
    return said[0] + "\n\n" + "\n".join(said[1:])


def _cells(line: Outcome) -> list[str]:
    part = line.part.partition(", ")[2]
    return [
        line.target,
        line.kind,
        line.surface + (f" ({part})" if part else ""),
        f"`{line.encoding}`" if line.encoding else "",
        WORDS[line.verdict],
        swept_score(line),
        " ".join(line.codes),
        f"`{line.source}`",
    ]


def _kinds(lines: Sequence[Outcome]) -> list[list[str]]:
    rows = []
    for kind in dict.fromkeys(place.kind for place in places()):
        own = [line for line in lines if line.kind == kind]
        if not own:
            continue
        c = Counter(line.verdict for line in own)
        driven = {line.group for line in own if line.verdict in JUDGED}
        outcomes = [str(c[o]) for o in ("conforms", "deviates", "gap", "undrivable")]
        rows.append([kind, str(len({line.group for line in own})), str(len(driven)), *outcomes])
    return rows


def _undriven(lines: Sequence[Outcome]) -> Iterator[str]:
    for verdict, title in (("gap", "Our gaps"), ("undrivable", "Not drivable")):
        own = [line for line in lines if line.verdict == verdict]
        if own:
            said = (f"- `{x.name}` ({x.kind}, {x.source}): {x.reason}" for x in own)
            yield f"## {title}\n\n" + "\n".join(said)
