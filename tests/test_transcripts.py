"""The transcripts in README.md and docs/ are what the commands print.

A transcript is a ``console`` block: lines that begin with ``$`` are commands, the others are their
output, in full; a line ``...`` stands for any number of lines.  The blocks of a page run one after
the other in a copy of the repository, so they may write files and read those of earlier blocks.
``posenc`` runs in this process, where imports are shared; every other command runs in bash.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

from posenc_ref.conformance.cli import app
from tests.night import by_day

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = sorted((ROOT / "docs/tutorials").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *TUTORIALS]
SETTINGS = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "OMP_NUM_THREADS": "1"}
#: The last digits of errors and durations differ between machines.
NUMBER = r"\d[\d.]*(?:e[+-]?\d+)?"
MACHINE = re.compile(rf"{NUMBER}(?= ?(?:units|s)\b)")
MEASURED = ("accuracy ", "errors ")


def transcripts(text):
    """Return the commands of a page, each with the lines of its output."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        lines = iter(block.splitlines())
        for line in lines:
            if line.startswith("$ "):
                while line.endswith("\\"):
                    line = line.removesuffix("\\") + next(lines).strip()
                found.append((line.removeprefix("$ "), []))
            else:
                assert found, f"a console block begins with a command, not with {line!r}"
                found[-1][1].append(line)
    return found


def comparable(line):
    """Return a line without its trailing blanks and without what differs between machines."""
    numbers = NUMBER if line.startswith(MEASURED) else MACHINE
    return re.sub(numbers, "#", line).rstrip()


def difference(shown, printed):
    """Return the first lines shown that were not printed there, or None if there are none."""
    parts = [[]]
    for line in shown:
        if line.strip() == "...":
            parts.append([])
        else:
            parts[-1].append(comparable(line))
    first, *others = parts
    left = [comparable(line) for line in printed]
    if not others:
        return None if first == left else "\n".join(first)
    *between, last = others
    if left[: len(first)] != first:
        return "\n".join(first)
    left = left[len(first) :]
    for part in between:
        starts = range(len(left) - len(part) + 1)
        at = next((n for n in starts if left[n : n + len(part)] == part), None)
        if at is None:
            return "\n".join(part)
        left = left[at + len(part) :]
    return None if not last or left[-len(last) :] == last else "\n".join(last)


def copied(folder):
    """Make ``folder`` a copy of the repository: files in examples/ are copied, others linked."""
    for path in ROOT.iterdir():
        if path.name == "examples":
            shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif path.is_dir() and not path.name.startswith("."):
            (folder / path.name).symlink_to(path)


def run(command):
    """Run a command in the working folder and return the lines that it prints."""
    words = shlex.split(command)
    if words[0] == "posenc" and not re.search(r"[|&;<>$]", re.sub("'[^']*'", "", command)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = CliRunner().invoke(app, words[1:], prog_name="posenc")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        lines = result.output.splitlines()  # a slow machine prints the progress as well
        return [line for line in lines if not re.match(r"posenc: \d+ of \d+ parts done", line)]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    result = subprocess.run(
        ["bash", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PATH": path},
    )
    return result.stdout.splitlines()


WITH = [path for path in PAGES if "```console" in path.read_text(encoding="utf-8")]


#: Pages whose commands take several seconds.
NIGHT = {"ci.md", "compare.md", "locating.md", "onnx.md", *(path.name for path in TUTORIALS)}


@pytest.mark.parametrize(
    "page", by_day(WITH, [p for p in WITH if p.name not in NIGHT]), ids=lambda page: page.name
)
def test_a_page_shows_what_its_commands_print(page, tmp_path, monkeypatch):
    copied(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    before = set(sys.modules)
    try:
        for command, shown in transcripts(page.read_text(encoding="utf-8")):
            printed = run(command)
            missing = difference(shown, printed)
            assert missing is None, f"`{command}` does not print\n{missing}\nbut\n" + "\n".join(
                printed
            )
    finally:
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
                del sys.modules[name]


def test_the_pages_have_transcripts():
    assert {"README.md", "judging.md"} <= {page.name for page in WITH}


PRINTED = ["DEVIATES  f", "error: base: the base is 10000", "accuracy  worst 2.1 units", "end"]


@pytest.mark.parametrize(
    "shown",
    [
        PRINTED,
        ["..."],
        ["DEVIATES  f", "..."],
        ["...", "end"],
        ["DEVIATES  f", "...", "accuracy  worst 2.4 units", "..."],
        [*PRINTED, "..."],
        ["...", PRINTED[1], "...", PRINTED[3]],
    ],
)
def test_a_true_transcript_is_accepted(shown):
    assert difference(shown, PRINTED) is None


@pytest.mark.parametrize(
    "shown",
    [
        [],
        PRINTED[:3],
        PRINTED[1:],
        [*PRINTED, "more"],
        ["CONFORMS  f", "..."],
        ["...", "ends"],
        ["DEVIATES  f", "...", "error: sign", "..."],
        ["...", "accuracy  worst 2.1 parts", "..."],
        ["...", PRINTED[2], "...", PRINTED[1], "..."],
        ["DEVIATES  f", "...", "DEVIATES  f", "..."],
        ["...", PRINTED[1]],
        [PRINTED[0], PRINTED[2], "..."],
    ],
)
def test_a_false_transcript_is_rejected(shown):
    assert difference(shown, PRINTED) is not None


def test_a_command_may_go_on_in_the_next_line():
    page = "```console\n$ posenc check \\\n    a.py:f\nCONFORMS\n$ posenc x\n```\n"
    assert transcripts(page) == [("posenc check a.py:f", ["CONFORMS"]), ("posenc x", [])]


def test_other_commands_run_in_bash(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("echo a && echo b >&2") == ["a", "b"]
    assert run("posenc explain no-such-code > out 2>&1; echo $?") == ["2"]


def test_only_what_a_machine_determines_is_left_out():
    assert comparable("3 passed in 0.52s") == comparable("3 passed in 11.5s")
    assert comparable("errors    4Ki: 2.0e+00") == comparable("errors    4Ki: 1.9e-02")
    assert comparable("worst 2.9 units") != comparable("worst 2.9 parts")
    assert comparable("the base is 10000") != comparable("the base is 1000")
