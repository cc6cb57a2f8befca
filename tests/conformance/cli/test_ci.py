"""docs/ci.md and the workflow for other people's repositories do what they say."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import Report
from posenc_ref.conformance import check as check_function
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


def test_the_block_that_reads_a_report_reads_it(tmp_path):
    (block,) = [block for block in blocks("python") if "read_ndjson" in block]
    check(tmp_path, "default_base", tmp_path / "posenc.ndjson")
    run = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, text=True,
                         capture_output=True)  # fmt: skip
    assert run.stdout.endswith("deviates ['base']\n"), run.stderr


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


# --- the workflow ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def workflow():
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with other packages of the tests")
    return yaml.safe_load((ROOT / "examples" / "github_actions.yml").read_text(encoding="utf-8"))


@pytest.fixture
def repository(tmp_path):
    """Somebody's repository, with a function and its encoding."""
    for name in ("my_rope.py", "my_rope.json"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    return tmp_path


def shell(command, folder, **variables):
    """Run a step as GitHub does: bash -e, with the environment's `posenc` in the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=folder,
        env=os.environ | {"PATH": path} | variables,
        capture_output=True,
        text=True,
    )


def check(folder, function, file):
    arguments = ["--encoding", f"@{ROOT / 'examples' / 'my_rope.json'}", "--ndjson", str(file)]
    target = f"{ROOT / 'examples' / 'my_rope.py'}:{function}"
    module = [sys.executable, "-m", "posenc_ref.conformance", "check", target, *arguments]
    return subprocess.run(module, cwd=folder, capture_output=True, text=True)


def step(workflow, name):
    (found,) = [s for s in workflow["jobs"]["posenc"]["steps"] if s.get("name") == name]
    return found


def test_the_workflow_is_one(workflow):
    assert set(workflow[True]) == {"push", "pull_request"}  # YAML 1.1 reads `on` as true
    assert workflow["permissions"] == {"contents": "read"}
    job = workflow["jobs"]["posenc"]
    assert job["runs-on"]
    assert [("uses" in s) != ("run" in s) for s in job["steps"]] == [True] * len(job["steps"])
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", s["uses"]) for s in job["steps"] if "uses" in s)
    assert 'install "posenc-ref[cli]"' in step(workflow, "Install")["run"]


def test_what_explains_a_red_check_runs_after_it(workflow):
    """Without `if`, GitHub skips what comes after a failed step: no summary, no artifact."""
    steps = workflow["jobs"]["posenc"]["steps"]
    at = steps.index(step(workflow, "Check"))
    assert "if" not in steps[at]
    assert [s["if"] for s in steps[at + 1 :]] == ["!cancelled()"] * 2
    assert step(workflow, "Keep the report")["with"]["if-no-files-found"] == "error"


@pytest.mark.parametrize(
    ("function", "code", "sign"), [("apply", 0, "✅"), ("neighbours", 1, "❌")]
)
def test_the_steps_run(workflow, repository, function, code, sign):
    command = step(workflow, "Check")["run"]
    assert command.count("my_rope.py:apply") == 1
    command = command.replace("my_rope.py:apply", f"my_rope.py:{function}")
    run = shell(command, repository)
    assert run.returncode == code, run.stderr
    summary = repository / "summary.md"
    told = shell(step(workflow, "Summary")["run"], repository, GITHUB_STEP_SUMMARY=str(summary))
    assert told.returncode == 0, told.stderr
    text = summary.read_text(encoding="utf-8")
    assert f"| {sign} | my\\_rope.py:{function} | apply |" in text
    assert ("`layout`" in text) == (code == 1)
    kept = list(repository.glob(step(workflow, "Keep the report")["with"]["path"]))
    assert [path.name for path in kept] == ["posenc-apply.ndjson"]


def test_a_run_that_broke_off_makes_the_summary_red(workflow, repository):
    assert shell(step(workflow, "Check")["run"], repository).returncode == 0
    (report,) = repository.glob("posenc-*.ndjson")
    report.write_bytes(b"".join(report.read_bytes().splitlines(keepends=True)[:-1]))
    run = shell(
        step(workflow, "Summary")["run"],
        repository,
        GITHUB_STEP_SUMMARY=str(repository / "summary.md"),
    )
    assert run.returncode == 2
    assert "has no footer" in run.stderr
