"""docs/ci.md: its code runs, and its tables name what there is."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import Report
from posenc_ref.conformance import check as check_function
from posenc_ref.conformance.cli.ci import _check
from posenc_ref.conformance.cli.options.manifest import Keys, read_manifest
from posenc_ref.conformance.surveys.ndjson import EVENTS

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


# --- the page -------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: block.split("\n")[-2][:40])
def test_a_block_of_python_runs(block, tmp_path):
    run = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, text=True,
                         capture_output=True)  # fmt: skip
    assert run.returncode == 0, run.stderr


def test_the_page_names_every_member_of_a_report():
    part = PAGE[PAGE.index("## A report as one object") : PAGE.index("## Reports that can be kept")]
    rows = [row.split("|")[1:3] for row in part.splitlines() if row.startswith("| `")]
    members = {name: row[1] for row in rows for name in re.findall("`([^`]+)`", row[0])}
    wrong = RoPE(8, layout="half", base=50.0)
    report = check_function(
        wrong.apply, RoPE(8, layout="half"), "apply", max_position=128
    ).to_dict()
    assert set(members) == set(report)
    assert set(re.findall("`([a-z_]+)`", members["accuracy"])) == set(report["accuracy"])
    assert set(report["findings"][0]) <= set(re.findall("`([a-z_]+)`", members["findings"]))


def test_the_exit_codes_are_those_of_reports():
    rows = re.findall(r"^\| (\d) \| (\w+) \|", PAGE, re.MULTILINE)
    done = {"executed": {"values": 3}, "required": ("values",), "controls": {"moved": True}}

    def code(**changes):
        report = Report("fn", "apply", "R", "numpy", "float32", **done | changes)
        return str(report.exit_code), report.verdict

    from posenc_ref.conformance import Finding

    assert rows == [
        code(),
        code(findings=[Finding("sign", "m")]),
        code(controls={"moved": False}),
        code(executed={}),
    ]


def test_the_events_are_those_of_the_page():
    for command, events in EVENTS.items():
        (row,) = re.findall(rf"^\| `{command}` \| (.*) \|$", PAGE, re.MULTILINE)
        assert re.findall(r"`(\w+)`", row) == list(events)


def test_the_manifest_of_the_page_has_known_keys(tmp_path):
    (block,) = blocks("toml")
    (tmp_path / "posenc.toml").write_text(block, encoding="utf-8")
    asked = read_manifest(tmp_path / "posenc.toml", Keys.of(_check()))
    assert [one.name for one in asked] == [
        "port.py:apply [float32]",
        "port.py:apply [float64]",
        "port.py:slopes",
    ]
