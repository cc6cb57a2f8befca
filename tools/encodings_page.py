"""Write docs/encodings.md from the registry: python tools/encodings_page.py.

The sentence of docs/vectors.md that counts the golden vectors is renewed as well.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from posenc_ref.conformance import load_vectors  # noqa: E402
from posenc_ref.conformance.exact.certificate import certify_entry  # noqa: E402
from posenc_ref.conformance.registry import entries  # noqa: E402
from posenc_ref.conformance.vectors.files import MANIFEST, read_json, shipped  # noqa: E402
from tools.encodings_text import page  # noqa: E402


def counted():
    """How many golden vectors are shipped, in words."""
    files = read_json(shipped() / MANIFEST)["files"]
    size = sum(entry["bytes"] for entry in files.values()) / 1e6
    return f"{len(load_vectors())} cases in {len(files)} files, {size:.1f} MB"


def main():
    """Write both."""
    raw = argparse.RawTextHelpFormatter
    argparse.ArgumentParser(description=__doc__, formatter_class=raw).parse_args()
    rows = [row for entry in entries() for row in certify_entry(entry, 48)]
    text = page(entries(), rows)
    (ROOT / "docs" / "encodings.md").write_text(text, encoding="utf-8")
    vectors = ROOT / "docs" / "vectors.md"
    said = vectors.read_text(encoding="utf-8")
    renewed = re.sub(r"\d+ cases in \d+ files, [\d.]+ MB", counted(), said, count=1)
    vectors.write_text(renewed, encoding="utf-8")
    print(f"docs/encodings.md: {len(entries())} encodings; docs/vectors.md: {counted()}")


if __name__ == "__main__":
    main()
