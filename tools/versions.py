"""Test with other versions of Python and of libraries: python tools/versions.py --help.

The rows are in `.ci/versions.toml`.  Each is tested in a fresh virtual environment; then the rows
with ``verdicts`` are compared by ``tools/verdicts.py``.  The result is a Markdown table, with the
reasons of skipped tests below it.  Interpreters are looked for on PATH, as ``python3.12``; a row
without one is listed as not run.  The exit code is 1 if a test failed, a row broke, a row that was
named was not run, or none ran.
"""

import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / ".ci" / "versions.toml"

#: Printed by the interpreter of a row: what it is, and the versions that it imports.
ASK = """
import importlib.metadata, json, platform, sys
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
free = not getattr(sys, "_is_gil_enabled", lambda: True)()
print(json.dumps({"Python": platform.python_version() + ("t" if free else ""),
                  **{name: version(name) for name in ("numpy", "torch", "jax")}}))
"""


@dataclass
class Outcome:
    """What became of a row; ``broken`` is why it has no counts, ``absent`` why it was not run."""

    name: str
    versions: dict[str, str] = field(default_factory=dict)
    passed: int = 0
    failed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    broken: str = ""
    absent: str = ""

    @property
    def wrong(self) -> bool:
        """Whether the row ran and is not right."""
        return bool(self.failed or self.broken)

    def line(self) -> str:
        """Return the row of the Markdown table."""
        at = [self.versions.get(name) or "-" for name in ("Python", "numpy", "torch", "jax")]
        if self.absent or self.broken:
            what = f"not run: {self.absent}" if self.absent else f"broken: {self.broken}"
            cells = [self.name, *at, what, "", "", ""]
        else:
            counts = (self.passed, self.failed, self.skipped.total(), f"{self.seconds:.0f}")
            cells = [self.name, *at, *map(str, counts)]
        return "| " + " | ".join(cells) + " |"


def interpreter(wanted: list[str]) -> str | None:
    """Return an interpreter of one of these versions, such as "3.12" and "3.14t"; else None."""
    free = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    mine = "{}.{}".format(*sys.version_info) + ("t" if free else "")
    if mine in wanted:
        return sys.executable
    for version in wanted:
        found = shutil.which(f"python{version}")
        # Some are launchers without the version behind them.
        if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
            return found
    return None


def files(groups: list[str], tests: dict[str, list[str]]) -> list[str]:
    """Return the paths of these groups of tests; a pattern without a file is an error."""
    found: dict[str, None] = {}
    for pattern in (pattern for group in groups for pattern in tests[group]):
        for one in _alternatives(pattern):
            paths = sorted(glob.glob(one, root_dir=ROOT))
            if not paths:
                raise SystemExit(f"{TABLE.name}: no test is called {one}")
            found |= dict.fromkeys(paths)
    return list(found)


def _alternatives(pattern: str) -> list[str]:
    """Return the patterns that one with a list in braces stands for."""
    before, brace, rest = pattern.partition("{")
    inside, _, after = rest.partition("}")
    return [before + one + after for one in inside.split(",")] if brace else [pattern]


def read(report: Path, outcome: Outcome) -> None:
    """Count the tests of pytest's JUnit file."""
    for case in ElementTree.parse(report).iter("testcase"):
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            outcome.failed += 1
        elif skipped is None or skipped.get("type") == "pytest.xfail":
            outcome.passed += 1
        else:
            reason = skipped.get("message", "")
            if reason == "collection skipped":  # its text is (path, line, reason)
                reason = (skipped.text or "").rpartition(", ")[2].strip("')")
            outcome.skipped[reason.removeprefix("Skipped: ")] += 1


