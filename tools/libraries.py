"""Judge releases of libraries, each in an environment of its own: python tools/libraries.py --help.

The rows are in `.ci/libraries.toml`.  For each release uv makes a virtual environment, in which
`posenc verify --library NAME` judges every function of the library, and the scripts of the claims
about the library run.  All outcomes go to one report, `docs/generated/libraries.ndjson`: rows that
were not asked for keep the outcomes that they had.  A release that cannot be installed is in it as
well, with the reason.  `tools/libraries_page.py` writes the pages from it.

All rows take hours.  Each is reported when it is judged; with `--resume FILE` it is also kept in
a file of its own, and the same command goes on after an interruption.  Choose a new file when the
judge has changed.

The exit code is 1 if a release could not be installed, or crashed; with --check, if anything but a
measured score differs from the report.
"""

import argparse
import datetime
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from posenc_ref.conformance.adapters.library import LIBRARIES  # noqa: E402
from posenc_ref.conformance.surveys.ndjson import Recorded, read_ndjson  # noqa: E402
from posenc_ref.conformance.surveys.ndjson_writer import recording  # noqa: E402
from posenc_ref.conformance.surveys.record import Outcome  # noqa: E402
from posenc_ref.conformance.surveys.verify import Verification  # noqa: E402
from tools.claims import GENERATED, REPORT  # noqa: E402
from tools.environments import (  # noqa: E402
    LIMIT,
    MANIFEST,
    Row,
    build_wheel,
    install,
    rows,
    uv_command,
    variables,
    versions,
)

#: What the pages print of an outcome, besides its verdict, codes and scores.
_TEXTS = ("messages", "reason", "limits", "surface", "encoding", "source")
#: The folder of packages of an environment, in the message of an exception.
_FOLDER = re.compile(r"[^\s'\"(]*[/\\]site-packages[/\\]")

#: Runs scripts one after the other; prints a line of JSON for each.  A script that shows a
#: deviation ends; one that does not fails in an assertion of its own, or ends with a message.
RUN_SCRIPTS = """
import contextlib, json, os, runpy, sys, time, traceback, warnings
warnings.simplefilter("ignore")
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for path in sys.argv[1:]:
    begin, verdict, reason = time.perf_counter(), "deviates", ""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            runpy.run_path(path, run_name="__main__")
    except (Exception, SystemExit) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        if isinstance(error, (AssertionError, SystemExit)) and last.filename == path:
            verdict, reason = "conforms", f"the script does not show it: {last.line} fails"
        else:
            said = " ".join(f"{type(error).__name__}: {error}".split())
            verdict, reason = "undrivable", said[:300]
    found = {"verdict": verdict, "reason": reason, "seconds": time.perf_counter() - begin}
    print(json.dumps(found), file=out, flush=True)
"""


@dataclass
class Judged:
    """The outcomes of a row, and the environment that they were found in."""

    environment: dict[str, Any]
    outcomes: list[Outcome]

    @property
    def line(self) -> str:
        """Return the numbers of outcomes by verdict, and the seconds."""
        found = [o for o in self.outcomes if o.kind == "library"]
        broken = next((o.reason for o in found if not o.label), None)
        counts = Verification(found).counts.items()
        parts = [f"{n} {verdict}" for verdict, n in counts if n]
        if scripts := [o.verdict for o in self.outcomes if o.kind == "script"]:
            parts.append(f"{scripts.count('deviates')} of {len(scripts)} scripts show their claim")
        said = ", ".join(parts)
        seconds = "{install_seconds:.0f} s + {seconds:.0f} s".format(**self.environment)
        return f"{broken or said} ({seconds})"


