"""What ``posenc explain`` lists: surfaces, encodings, scalings and codes."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator

from posenc_ref.conformance.calling.conventions import CONVENTIONS, Convention
from posenc_ref.conformance.harness.codes import CODES, Code
from posenc_ref.conformance.harness.signatures import SURFACES, Surface

from .names import encodings, scalings
from .text import first_line, hanging, listed

GUIDE = """\
posenc check judges a function. It takes two names:

  --surface     the kind of function: one of the surfaces below; the default is apply
  --encoding    what the function should compute, as JSON, for example
                '{"encoding": "RoPE", "head_dim": 64, "layout": "half"}'
                (or --preset MODEL; `posenc presets` lists the models; or --config FILE)

A report names every mistake by a code. `posenc explain NAME` explains a surface, an
encoding, a scaling or a code; `posenc explain surfaces`, `encodings`, `scalings` and
`codes` list them with a sentence each. Functions and classes of libraries are called as
their authors call them: `posenc explain signatures` lists the calling conventions."""

#: The letters in the shapes of arrays.
SHAPES = {
    "A": "axes of positions", "B": "batch", "H": "heads", "S": "tokens", "D": "channels of a head",
    "d": "channels that are rotated", "Q": "queries", "K": "keys", "N": "tokens of an image",
    "dim": "columns of a table", "hidden": "columns of a weight",
}  # fmt: skip
#: The families of encodings, in words.
FAMILIES = {
    "rotary": "Rotations of queries and keys",
    "table": "Tables, added to embeddings",
    "bias": "Biases, added to attention scores",
    "score": "Scores that depend on the content of queries and keys",
}
#: The kinds of surfaces, each with the families of its surfaces.
KINDS = {
    "Rotations of queries and keys": ("rotary", "rope"),
    "Tables, added to embeddings": ("table", "padded table"),
    "Biases, added to attention scores": ("alibi", "bias", "t5"),
    "Positions from a convolution": ("convolution", "convolution grid"),
    "Whole models": ("model",),
    "Position ids of text, images, videos and audio": ("positions",),
    "Functions without an encoding: positions, indices, shifts": ("none",),
}


def overview() -> str:
    """Return a short guide, then every surface, encoding, scaling and code by name."""
    parts = [GUIDE, surfaces(), f"Encodings\n{_by_family(_names)}"]
    parts.append(f"Frequency scalings of rotary encodings\n{_names(scalings())}")
    groups = (f"  {title}\n{listed(c.name for c in own)}" for title, own in _groups().items())
    parts.append("\n".join(["Codes of findings", *groups]))
    parts.append(f"Signatures: calling conventions\n{listed(c.name for c in CONVENTIONS)}")
    return "\n\n".join(parts)


def surfaces() -> str:
    """Return every surface with its call, by kind."""
    lines = ["Surfaces: the kinds of functions that can be judged"]
    shapes = ", ".join(f"{one} {meaning}" for one, meaning in SHAPES.items())
    lines.append(hanging("Letters in shapes:", shapes, 20))
    for title, rows in _kinds():
        lines += [f"  {title}", *(hanging(f"  {row.name}", row.call, 20) for row in rows)]
    return "\n".join(lines)


def _kinds() -> Iterator[tuple[str, list[Surface]]]:
    left = dict(SURFACES)
    several = [row for row in left.values() if len(row.families) > 2]
    for row in several:
        del left[row.name]
    for title, families in KINDS.items():
        rows = [row for row in left.values() if set(row.families) & set(families)]
        for row in rows:
            del left[row.name]
        yield title, rows
    yield "Logits of attention, with any encoding or a whole model", several


def _groups() -> dict[str, list[Code]]:
    found: dict[str, list[Code]] = {}
    for code in CODES.values():
        found.setdefault(code.group, []).append(code)
    return found


def _by_family(text: Callable[[Iterable[type]], str]) -> str:
    lines = []
    for family, title in FAMILIES.items():
        lines += [f"  {title}", text(c for c in encodings() if c.family == family)]
    return "\n".join(lines)


def _names(classes: Iterable[type]) -> str:
    return listed((c.__name__ for c in classes), 4)


def _sentences(classes: Iterable[type]) -> str:
    return "\n".join(hanging(f"  {c.__name__}", first_line(c), 28) for c in classes)


def _codes() -> str:
    lines = ["Codes of findings"]
    for title, own in _groups().items():
        lines += [f"  {title}", *(hanging(f"  {c.name}", c.meaning, 22) for c in own)]
    return "\n".join(lines)


def signatures(rows: Iterable[Convention] = CONVENTIONS) -> str:
    """Return calling conventions: who has them, where they are judged, and a stub."""
    parts = []
    for row in rows:
        lines = [
            row.name,
            hanging("call", row.call),
            hanging("used by", row.users),
            hanging("surface", " or ".join(row.surfaces)),
            "  stub",
            textwrap.indent(row.stub, "    "),
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


#: The lists that ``posenc explain`` prints by name.
TOPICS: dict[str, Callable[[], str]] = {
    "surfaces": surfaces,
    "encodings": lambda: f"Encodings\n{_by_family(_sentences)}",
    "scalings": lambda: f"Frequency scalings of rotary encodings\n{_sentences(scalings())}",
    "codes": _codes,
    "signatures": signatures,
}