def run(name: str, table: dict, folder: Path, pytest: list[str]) -> tuple[Outcome, str]:
    """Install and test a row in ``folder``; return the outcome and its interpreter."""
    row, outcome = table["rows"][name], Outcome(name)
    paths = files(row["tests"], table["tests"])
    base = interpreter(row["python"])
    if base is None:
        outcome.absent = f"no interpreter of Python {' or '.join(row['python'])}"
        return outcome, ""
    python = str(folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    # pip of this interpreter: the row's may have none.
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    wanted = [*table["common"]["packages"], *row.get("packages", [])]
    wanted += ["-e", str(ROOT) + row.get("extras", "")]
    made = [
        [base, "-m", "venv", "--without-pip", str(folder)],
        [*pip, "--only-binary", ":all:", "--no-compile", *wanted],
    ]
    for command in made:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            outcome.broken = f"exit code {done.returncode} of {' '.join(command[1:4])}"
            print(done.stdout, done.stderr, file=sys.stderr)
            return outcome, ""
    asked = subprocess.run([python, "-c", ASK], capture_output=True, text=True, check=True)
    outcome.versions = json.loads(asked.stdout)
    report = folder / "report.xml"
    # Outside CI a test may be skipped whose library is not in the row.
    env = {key: value for key, value in os.environ.items() if key != "CI"}
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    start = time.monotonic()
    done = subprocess.run([*command, *pytest, *paths], cwd=ROOT, env=env, stdout=sys.stderr)
    outcome.seconds = time.monotonic() - start
    if not report.exists() or done.returncode not in (0, 1):
        outcome.broken = f"pytest ended with exit code {done.returncode}"
        return outcome, ""
    read(report, outcome)
    if not outcome.passed:
        outcome.broken = "no test passed"
    return outcome, python


def text(outcomes: list[Outcome]) -> str:
    """Return the table, the reasons of skipped tests, and the sum."""
    head = ("row", "Python", "NumPy", "torch", "JAX", "passed", "failed", "skipped", "seconds")
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * 5 + " --: |" * 4]
    lines += [outcome.line() for outcome in outcomes]
    reasons: Counter[str] = Counter()
    for outcome in outcomes:
        reasons.update(outcome.skipped)
    lines += ["", *(f"skipped {count}: {reason}" for reason, count in reasons.most_common())]
    absent = sum(bool(outcome.absent) for outcome in outcomes)
    wrong = sum(outcome.wrong for outcome in outcomes)
    right = len(outcomes) - absent - wrong
    lines.append(f"{len(outcomes)} rows: {right} passed, {wrong} failed, {absent} not run")
    return "\n".join(lines)


def main() -> int:
    """Run the command line."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help="only these rows")
    parser.add_argument("--pytest", default="", metavar="ARGS", help="more arguments of pytest")
    args = parser.parse_args()
    unknown = [name for name in args.rows if name not in table["rows"]]
    if unknown:
        parser.error(f"no row is called {unknown[0]!r}; the rows are {', '.join(table['rows'])}")
    outcomes, compared = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for name in args.rows or table["rows"]:
            folder = Path(scratch) / name.replace(" ", "-")
            outcome, python = run(name, table, folder, args.pytest.split())
            print(outcome.line(), file=sys.stderr)
            outcomes.append(outcome)
            if python and table["rows"][name].get("verdicts"):
                compared.append(python)
            else:  # PyTorch takes gigabytes
                shutil.rmtree(folder, ignore_errors=True)
        differ = 0
        if len(compared) > 1:
            verdicts = [sys.executable, str(ROOT / "tools" / "verdicts.py"), "--matrix", *compared]
            differ = subprocess.run(verdicts).returncode
    print(text(outcomes))
    return 1 if differ or failed(outcomes, named=bool(args.rows)) else 0


def failed(outcomes: list[Outcome], *, named: bool) -> bool:
    """Return whether a row is wrong, none ran, or one was not run that the user ``named``."""
    ran = [outcome for outcome in outcomes if not outcome.absent]
    missing = len(ran) < len(outcomes) if named else not ran
    return missing or any(outcome.wrong for outcome in ran)


if __name__ == "__main__":
    sys.exit(main())
