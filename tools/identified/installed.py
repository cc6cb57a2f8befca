"""Grade `identify` on the library functions that adapters declare.

`python tools/identified/installed.py FILE.ndjson [--only PATTERN ...]` identifies, in processes
with a time limit, every function of the installed libraries without its declaration, compares the
card with the declaration, and writes a line for each.
"""

import argparse
import json
from pathlib import Path

from posenc_ref.conformance.adapters.library import functions, version
from posenc_ref.conformance.surveys.gallery.grade import GRADES, KEYS, RIGHT, blank_of, grade_named
from posenc_ref.conformance.surveys.runner import run


def main(arguments=None):
    """Write the outcomes in the order of their completion, and print how many are right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", nargs="*", default=(), metavar="PATTERN")
    parser.add_argument("--library", metavar="NAME", help="functions of this library only")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--time-limit", type=float, default=300.0, metavar="SECONDS")
    given = parser.parse_args(arguments)
    names = [
        one.name
        for one in functions()
        if version(one.library) is not None
        and one.wanted(tuple(given.only))
        and given.library in (None, one.library)
    ]
    with given.file.open("w", encoding="utf-8") as file:

        def keep(new):
            for outcome in new:
                print(json.dumps(outcome.to_dict(KEYS)), file=file, flush=True)

        found = run(
            names,
            grade_named,
            blank_of,
            processes=given.processes,
            time_limit=given.time_limit,
            keep=keep,
        )
    grades = [one.right for one in found]
    right = sum(grade in RIGHT for grade in grades)
    print(
        f"{len(grades)} functions, {right} right: "
        + ", ".join(f"{grades.count(grade)} {grade}" for grade in GRADES)
    )


if __name__ == "__main__":
    main()