def judge(row: Row, folder: Path, wheel: Path, uv: list[str]) -> Judged:
    """Make the environment of a row in ``folder`` and return what is found there."""
    environment = {"library": row.library, "release": row.release, "versions": {}}
    environment["judged"] = datetime.date.today().isoformat()
    blank = Outcome("library", row.library, row.release)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    begin = time.perf_counter()
    try:
        if why := install(row, folder, python, wheel, uv):
            skipped = blank.replace(reason=f"cannot be installed: {why}")
            return Judged(environment | {"install_seconds": 0.0, "seconds": 0.0}, [skipped])
        names = ["numpy", "torch", *(p.partition("==")[0].partition("[")[0] for p in row.packages)]
        environment["versions"] = versions(python, uv, names)
        environment["install_seconds"] = round(time.perf_counter() - begin, 1)
        begin = time.perf_counter()
        outcomes = _verify(row, blank, folder, python) if row.library in LIBRARIES else []
        outcomes += _scripts(row, blank, folder, python)
    except subprocess.TimeoutExpired:
        outcomes = [blank.replace(verdict="error", reason=f"took longer than {LIMIT} s")]
        environment.setdefault("install_seconds", LIMIT)
    return Judged(environment | {"seconds": round(time.perf_counter() - begin, 1)}, outcomes)


def _verify(row: Row, blank: Outcome, folder: Path, python: Path) -> list[Outcome]:
    """Return the outcomes of the functions of a library."""
    file = folder / "report.ndjson"
    command = [str(python), "-m", "posenc_ref.conformance", "verify", "--library", row.library]
    for dtype in ("float32", "bfloat16") if row.newest else ("float32",):
        command += ["--dtype", dtype]
    command += ["--processes", "1", "--ndjson", str(file)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT, cwd=folder, env=variables()
    )
    if not file.exists():
        said = (done.stderr.strip().splitlines() or ["nothing was printed"])[-1]
        why = f"posenc verify ended with exit code {done.returncode}: {said}"
        return [blank.replace(verdict="error", reason=why)]
    # A process that died does not know the version.
    return [outcome.replace(version=row.release) for outcome in _of(read_ndjson(file))]


