"""Renew the numbers that hand-written documents quote: python tools/counts.py.

A number is recognised by the words around it (`PHRASES`), in any document.
"""

import argparse
import re
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import posenc_ref  # noqa: E402
from posenc_ref.conformance import load_vectors  # noqa: E402
from posenc_ref.conformance.guide.names import encodings  # noqa: E402
from posenc_ref.conformance.vectors.files import MANIFEST, read_json, shipped  # noqa: E402
from tests.mutants import CORRECT, WRONG  # noqa: E402

DOCUMENTS = (
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
)


def vectors():
    """Return the cases, files and megabytes of the golden vectors."""
    files = read_json(shipped() / MANIFEST)["files"]
    megabytes = sum(entry["bytes"] for entry in files.values()) / 1e6
    return len(load_vectors()), len(files), f"{megabytes:.1f}"


#: The words, with # for each number, and a function that returns the numbers.
PHRASES = {
    "# wrong and # correct implementations": lambda: (len(WRONG), len(CORRECT)),
    "# encodings": lambda: (len(encodings()),),
    "# presets": lambda: (len(posenc_ref.presets()),),
    "# cases in # files, # MB": vectors,
}


@cache
def patterns():
    """Return (pattern, today's text) for every phrase."""
    found = []
    for words, numbers in PHRASES.items():
        values = iter(map(str, numbers()))
        today = re.sub("#", lambda _, values=values: next(values), words)
        pattern = r"\b" + words.replace("#", r"\d[\d.]*").replace(" ", r"\s+")
        found.append((re.compile(pattern), today))
    return found


def renewed(text):
    """Return the text with today's numbers in every phrase."""
    for pattern, today in patterns():
        text = pattern.sub(today, text)
    return text


def main():
    """Rewrite the documents that quote another number, and print their names."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        if renewed(text) != text:
            path.write_text(renewed(text), encoding="utf-8")
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
