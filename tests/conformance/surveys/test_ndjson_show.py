"""Recorded reports as Markdown, and the commands that write and show them."""

import importlib
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from typer.testing import CliRunner

import posenc_ref
from posenc_ref.conformance import Finding, cli
from posenc_ref.conformance.surveys.ndjson import read_ndjson
from posenc_ref.conformance.surveys.ndjson_markdown import markdown
from tests.conformance.recorded import (
    FOUND,
    batch,
    record,
    record_batch,
    record_verification,
    right,
    wrong,
)

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@pytest.fixture
def posenc():
    return lambda *arguments: CliRunner().invoke(cli.app, list(map(str, arguments)))


# --- Markdown -------------------------------------------------------------------------------------


def test_markdown_of_checks(tmp_path):
    limited = right()
    limited.limits.append("positions past 4095 are refused (IndexError: 4096)")
    paths = [record(tmp_path / "a", limited), record(tmp_path / "b", wrong(), subject="yours")]
    text = markdown([read_ndjson(path) for path in paths])
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 4
    assert len({row.count("|") for row in rows}) == 1
    assert rows[2].startswith("| ✅ | mine | apply | RoPE(8, layout='half') | float32 | ")
    assert rows[3].startswith("| ❌ | yours | apply | ")
    assert rows[3].endswith("| deviates base |")
    assert "- **error** `base`, yours: the base is 500, declared 10000" in text
    assert "  - remedy: Pass the declared base" in text
    assert "- mine: positions past 4095 are refused (IndexError: 4096)" in text
    assert f"<sub>posenc\\_ref {posenc_ref.__version__}, " in text
    assert text.count("<sub>") == 1  # the same versions once
    assert "numpy 2, " in text


def test_markdown_names_required_checks_that_did_not_run(tmp_path):
    report = right()
    report.executed.pop("state")
    text = markdown([read_ndjson(record(tmp_path / "a", report))])
    assert "inconclusive" in text
    assert "- mine: the required check 'state' was not executed" in text


def test_markdown_of_a_verification(tmp_path):
    text = markdown([read_ndjson(record_verification(tmp_path / "v", FOUND))])
    rows = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line]
    assert len(rows) == 3  # what was skipped is below, with the reason
    assert rows[1].startswith("| ✅ | numpy 2 RoPE | apply | R | float32 | 40 | 1.5 | conforms |")
    assert "- **error** foreign 1 rope float32: `sign`: turns backwards" in text
    assert text.count("- absent: absent is not installed") == 2
    assert "2 judged, 1 conforming, 1 deviating, 0 inconclusive, 2 skipped" in text


def test_markdown_of_a_batch(tmp_path):
    text = markdown([read_ndjson(record_batch(tmp_path / "c", batch()))])
    signs = [line[:12] for line in text.splitlines() if line.startswith("| ") and "---" not in line]
    assert signs[1:] == [
        "| ✅ | r | ap",
        "| ❌ | w | ap",
        "| ☑️ | e | a",
        "| ❌ | u | ap",
        "| 💥 | absent",
    ]
    assert "- 5 in all: 1 conforming, 1 deviating as expected, 1 deviating, 1 conforming" in text
    assert "- **error** `base`, w: the base is 500, declared 10000" in text
    assert "- e: expected base, because: issue 12" in text
    assert "- u: unexpected pass: base is gone" in text
    assert "- absent: there is no file absent.py" in text


def test_what_was_judged_cannot_write_markup(tmp_path):
    report = wrong()
    nasty = "a|b `c` <script> [x](y)\n# title **bold**"
    report.subject = nasty
    report.findings[0] = Finding("base", nasty, nasty, reproduce="print(1)\n````\n# x")
    report.limits.append(nasty)
    text = markdown([read_ndjson(record(tmp_path / "a", report, subject=nasty))])
    assert "<script>" not in text
    assert "a|b" not in text
    assert "\n# title" not in text
    assert "[x]" not in text
    assert "**bold**" not in text
    assert len([line for line in text.splitlines() if line.startswith("| ❌")]) == 1
    assert "    `````python\n    print(1)\n    ````\n    # x\n    `````" in text


# --- commands -------------------------------------------------------------------------------------


def test_check_and_report_on_the_command_line(tmp_path, posenc):
    path = tmp_path / "r.ndjson"
    mine, declared = EXAMPLES / "my_rope.py", f"@{EXAMPLES / 'my_rope.json'}"
    result = posenc("check", f"{mine}:default_base", "--encoding", declared, "--ndjson", path)
    assert result.exit_code == 1
    shown = posenc("report", path)
    assert shown.exit_code == 0
    assert shown.stdout == result.stdout
    summary = posenc("report", path, path, "--markdown")
    assert summary.exit_code == 0
    assert summary.stdout == markdown([read_ndjson(path)] * 2)
    header = read_ndjson(path).header
    assert header["subject"] == f"{mine}:default_base"
    assert header["encoding"]["base"] == 500000.0


def test_verify_on_the_command_line(tmp_path, posenc):
    path = tmp_path / "v.ndjson"
    only = ["--only", "numpy learned", "--dtype", "float32", "--processes", "0"]
    result = posenc("verify", *only, "--ndjson", path)
    assert result.exit_code == 0, result.output
    shown = posenc("report", path)
    assert shown.stdout == result.stdout
    header = read_ndjson(path).header
    asked = {"full": False, "only": "numpy learned", "dtypes": ["float32"], "libraries": []}
    assert header["options"] == asked


def test_a_program_that_does_not_answer_is_an_error_in_the_report(tmp_path, posenc):
    path, fake = tmp_path / "r.ndjson", tmp_path / "fake.py"
    fake.write_text('input(); print(\'{"id":0,"protocol":1}\', flush=True); input(); print("?")')
    result = posenc(
        "check", "--exec", f"{sys.executable} {fake}", "--encoding",
        f"@{EXAMPLES / 'my_rope.json'}", "--ndjson", path,
    )  # fmt: skip
    assert result.exit_code == 3
    assert "is not JSON: '?'" in result.stdout
    assert posenc("report", path).stdout == result.stdout
    assert read_ndjson(path).report().verdict == "error"


def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path, posenc, monkeypatch):
    module = importlib.import_module("posenc_ref.conformance.check")
    monkeypatch.setattr(module, "check", lambda *a, **k: pytest.fail("judged all the same"))
    arguments = ["--encoding", f"@{EXAMPLES / 'my_rope.json'}", "--ndjson", tmp_path / "no" / "r"]
    result = posenc("check", f"{EXAMPLES / 'my_rope.py'}:apply", *arguments)
    assert result.exit_code == 2
    assert "No such file" in result.stderr


def test_the_schemas_are_in_the_package():
    names = {path.name for path in (files("posenc_ref.conformance") / "schemas").iterdir()}
    assert names == {"report.json", "exec_request.json", "exec_answer.json"}


def test_an_import_does_not_pay_for_it():
    module = "posenc_ref.conformance.surveys.ndjson"
    code = f"import sys, posenc_ref.conformance; print({module!r} in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
