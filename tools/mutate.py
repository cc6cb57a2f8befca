"""Mutation testing of posenc_ref/ and conformance/.

``map`` runs the day tests once and records which of them run each line. ``run`` draws mutants by
seed from all modules, and runs for each the tests that run its line; Cosmic Ray lists and applies
the mutants. ``page`` writes docs/generated/mutation-testing.md::

    python tools/mutate.py map --map MAP
    python tools/mutate.py run --map MAP --out mutants.ndjson --seed 14
    python tools/mutate.py page mutants.ndjson --about "22 November 2026, commit 1a2b3c4, ..."

The environment needs the extra ``test``, cosmic-ray and coverage. ``run`` works on copies of the
checkout, which it makes beside the file ``--out``; mutants that have an outcome in that file are
not run again.
"""

import argparse
import os
import shutil
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.mutation.draw import again, draw  # noqa: E402
from tools.mutation.lines import Map, record  # noqa: E402
from tools.mutation.page import page  # noqa: E402
from tools.mutation.results import Results  # noqa: E402
from tools.mutation.work import Worker, work  # noqa: E402

PAGE = ROOT / "docs" / "generated" / "mutation-testing.md"
LEFT_OUT = shutil.ignore_patterns(".git", ".types", ".*_cache", "__pycache__", "build", "dist")


def run(args: argparse.Namespace) -> None:
    """Draw the mutants and judge them in so many processes."""
    known, out = Map(args.map), args.out.resolve()
    if args.again:
        rows = Results(args.again).read().items()
        lived = [mutant for mutant, row in rows if row["outcome"] == "survived"]
        drawn = list(filter(None, (again(ROOT, mutant) for mutant in lived)))
        print(f"{len(lived) - len(drawn)} of {len(lived)} survivors are gone")
    else:
        drawn = draw(ROOT, args.seed, args.first, args.others)
    children = []
    for part in range(args.jobs):
        copy = out.with_name(f"{out.stem}-copy{part}")
        if not copy.exists():
            shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
            for name in ("backends", "conformance"):  # subpackages, see pyproject.toml
                (copy / "posenc_ref" / name).symlink_to(copy / name)
        child = os.fork()
        if child == 0:
            worker = Worker(copy, known, args.seconds, out.with_name(f"{out.stem}-{part}.log"))
            work(worker, Results(out), drawn[part :: args.jobs])
            sys.stdout.flush()
            os._exit(0)
        children.append(child)
    failed = [child for child in children if os.waitpid(child, 0)[1]]
    if failed:
        raise SystemExit(f"{len(failed)} of {args.jobs} processes failed, see above")
    print(Counter(Results(out).read()[mutant]["outcome"] for mutant in drawn))


def write_page(args: argparse.Namespace) -> None:
    """Write the page."""
    for path in (args.first, args.again, args.second):
        if path is not None and not path.is_file():
            raise SystemExit(f"there is no file {path}")
    again, second = (path and Results(path) for path in (args.again, args.second))
    PAGE.write_text(page(args.about, Results(args.first), again, second), encoding="utf-8")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("map", help="record which tests run a line")
    command.add_argument("--map", required=True, type=Path, help="a new folder")
    command.add_argument("tests", nargs="*", help="arguments for pytest")
    command.set_defaults(do=lambda args: record(ROOT, args.map.resolve(), args.tests))
    command = commands.add_parser("run", help="judge mutants")
    command.add_argument("--map", required=True, type=Path, help="the folder that map wrote")
    command.add_argument("--out", required=True, type=Path, help="gets a line for each mutant")
    command.add_argument("--seed", default="14", help="of the draw")
    command.add_argument("--first", type=int, default=80, help="mutants of conformance/sequences")
    command.add_argument("--others", type=int, default=340, help="mutants of all other modules")
    command.add_argument("--again", type=Path, help="judge what survived in this file")
    command.add_argument("--seconds", type=float, default=60, help="of tests, for a mutant")
    command.add_argument("--jobs", type=int, default=2, help="processes")
    command.set_defaults(do=run)
    command = commands.add_parser("page", help="write docs/generated/mutation-testing.md")
    command.add_argument("first", type=Path, help="the file that run wrote")
    command.add_argument("--again", type=Path, help="survivors, judged after the mends")
    command.add_argument("--second", type=Path, help="mutants of another seed")
    command.add_argument("--about", required=True, help="the date, commit, seeds and versions")
    command.set_defaults(do=write_page)
    args = parser.parse_args()
    args.do(args)


if __name__ == "__main__":
    main()
