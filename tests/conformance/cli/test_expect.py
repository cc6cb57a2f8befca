"""check --expect, --reason and --junit: known deviations, and their reports."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from typer.testing import CliRunner

from posenc_ref.conformance import cli
from posenc_ref.conformance.surveys.ndjson import read_ndjson


@pytest.fixture
def check(manifest, monkeypatch):
    monkeypatch.chdir(manifest("").parent)

    def run(function, *arguments):
        words = ["check", f"port.py:{function}", "--encoding", "@half.json", *map(str, arguments)]
        return CliRunner().invoke(cli.app, [*words, "--max-position", "128"])

    return run


@pytest.mark.parametrize(
    ("function", "expected", "exit_code", "words"),
    [
        ("other_base", ["base"], 0, "expected  base, because: issue 12"),
        ("other_base", ["sign"], 1, "fails with base, which is not expected"),
        ("other_base", ["base", "sign"], 1, "does not fail with sign any more"),
        ("half", ["base"], 1, "unexpected pass: base is gone"),
        ("refusing", ["raises"], 0, "expected  raises, because: issue 12"),
        ("refusing", ["base"], 1, "too little was judged"),
    ],
)
def test_an_expected_deviation(check, function, expected, exit_code, words):
    options = ["--surface", "apply"]  # a function that refuses every call fits no convention
    options += [part for code in expected for part in ("--expect", code)]
    result = check(function, *options, "--reason", "issue 12", "--ndjson", "r.ndjson")
    assert result.exit_code == exit_code, result.output
    assert words in result.stdout
    footer = read_ndjson("r.ndjson").footer
    assert footer["exit_code"] == exit_code
    assert footer["expected"] == {"code": expected, "reason": "issue 12"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--expect", "base"], "--expect needs --reason TEXT"),
        (["--reason", "issue 12"], "--reason needs --expect CODE"),
        (["--expect", "bas", "--reason", "x"], "--expect: code must be a key of CODES"),
        (["--expect", "base", "--reason", " "], "--reason: reason must say why"),
        (["--junit", "port.py"], "port.py is no JUnit XML file, so it is not overwritten"),
        (["--ndjson", "port.py"], "port.py is no recorded report, so it is not overwritten"),
    ],
)
def test_a_usage_error_teaches(check, arguments, said):
    result = check("half", *arguments)
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert "noise" in Path("port.py").read_text(encoding="utf-8")


def test_junit_of_a_check_and_of_a_usage_error(check):
    assert check("other_base", "--junit", "r.xml").exit_code == 1
    (suite,) = ET.parse("r.xml").getroot()
    assert suite.get("name") == "port.py:other_base"
    assert int(suite.get("failures")) > 0
    assert check("nothing", "--junit", "r.xml").exit_code == 2
    (suite,) = ET.parse("r.xml").getroot()
    assert "port.py has no 'nothing'" in suite.find("testcase/error").get("message")
