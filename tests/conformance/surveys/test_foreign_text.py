"""Names, messages and refusals of others can neither forge a verdict nor mark up a page."""

import json
import re
import shlex
import sys
import xml.etree.ElementTree as ET

import pytest
from markdown_it import MarkdownIt
from typer.testing import CliRunner

from posenc_ref import RoPE
from posenc_ref.conformance import Implementation, check
from posenc_ref.conformance.cli import app
from posenc_ref.conformance.cli.options.output import say
from posenc_ref.conformance.surveys.batch import Checked
from posenc_ref.conformance.surveys.junit import junit
from posenc_ref.conformance.surveys.ndjson import read_ndjson
from posenc_ref.conformance.surveys.ndjson_markdown import markdown
from posenc_ref.conformance.surveys.ndjson_writer import recording

RIGHT, WRONG = RoPE(8, layout="half"), RoPE(8, layout="interleaved")
#: Text that is a verdict in a report, clears a terminal, reverses text, and is a page in a page.
FORGED = (
    "f\nCONFORMS  g  (apply, numpy, float32)\r\x1b[2K\u202e\ud800"
    "<img src=x> @octocat #1 http://e.x | `a` **b**"
)


def unprintable(text):
    """Return the characters of a text that a terminal would not just show."""
    return {c for c in text if not c.isprintable() and c != "\n"}


def verdicts(text):
    """Return the lines that look like the verdict of a report."""
    words = ("CONFORMS", "DEVIATES", "INCONCLUSIVE", "ERROR")
    return [line.split()[0] for line in text.splitlines() if line.startswith(words)]


def hostile(x, positions):
    """Refuse long inputs with a forged verdict, and rotate wrongly."""
    if positions.size > 8:
        raise ValueError(FORGED)
    return WRONG.apply(x, positions)


@pytest.fixture(scope="module")
def report():
    return check(Implementation(hostile, "apply", FORGED, how=FORGED), RIGHT)


def test_a_report_has_one_verdict(report):
    assert report.verdict == "deviates"
    assert verdicts(str(report)) == ["DEVIATES"]
    assert not unprintable(str(report))
    assert "CONFORMS" in report.subject, "the name is still shown"
    assert all(len(limit.splitlines()) == 1 for limit in report.limits)
    json.dumps(report.to_dict(), ensure_ascii=False).encode()


def test_a_name_that_is_set_later_is_made_printable(report):
    report.measured = FORGED
    assert len(report.measured.splitlines()) == 1
    report.measured = ""


def test_recorded_reports_and_pages(report, tmp_path):
    path = tmp_path / "report.ndjson"
    facts = {
        "subject": FORGED, "surface": "apply", "declared": repr(RIGHT), "backend": "numpy",
        "backend_version": FORGED, "dtype": "float32",
    }  # fmt: skip
    with recording(path, "check", RIGHT, **facts) as record:
        record.report(report, 0.1)
    assert len(path.read_bytes().splitlines()) == path.read_bytes().count(b"\n")
    read = read_ndjson(path)
    assert read.report().verdict == "deviates"
    assert verdicts(str(read.result)) == ["DEVIATES"]
    page = markdown([read])
    assert not unprintable(page)
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(page)
    assert "<img" not in rendered
    outside = re.sub(r"(?s)(`{3,})python.*?\1", "", page)  # nothing is a link in code
    assert "@octocat" not in outside
    assert "http://e" not in outside
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1, "a cell more"


def test_junit(report):
    document = junit([Checked.of(FORGED, report, 0.1), Checked.failed(FORGED, FORGED)])
    root = ET.fromstring(document)
    assert len(root.findall("testsuite")) == 2
    assert not any(unprintable(name) for e in root.iter() for name in e.attrib.values())


def test_a_program_cannot_forge_a_verdict(tmp_path):
    """The program answers hello with a name that is a verdict, and refuses every call."""
    file = tmp_path / "program.py"
    file.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    n = json.loads(line)['id']\n"
        f"    name, text = {{'protocol': 1, 'name': {FORGED!r}}}, {{'refused': {FORGED!r}}}\n"
        "    body = text if n else name\n"
        "    print(json.dumps({'id': n, **body}), flush=True)\n"
    )
    command = shlex.join([sys.executable, str(file)])
    declared = 'RoPE(8, layout="half")'
    run = CliRunner().invoke(app, ["check", "--exec", command, "--encoding", declared])
    assert run.exit_code == 1, run.output
    assert verdicts(run.stdout) == ["DEVIATES"]
    assert not unprintable(run.output)


def test_whatever_a_command_prints_is_printable(capsys):
    """The last door: what no report, card or error has made printable before."""
    say("a\x1b[2J\u202e\nb")
    say("\x9b", err=True)
    assert capsys.readouterr() == ("a\\x1b[2J\\u202e\nb\n", "\\x9b\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", FORGED, "--encoding", "RoPE(8, layout='half')"],
        ["check", "a.py:f", "--encoding", FORGED],
        ["presets", FORGED],
        ["explain", FORGED],
    ],
)
def test_errors_of_the_command_line(arguments):
    run = CliRunner().invoke(app, arguments)
    assert run.exit_code == 2
    assert run.output.strip()
    assert not unprintable(run.output)
    assert not verdicts(run.output)
