"""Write the table of docs/schedules.md: python tools/schedules_table.py [--check].

The rows are those of the entries in conformance/exact/schedules/, in the order of that folder.
"""

import argparse
from pathlib import Path

from posenc_ref.conformance.exact.schedules import schedules

PAGE = Path(__file__).resolve().parents[1] / "docs/schedules.md"
BEGIN = "| (none) |"
#: The order of the table; other schedules follow by name.
FIRST = (
    "LinearScaling", "NTKScaling", "DynamicNTK", "QwenNTK", "SuNTK", "NTKByParts", "YaRN",
    "Llama3Scaling", "LongRoPE", "Proportional", "RIFLEx",
)  # fmt: skip


def table():
    """Return the rows of all schedules."""
    found = {cls.__name__: entry for cls, entry in schedules().items()}
    last = [name for name in sorted(found) if name not in FIRST and name != "GivenFrequencies"]
    rows = [row for name in (*FIRST, *last, "GivenFrequencies") for row in found[name].rows]
    return "".join(f"| `{row[0]}` | {' | '.join(row[1:])} |\n" for row in rows)


def renewed(text):
    """Return the page with these rows."""
    head, rest = text.split(BEGIN)
    first, rows = rest.split("\n", 1)
    after = rows[rows.index("\n\n") + 1 :]
    return f"{head}{BEGIN}{first}\n{table()}{after}"


def main():
    """Write the table, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    text = PAGE.read_text("utf-8")
    made = renewed(text)
    if parser.parse_args().check:
        return 0 if made == text else 1
    PAGE.write_text(made, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
