"""Write docs/generated/kill-matrix.md: python tools/kill_matrix.py [--full matrix.csv].

It runs every check alone on every case of the corpus, which takes minutes.  ``--full`` also writes
the whole matrix, a row per case and a column per check.
"""

import argparse
import csv
import datetime
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.mutants import CORRECT, WRONG  # noqa: E402
from tests.mutants.kills import alone, row  # noqa: E402

DOCUMENT = ROOT / "docs/generated/kill-matrix.md"
#: The number of sole kills that a row shows.
SHOWN = 4

HEAD = """# The kill matrix

Made by `python tools/kill_matrix.py` on {date}: {checks} checks,
{wrong} wrong and {correct} correct implementations. `tests/conformance/test_kills.py` compares it
with the corpus.

Each check runs **alone**: it makes its usual probes, and findings of other checks neither count nor
stop the run. Properties of `apply` are judged without the encoding. *Asked* counts the wrong
implementations that the check judged, *kills* those that it rejects, *sole* those that no other
check rejects. No check rejects a correct implementation.

| check | asked | kills | sole | for example |
|---|---:|---:|---:|---|
"""
CODES = """
## Wrong implementations, by the code that is right for them

| code | cases | |
|---|---:|---|
"""
RIGHT = """
## Correct implementations

"""


def matrix(cases, processes=None):
    """Return the row of every case, by name."""
    with ProcessPoolExecutor(processes) as pool:
        return dict(
            zip(
                (c.name for c in cases), pool.map(_row, range(len(cases)), chunksize=8), strict=True
            )
        )


def _row(number):
    return row([*WRONG, *CORRECT][number])


def accused(rows):
    """Return the (case, check) of every correct case that a check alone rejects."""
    return {
        (case.name, check)
        for case in CORRECT
        for check in rows[case.name].kills
        if alone(case, check).verdict != "conforms"
    }


def document(rows, date):
    """Return the page."""
    wrong = {c.name: rows[c.name] for c in WRONG}
    asked = Counter(check for r in wrong.values() for check in r.executed)
    kills = Counter(check for r in wrong.values() for check in r.kills)
    sole = {check: [] for check in sorted(asked | kills, key=lambda c: (-kills[c], c))}
    for name, r in wrong.items():
        if len(r.kills) == 1:
            sole[next(iter(r.kills))].append(name)
    lines = [HEAD.format(date=date, checks=len(sole), wrong=len(WRONG), correct=len(CORRECT))]
    for check, alone_in in sole.items():
        shown = alone_in[:SHOWN] or [n for n, r in wrong.items() if check in r.kills][:1]
        more = f", and {len(alone_in) - SHOWN} more" if len(alone_in) > SHOWN else ""
        text = ", ".join(f"`{name}`" for name in shown) + more
        lines.append(
            f"| {check.replace('|', '/')} | {asked[check]} | {kills[check]} | {len(alone_in)} "
            f"| {text} |\n"
        )
    lines.append(CODES)
    by_code = {}
    for case in WRONG:
        by_code.setdefault(case.expected[0], []).append(case.name)
    for code, names in sorted(by_code.items()):
        lines.append(f"| `{code}` | {len(names)} | {', '.join(sorted(names))} |\n")
    lines += [RIGHT, ", ".join(sorted(c.name for c in CORRECT)), ".\n"]
    return "".join(lines)


def main():
    """Compute the matrix and write the page, unless a check or a mutant is out of place."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", type=Path, help="also write the whole matrix, as CSV")
    parser.add_argument("--processes", type=int, default=None)
    options = parser.parse_args()
    rows = matrix([*WRONG, *CORRECT], options.processes)
    if options.full:
        write_full(rows, options.full)
    idle = {c for r in rows.values() for c in r.executed} - {
        c for case in WRONG for c in rows[case.name].kills
    }
    alive = [case.name for case in WRONG if not rows[case.name].kills]
    wrongly = accused(rows)
    if idle or alive or wrongly:
        sys.exit(f"checks that kill nothing: {idle}; alive: {alive}; accused: {wrongly}")
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    DOCUMENT.write_text(document(rows, today), encoding="utf-8")


def write_full(rows, path):
    """Write a row per case and a column per check: 1 killed, 0 not, empty if it did not run."""
    checks = sorted({c for r in rows.values() for c in r.executed | r.kills})
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["case", *checks])
        for name, r in rows.items():
            cells = ["1" if c in r.kills else "0" if c in r.executed else "" for c in checks]
            out.writerow([name, *cells])


if __name__ == "__main__":
    main()
