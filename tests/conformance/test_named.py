"""The first finding names the mistake, in the words of docs/generated/named-mistakes.md."""

import json
import re

import pytest
from typer.testing import CliRunner

import posenc_ref
from posenc_ref.conformance import cli
from tests.named import CASES
from tests.tool import tool

TOOL = tool("named_mistakes")
PAGE = TOOL.DOCUMENT.read_text(encoding="utf-8")

WRONG = [case for case in CASES if case.code]
#: One of every mistake, of those that judge NumPy arrays.
FIRST = {case.mistake: case for case in reversed(WRONG) if "backend" not in case.kwargs}


def named(cases):
    return [pytest.param(case, id=case.name) for case in cases]


def row(case):
    """The row of the page that stands for a case."""
    start = f"| {case.mistake} | `{case.surface}` | `{case.code}` | "
    return next(line for line in PAGE.splitlines() if line.startswith(start)).split(" | ")


@pytest.mark.parametrize("case", named(WRONG))
def test_the_first_finding_names_the_mistake(case):
    report = TOOL.judge(case)
    assert report.verdict == "deviates"
    first = report.findings[0]
    assert first.code == case.code, report
    assert case.words in first.message, report
    other = next(c for c in WRONG if row(c) == row(case))
    if other is case:  # the row shows the first one
        assert row(case)[3:5] == TOOL.words(first)


@pytest.mark.parametrize("case", named(case for case in CASES if not case.code))
def test_the_right_function_passes(case):
    report = TOOL.judge(case)
    assert report.verdict == "conforms", report


def test_the_page_lists_every_mistake():
    counted = sum(int(n) for n in re.findall(r"\| (\d+) \|$", PAGE, flags=re.MULTILINE))
    assert counted == len(WRONG)
    assert f"about {len(WRONG)} functions that make well known mistakes" in PAGE
    assert {case.mistake for case in CASES if not case.code} == {case.mistake for case in WRONG}
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("mistake", FIRST)
def test_on_the_command_line(mistake):
    """The same words, and exit code 1."""
    case = FIRST[mistake]
    target = f"{case.function.__module__}:{case.function.__name__}"
    command = ["check", target, "--surface", case.surface]
    if case.encoding is not None:
        body = posenc_ref.from_dict(case.encoding).to_dict()
        command += ["--encoding", json.dumps(body)]
    result = CliRunner().invoke(cli.app, command)
    assert result.exit_code == 1, result.output
    said = " ".join(result.output.split())
    assert case.code in said
    assert case.words in said
