"""Grade `identify` on all libraries: python tools/identified/libraries.py --help.

The newest release of each library in docs/generated/identified.ndjson has an environment of its
own, as tools/libraries.py makes them. In it, tools/identified/installed.py identifies every
function that the library's adapter declares. The report then has the new lines.

A line whose reason begins with "read:" has the grade that a reader gave; it stays if the function
is identified as before.

With --check the report is left as it is. Every line that differs is listed, and the exit code is
then 1.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tools.environments import (  # noqa: E402
    LIMIT,
    MANIFEST,
    build_wheel,
    install,
    rows,
    uv_command,
    variables,
)

REPORT = ROOT / "docs" / "generated" / "identified.ndjson"
READ = "read:"
#: The digits of a number after the twelfth, which depend on the processor.
_LAST = re.compile(r"(\d\.\d{11})\d+")


def read(path):
    """Return the lines of a report by the name of the function."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {line["function"]: line for line in lines}


def identified(row, folder, wheel, uv):
    """Return the lines of the functions of a release, or raise RuntimeError saying why not."""
    python, found = folder / "bin/python", folder / "found.ndjson"
    if why := install(row, folder, python, wheel, uv):
        raise RuntimeError(f"cannot be installed: {why}")
    tool = str(Path(__file__).with_name("installed.py"))
    command = [str(python), tool, str(found), "--library", row.library, "--processes", "1"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT, cwd=folder, env=variables()
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["nothing was printed"])[-1]
        raise RuntimeError(f"ended with exit code {done.returncode}: {said}")
    return read(found)


def kept(before, now):
    """Return a new line, with the grade that a reader gave to the same result."""
    same = before and not _differs(before, now, "identified") and before["reason"]
    if same and before["reason"].startswith(READ):
        return now | {key: before[key] for key in ("grade", "reason")}
    return now


def differences(before, now):
    """Return a text for each function with another grade, result or reason than before."""
    keys = ("version", "surface", "declared", "identified", "grade", "deviations", "reason")
    lines = []
    for name in dict.fromkeys((*before, *now)):
        old, new = before.get(name), now.get(name)
        if old is None or new is None:
            lines.append(f"{name}: {'new' if old is None else 'absent'}")
        else:
            changed = [key for key in keys if _differs(old, new, key)]
            lines += [f"{name}: {key} {new[key]!r}, was {old[key]!r}" for key in changed]
    return lines


def _differs(old, new, key):
    one, other = (_LAST.sub(r"\1", str(line[key])) for line in (old, new))
    return one != other


def main(arguments=None):
    """Run the command line."""
    description, _, epilog = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(
        description=description, epilog=epilog, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="*", metavar="LIBRARY", help="default: all in the report")
    parser.add_argument("--check", action="store_true", help="list what differs, write nothing")
    given = parser.parse_args(arguments)
    manifest = tomllib.loads(MANIFEST.read_text(encoding="utf-8"))
    report = read(REPORT)
    wanted = given.only or {line["library"] for line in report.values()}
    chosen = [row for row in rows(manifest) if row.newest and row.library in wanted]
    if unknown := set(wanted) - {row.library for row in chosen}:
        parser.error(f"{MANIFEST.name} has no library {min(unknown)!r}")
    uv, failed = uv_command(parser, manifest), False
    with tempfile.TemporaryDirectory() as scratch:
        wheel = build_wheel(uv, Path(scratch))
        for row in chosen:
            folder = Path(scratch) / row.library
            before = {n: line for n, line in report.items() if line["library"] == row.library}
            try:
                found = identified(row, folder, wheel, uv)
                now = {name: kept(before.get(name), line) for name, line in found.items()}
                lines = differences(before, now)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                now, lines, failed = before, [str(error)], True
            shutil.rmtree(folder, ignore_errors=True)
            failed |= given.check and bool(lines)
            print(f"{row.name}: {len(now)} functions, {len(lines)} differences", flush=True)
            print("\n".join(f"  {line}" for line in lines), end="\n" if lines else "", flush=True)
            report = {n: line for n, line in report.items() if n not in before} | now
            if not given.check:
                ordered = sorted(report.values(), key=lambda line: line["library"])
                text = "".join(f"{json.dumps(line)}\n" for line in ordered)
                REPORT.write_text(text, encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
