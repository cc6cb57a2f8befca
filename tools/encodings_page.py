"""Write docs/generated/encodings.md from the registry: python tools/encodings_page.py."""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from posenc_ref.conformance.exact.certificate_registry import certify_registry  # noqa: E402
from posenc_ref.conformance.exact.encodings_page import page  # noqa: E402
from posenc_ref.conformance.registry import entries  # noqa: E402

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


def document(rows):
    """Return the page; ``rows`` are those of the certificate."""
    return HEAD + "## " + page(entries(), rows).partition("## ")[2]


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    PAGE.write_text(document(certify_registry(48)), encoding="utf-8")
