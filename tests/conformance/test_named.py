"""The first finding names the mistake, and docs/generated/named-mistakes.md quotes it.

A pull request judges one function of each row of the page, but for biases, sums and
tables, whose causes are among the dearest to find; .ci/nightly judges all functions.
"""

import json
import re

import pytest
from typer.testing import CliRunner

import posenc_ref
from posenc_ref.conformance import cli
from tests.named import CASES
from tests.night import by_day
from tests.tool import tool

TOOL = tool("named_mistakes")
PAGE = TOOL.DOCUMENT.read_text(encoding="utf-8")

WRONG = [case for case in CASES if case.code]


def row(case):
    """Return the first cells of the page's row about a case."""
    return f"| {case.mistake} | `{case.surface}` | `{case.code}` | "


#: The function that each row of the page shows.
SHOWN = {row(case): case for case in reversed(WRONG)}
#: A mistake of each surface in a NumPy function, for the command line.
COMMANDS = {case.surface: case for case in reversed(WRONG) if "backend" not in case.kwargs}


@pytest.mark.parametrize(
    "case",
    by_day(
        SHOWN.values(), [c for c in SHOWN.values() if c.surface not in ("add", "bias", "table")]
    ),
    ids=lambda c: c.name,
)
def test_the_page_quotes_the_first_finding(case):
    report = TOOL.judge(case)
    assert_named(case, report)
    line = next(line for line in PAGE.splitlines() if line.startswith(row(case)))
    assert line.split(" | ")[3:5] == TOOL.words(report.findings[0])


@pytest.mark.nightly
@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in WRONG])
def test_the_first_finding_names_the_mistake(case):
    assert_named(case, TOOL.judge(case))


def assert_named(case, report):
    assert report.verdict == "deviates"
    assert report.findings[0].code == case.code, report
    assert case.words in report.findings[0].message, report


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in CASES if not c.code])
def test_the_right_function_passes(case):
    report = TOOL.judge(case)
    assert report.verdict == "conforms", report


def test_the_page_lists_every_mistake():
    counted = sum(int(n) for n in re.findall(r"\| (\d+) \|$", PAGE, flags=re.MULTILINE))
    assert counted == len(WRONG)
    assert f"about {len(WRONG)} functions that make well known mistakes" in PAGE
    assert {case.mistake for case in CASES if not case.code} == {case.mistake for case in WRONG}
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("surface", by_day(COMMANDS, {"apply", "slopes"}))
def test_the_command_line_prints_the_finding(surface):
    case = COMMANDS[surface]
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
