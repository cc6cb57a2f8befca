"""Write docs/generated/encodings.md from the registry: python tools/encodings_page.py."""

import argparse
import math
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from posenc_ref.conformance.exact.certificate import certify_entry, dtypes  # noqa: E402
from posenc_ref.conformance.exact.property_text import in_a_line  # noqa: E402
from posenc_ref.conformance.guide.text import markdown  # noqa: E402
from posenc_ref.conformance.registry import entries  # noqa: E402
from tools.website.docstrings import sections  # noqa: E402

PAGE = ROOT / "docs/generated/encodings.md"
HEAD = """# Encodings

Made by `python tools/encodings_page.py` from docstrings and the entries in `conformance/registry`.

Every table, bias and score encoding. Rotary encodings have their schedules in
[schedules.md](../schedules.md). `posenc explain NAME` adds parameters, usual mistakes and what each
property means. A property that is not named does not hold; where it holds for some settings only,
the examples without it are named by the ids of their golden vectors.

Scores are the worst of all examples against the formula in 50 digits (`posenc accuracy` lists
them), in units of rounding, rounded up to a power of two. The budget is 128 in float64 and float32,
and 8 in float16 and bfloat16; "equal" means equal to the last bit.

"""


FAMILIES = {
    "table": "Tables, added to embeddings",
    "bias": "Biases, added to scores",
    "score": "Scores, by what queries and keys hold",
}


def document(shown, rows):
    """Return the page of entries from rows of the certificate, a ValueError if one fails."""
    worst = {}
    for row in rows:
        if not row.passed:
            raise ValueError(f"{row.encoding} scores {row.score:.3g} units in {row.dtype}")
        own = worst.setdefault(row.encoding.partition(":")[0], {})
        own[row.dtype] = max(own.get(row.dtype, 0.0), row.score)
    parts = [HEAD.rstrip() + "\n"]
    for family, title in FAMILIES.items():
        parts.append(f"## {title}\n")
        parts += [
            section(entry, worst[entry.name]) for entry in shown if entry.encoding.family == family
        ]
    return "\n".join(parts)


def section(entry, worst):
    """Return the section of one encoding."""
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


def said(entry, heading):
    """Return a section of the docstring as one paragraph of Markdown."""
    found = sections(entry.encoding).get(heading)
    if found is None:
        raise ValueError(f"the docstring of {entry.name} must have the section {heading!r}")
    return markdown(" ".join(found.split()))


def bound(score):
    """Return a score rounded up to a power of two, which holds on other machines too."""
    if score == 0 or not math.isfinite(score):
        return "equal" if score == 0 else "inf"
    return f"{2.0 ** math.ceil(math.log2(score)):g}"


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    certificate = [row for entry in entries() for row in certify_entry(entry, 48)]
    PAGE.write_text(document(entries(), certificate), encoding="utf-8")
