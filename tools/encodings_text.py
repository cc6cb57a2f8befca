"""The page of all encodings: ``docs/encodings.md``, from docstrings and the certificate."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterable, Sequence

from posenc_ref.conformance.exact.certificate import Row, dtypes
from posenc_ref.conformance.exact.property_text import in_a_line
from posenc_ref.conformance.exact.reference import Entry

_HEAD = """\
# Encodings

Every table, bias and score encoding, in the words of its docstring. Rotary forms and their
schedules are in [schedules.md](schedules.md). `posenc explain NAME` has the parameters and the
traps too.

Properties are those that the encoding declares of all positions; what is not named does not hold.
`posenc explain NAME` says what they mean. One may hold of some settings alone: then the examples
that do not have it are named, by the ids of their golden vectors.

Made by `python tools/encodings_page.py` from the entries in `conformance/registry`. The numbers are
the worst of all examples, near and far, against the formula in 50 digits (`posenc accuracy` has
them one by one), in units of rounding and rounded up to a power of two: float64 and float32 may
have 128, float16 and bfloat16 8. "equal" is equal to the last bit.
"""
_FAMILIES = {
    "table": "Tables, added to embeddings",
    "bias": "Biases, added to scores",
    "score": "Scores, by what queries and keys hold",
}


def page(entries: Sequence[Entry], rows: Iterable[Row]) -> str:
    """The whole page; ``rows`` are those of the certificate, a ValueError where one fails."""
    worst: dict[str, dict[str, float]] = {}
    for row in rows:
        if not row.passed:
            raise ValueError(f"{row.encoding} scores {row.score:.3g} units in {row.dtype}")
        own = worst.setdefault(row.encoding.partition(":")[0], {})
        own[row.dtype] = max(own.get(row.dtype, 0.0), row.score)
    parts = [_HEAD]
    for family, title in _FAMILIES.items():
        parts.append(f"## {title}\n")
        parts += [
            section(entry, worst[entry.name])
            for entry in entries
            if entry.encoding.family == family
        ]
    return "\n".join(parts)


def section(entry: Entry, worst: dict[str, float]) -> str:
    """What the page says of one encoding."""
    scores = ", ".join(f"{dtype} {bound(worst[dtype])}" for dtype in dtypes())
    return "\n".join(
        [
            f"### {entry.name}\n",
            f"{said(entry, 'Formula')}\n",
            f"Source: {said(entry, 'Source')}\n",
            f"Properties: {in_a_line(entry)}.\n",
            f"Worst scores: {scores}.\n",
        ]
    )


def said(entry: Entry, heading: str) -> str:
    """A section of the docstring as one paragraph of Markdown."""
    doc = inspect.getdoc(entry.encoding) or ""
    found = re.search(rf"^{heading}\n((?: +.*\n?)+)", doc, re.MULTILINE)
    if found is None:
        raise ValueError(f"the docstring of {entry.name} must have the section {heading!r}")
    text = " ".join(found[1].split())
    return re.sub(r":\w+:`~?([^`]*)`", r"`\1`", text.replace("``", "`"))


def bound(score: float) -> str:
    """A score rounded up to a power of two, which holds on other machines too."""
    if score == 0 or not math.isfinite(score):
        return "equal" if score == 0 else "inf"
    return f"{2.0 ** math.ceil(math.log2(score)):g}"
