"""docs/ci.md and the workflow for other people's repositories do what they say."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.cli.test_ci_page import ROOT, blocks
from tests.night import by_day


def test_the_page_gives_inputs_that_the_action_has(action):
    (block,) = blocks("yaml")
    given = re.findall(r"^      ([\w-]+): ", block, re.MULTILINE)
    assert given
    assert set(given) <= set(action["inputs"])


# --- the workflow and the action ------------------------------------------------------------------


def loaded(path):
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with other packages of the tests")
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def workflow():
    return loaded("examples/github_actions.yml")


@pytest.fixture(scope="module")
def action():
    return loaded("action.yml")


@pytest.fixture
def repository(tmp_path):
    """Somebody's repository: a function, its encoding and a manifest."""
    for name in ("my_rope.py", "my_rope.json", "posenc.toml"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    return tmp_path


def judge_instead(repository, function):
    """Put another function in place of the right one in the manifest."""
    path = repository / "posenc.toml"
    text = path.read_text(encoding="utf-8")
    assert text.count("my_rope.py:apply") == 1
    path.write_text(text.replace("my_rope.py:apply", f"my_rope.py:{function}"), encoding="utf-8")


def shell(command, folder, **variables):
    """Run a step as GitHub does: bash -e, with the environment's `posenc` in the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command],
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


@pytest.mark.nightly
def test_the_block_that_reads_a_report_reads_it(tmp_path):
    (block,) = [block for block in blocks("python") if "read_ndjson" in block]
    check(tmp_path, "default_base", tmp_path / "posenc.ndjson")
    run = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, text=True,
                         capture_output=True)  # fmt: skip
    assert run.stdout.endswith("deviates ['base']\n"), run.stderr


def named(steps, name):
    (found,) = [s for s in steps if s.get("name") == name]
    return found


def step(workflow, name):
    return named(workflow["jobs"]["posenc"]["steps"], name)


def test_the_workflow_is_one(workflow):
    assert set(workflow[True]) == {"push", "pull_request"}  # YAML 1.1 reads `on` as true
    assert workflow["permissions"] == {"contents": "read"}
    job = workflow["jobs"]["posenc"]
    assert job["runs-on"]
    assert [("uses" in s) != ("run" in s) for s in job["steps"]] == [True] * len(job["steps"])
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", s["uses"]) for s in job["steps"] if "uses" in s)
    assert 'install "posenc-ref[cli]"' in step(workflow, "Install")["run"]


@pytest.mark.parametrize("which", ["workflow", "action"])
def test_what_explains_a_red_check_runs_after_it(workflow, action, which):
    """Without `if`, GitHub skips what comes after a failed step: no summary, no artifact."""
    if which == "workflow":
        steps, judge = workflow["jobs"]["posenc"]["steps"], "Check"
    else:
        steps, judge = action["runs"]["steps"], "Judge"
    at = steps.index(named(steps, judge))
    assert "if" not in steps[at]
    assert [s["if"] for s in steps[at + 1 :]] == ["!cancelled()"] * 2
    assert named(steps, "Keep the reports")["with"]["if-no-files-found"] == "warn"


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("function", "code", "sign"), [("apply", 0, "✅"), ("neighbours", 1, "❌")]
)
def test_the_steps_run(workflow, repository, function, code, sign):
    judge_instead(repository, function)
    run = shell(step(workflow, "Check")["run"], repository)
    assert run.returncode == code, run.stderr
    summary = repository / "summary.md"
    told = shell(step(workflow, "Summary")["run"], repository, GITHUB_STEP_SUMMARY=str(summary))
    assert told.returncode == 0, told.stderr
    text = summary.read_text(encoding="utf-8")
    assert f"| {sign} | my\\_rope.py:{function} | apply |" in text
    assert "| ☑️ | my\\_rope.py:default\\_base | apply |" in text
    assert ("`layout`" in text) == (code == 1)
    kept = step(workflow, "Keep the reports")["with"]["path"].split()
    assert [name for name in kept if not (repository / name).is_file()] == []


@pytest.mark.nightly
def test_a_run_that_broke_off_makes_the_summary_red(workflow, repository):
    assert shell(step(workflow, "Check")["run"], repository).returncode == 0
    report = repository / "posenc.ndjson"
    report.write_bytes(b"".join(report.read_bytes().splitlines(keepends=True)[:-1]))
    run = shell(
        step(workflow, "Summary")["run"],
        repository,
        GITHUB_STEP_SUMMARY=str(repository / "summary.md"),
    )
    assert run.returncode == 2
    assert "has no footer" in run.stderr


def test_without_a_report_the_summary_says_so(workflow, action, repository):
    """A usage error ends the check before it writes a report; only the check is red then."""
    (repository / "posenc.toml").unlink()
    assert shell(step(workflow, "Check")["run"], repository).returncode == 2
    for name, run in (
        ("workflow.md", step(workflow, "Summary")["run"]),
        ("action.md", named(action["runs"]["steps"], "Summary")["run"]),
    ):
        file = repository / name
        told = shell(run, repository, GITHUB_STEP_SUMMARY=str(file), NAME="posenc")
        assert told.returncode == 0, told.stderr
        assert file.read_text(encoding="utf-8").startswith("Nothing was judged")


def perform(action, folder, **inputs):
    """Run the steps of the action, but the first, as GitHub does.

    Return the outputs, the summary, and the run of the step that failed. A step without `if` is
    skipped after a failed one.
    """
    unknown = set(inputs) - set(action["inputs"])
    assert not unknown
    values = {f"inputs.{name}": one["default"] for name, one in action["inputs"].items()}
    values |= {f"inputs.{name}": value for name, value in inputs.items()}
    values["github.action_path"] = str(ROOT)
    files = {name: folder / f"{name}.txt" for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    failed = None
    for one in action["runs"]["steps"]:
        if "run" not in one or one["name"] == "Install" or (failed and "if" not in one):
            continue
        assert one["shell"] == "bash"
        assert "${{" not in one["run"]  # an input in a script is code
        variables = {
            name: re.sub(r"\$\{\{ (\S+) \}\}", lambda found: values[found[1]], text)
            for name, text in one["env"].items()
        }
        run = shell(one["run"], folder, **variables | {k: str(v) for k, v in files.items()})
        failed = failed or (run if run.returncode else None)
    read = {n: f.read_text(encoding="utf-8") if f.is_file() else "" for n, f in files.items()}
    outputs = dict(line.split("=", 1) for line in read["GITHUB_OUTPUT"].splitlines())
    return outputs, read["GITHUB_STEP_SUMMARY"], failed


def test_the_action_is_a_composite_one(action):
    assert {"name", "description", "inputs", "outputs", "runs"} == set(action)
    assert action["runs"]["using"] == "composite"
    uses = [one["uses"].partition("@")[0] for one in action["runs"]["steps"] if "uses" in one]
    assert uses == ["actions/setup-python", "actions/upload-artifact"]
    assert all(one["description"] and "default" in one for one in action["inputs"].values())
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"\binputs\.([\w-]+)", text)) == set(action["inputs"])


@pytest.mark.nightly
@pytest.mark.parametrize("function", by_day(["apply", "neighbours"], {"neighbours"}))
def test_the_action_judges_a_manifest(action, repository, function):
    code = {"apply": 0, "neighbours": 1}[function]
    judge_instead(repository, function)
    outputs, summary, failed = perform(action, repository, manifest="posenc.toml", name="mine")
    assert outputs == {"exit-code": str(code), "junit": "mine.xml", "ndjson": "mine.ndjson"}
    assert bool(failed) == bool(code)
    assert "2 in all" in summary
    assert [name for name in ("mine.xml", "mine.ndjson") if not (repository / name).exists()] == []


@pytest.mark.nightly
def test_the_action_judges_one_function(action, repository):
    (repository / "posenc.toml").unlink()
    given = {"target": "my_rope.py:other_way_round", "encoding": "@my_rope.json"}
    known = {"arguments": "--expect sign --reason issue-12"}
    outputs, summary, failed = perform(action, repository, **given, **known)
    assert failed is None, failed
    assert outputs["exit-code"] == "0"
    assert "my\\_rope.py:other\\_way\\_round: expected sign, because: issue-12" in summary
    outputs, summary, failed = perform(action, repository, **given)
    assert failed.returncode == 1


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"manifest": "posenc.toml", "target": "my_rope.py:apply"}, "give either manifest"),
        ({"manifest": "absent.toml"}, "there is no manifest absent.toml"),
        ({"manifest": "posenc.toml", "arguments": "--select $(touch${IFS}x)"}, "matches none"),
    ],
)
def test_wrong_inputs_end_the_action(action, repository, inputs, words):
    _, summary, failed = perform(action, repository, **inputs)
    assert failed.returncode == 2
    assert words in failed.stdout + failed.stderr
    assert summary.startswith("Nothing was judged")
    assert not (repository / "x").exists()


def test_the_action_installs_itself(action, tmp_path):
    fake = tmp_path / "bin" / "python"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > arguments\n', encoding="utf-8")
    fake.chmod(0o755)
    install = named(action["runs"]["steps"], "Install")
    command = f'PATH="{fake.parent}:$PATH"\n{install["run"]}'
    run = shell(command, tmp_path, SOURCE=str(ROOT), EXTRAS="cli,torch")
    assert run.returncode == 0, run.stderr
    words = (tmp_path / "arguments").read_text(encoding="utf-8").splitlines()
    assert words == ["-m", "pip", "install", f"{ROOT}[cli,torch]"]