def _scripts(row: Row, blank: Outcome, folder: Path, python: Path) -> list[Outcome]:
    """Return an outcome for each script of a claim about the library: "deviates" if it shows it."""
    command = [str(python), "-c", RUN_SCRIPTS, *(str(GENERATED / name) for name in row.scripts)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT, cwd=folder, env=variables()
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    died = {"verdict": "error", "reason": f"the process ended with exit code {done.returncode}"}
    found += [died] * (len(row.scripts) - len(found))
    made = blank.replace(kind="script")
    return [made.replace(label=name, **one) for name, one in zip(row.scripts, found, strict=True)]


def _of(recorded: Recorded) -> list[Outcome]:
    assert isinstance(recorded.result, Verification)
    return recorded.result.outcomes


def read(path: Path) -> dict[str, Judged]:
    """Return the rows of a report, by name."""
    if not path.exists():
        return {}
    recorded = read_ndjson(path)
    found = {
        f"{one['library']} {one['release']}": Judged(one, [])
        for one in recorded.header["environments"]
    }
    for outcome in _of(recorded):
        found[f"{outcome.group} {outcome.version}"].outcomes.append(outcome)
    return found


def write(path: Path, found: dict[str, Judged], order: list[str]) -> None:
    """Write the rows of a report in the order of the manifest; others are dropped.

    The old file is replaced as a whole, so that an interruption leaves one of the two.
    """
    chosen = [found[name] for name in order if name in found]
    seconds = sum(one.environment["seconds"] for one in chosen)
    outcomes = [_printed(o) for one in chosen for o in one.outcomes]
    every = [one.environment for one in chosen]
    names = list(dict.fromkeys(one["library"] for one in every))
    asked = {"full": False, "only": None, "dtypes": ["float32", "bfloat16"], "libraries": names}
    part = path.with_name(f"{path.name}.part")
    with recording(part, "verify", options=asked, environments=every) as record:
        assert record is not None
        record.verification(Verification(outcomes, seconds))
    part.replace(path)


def _printed(outcome: Outcome) -> Outcome:
    """Return an outcome without the folder of its environment, and with its seconds rounded."""
    return outcome.replace(
        reason=_FOLDER.sub("", outcome.reason),
        messages=tuple(_FOLDER.sub("", message) for message in outcome.messages),
        seconds=round(outcome.seconds, 2),
    )


def differences(before: Judged | None, now: Judged) -> list[str]:
    """Return a line for each outcome with another verdict, other codes or texts than before.

    Scores and durations are left out, because they differ between machines.
    """
    old, new = (
        {_key(o): _printed(o) for o in one.outcomes} if one else {} for one in (before, now)
    )
    lines = []
    for key in dict.fromkeys((*old, *new)):
        was, here = old.get(key), new.get(key)
        name = " ".join(filter(None, key))
        if _verdict(was) != _verdict(here):
            why = f" ({here.reason})" if here and here.reason else ""
            lines.append(f"{name}: {_verdict(here)}{why}, was {_verdict(was)}")
        elif was and here:
            for text in _TEXTS:
                then, today = getattr(was, text), getattr(here, text)
                if then != today:
                    lines.append(f"{name}: {_verdict(here)}; {text} {today!r}, was {then!r}")
    return lines


def _verdict(outcome: Outcome | None) -> str:
    return " ".join((outcome.verdict, *outcome.codes)) if outcome else "absent"


def _key(outcome: Outcome) -> tuple[str, ...]:
    return outcome.group, outcome.version, outcome.label, outcome.dtype


def main() -> int:
    """Run the command line."""
    description, _, epilog = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=description, epilog=epilog, formatter_class=argparse.RawTextHelpFormatter
    )
    help = "only rows with this in their name, such as 'timm' or 'transformers 4.*'; repeatable"
    parser.add_argument("--only", action="append", metavar="PATTERN", help=help)
    parser.add_argument("--list", action="store_true", help="print the rows and judge nothing")
    help = "how many releases to judge at a time (default 1)"
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help=help)
    help = "keep the environments in this folder (default: a temporary folder, removed row by row)"
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help=help)
    help = "leave the report: list what differs from it, and exit with 1 if anything does"
    parser.add_argument("--check", action="store_true", help=help)
    help = "keep the rows judged in FILE, and do not judge those again that are in it"
    parser.add_argument("--resume", type=Path, metavar="FILE", help=help)
    help = "the report to update (default docs/generated/libraries.ndjson)"
    parser.add_argument("--report", type=Path, default=REPORT, metavar="FILE", help=help)
    args = parser.parse_args()
    manifest = tomllib.loads(MANIFEST.read_text(encoding="utf-8"))
    every = rows(manifest)
    patterns = [f"*{pattern}*" for pattern in args.only or ("",)]
    chosen = [row for row in every if any(fnmatch.fnmatchcase(row.name, p) for p in patterns)]
    if not chosen:
        parser.error(f"no row has {' or '.join(args.only)} in its name; --list prints the names")
    if args.jobs < 1:
        parser.error(f"--jobs must be at least 1, got {args.jobs}")
    if args.list:
        print("\n".join(row.name for row in chosen))
        return 0
    uv = uv_command(parser, manifest)
    try:
        found, done = read(args.report), read(args.resume) if args.resume else {}
    except ValueError as error:
        parser.error(str(error))
    order, lock = [row.name for row in every], threading.Lock()
    failed = differing = finished = 0
    with tempfile.TemporaryDirectory() as scratch:
        wheel = build_wheel(uv, Path(scratch))

        def one(row: Row) -> None:
            nonlocal failed, differing, finished
            judged = done.get(row.name)
            if judged is None:
                folder = (args.keep or Path(scratch)).resolve() / row.name.replace(" ", "-")
                judged = judge(row, folder, wheel, uv)
                if args.keep is None:
                    shutil.rmtree(folder, ignore_errors=True)
            with lock:
                before = found.get(row.name)
                if before and "released" in before.environment:  # asked by tools/released.py
                    judged.environment["released"] = before.environment["released"]
                failed += any(not o.label for o in judged.outcomes)
                if args.resume:
                    done[row.name] = judged
                    write(args.resume, done, order)
                finished += 1
                counted = f"{finished}/{len(chosen)} {row.name}: {judged.line}"
                print(counted, file=sys.stderr, flush=True)
                if args.check:
                    lines = differences(before, judged)
                    differing += len(lines)
                    print("\n".join(lines), end="\n" if lines else "", flush=True)
                else:
                    found[row.name] = judged
                    write(args.report, found, order)

        with ThreadPoolExecutor(args.jobs) as pool:
            list(pool.map(one, chosen))
    return int(bool(differing if args.check else failed))


if __name__ == "__main__":
    sys.exit(main())
