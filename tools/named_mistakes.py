"""Write docs/generated/named-mistakes.md: python tools/named_mistakes.py.

It shows the first finding of `check` about every function in tests/named.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import posenc_ref  # noqa: E402
from posenc_ref.conformance import CODES, check  # noqa: E402
from tests.named import CASES  # noqa: E402

DOCUMENT = ROOT / "docs/generated/named-mistakes.md"
HEAD = """# Mistakes that have a name

Made by `python tools/named_mistakes.py` from the functions in `tests/named`.

The first finding of `posenc check` about {wrong} functions that make well known mistakes. Each
mistake is written by several hands, for several sizes, libraries and dtypes; {right} correct
functions of the same kinds pass. A row shows the first function of each surface; the last column
counts the functions with the same mistake, surface and code.

| mistake | surface | code | what is said | what to do | functions |
|---|---|---|---|---|---:|
"""


def judge(case):
    """Return the report on one function."""
    encoding = None if case.encoding is None else posenc_ref.from_dict(case.encoding)
    return check(case.function, encoding, case.surface, name=case.name, **case.kwargs)


def words(finding):
    """Return message and remedy as cells of a table."""
    remedy = finding.remedy or CODES[finding.code].remedy
    return [text.replace("|", "\\|") for text in (finding.message, remedy)]


def document(reports):
    """Return the page from the report of every case by name."""
    rows = {}
    for case in CASES:
        if case.code:
            rows.setdefault((case.mistake, case.surface, case.code), []).append(case)
    lines = []
    for (mistake, surface, code), cases in rows.items():
        said = words(reports[cases[0].name].findings[0])
        cells = (mistake, f"`{surface}`", f"`{code}`", *said, len(cases))
        lines.append(f"| {' | '.join(map(str, cells))} |\n")
    right = sum(not case.code for case in CASES)
    return HEAD.format(wrong=len(CASES) - right, right=right) + "".join(lines)


if __name__ == "__main__":
    DOCUMENT.write_text(document({case.name: judge(case) for case in CASES}), encoding="utf-8")
