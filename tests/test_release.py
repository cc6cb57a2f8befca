"""The files of a release fit together, and what is public changes on purpose only."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.tool import tool

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RELEASE = tool("release")


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_what_is_public_is_listed():
    """If this fails on purpose: python tools/public_api.py --write, and a line in CHANGELOG.md."""
    changes = tool("public_api").changes()
    assert changes == [], "\n".join(["run python tools/public_api.py --write:", *changes])


@pytest.fixture
def released(tmp_path):
    """A copy of the files that name the release, as they should be on its day."""
    for name in (*RELEASE.PLACES, "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    change(tmp_path / "CHANGELOG.md", r"^## .*", "## 0.1.0, 2026-11-30")
    change(tmp_path / "pyproject.toml", r"posenc-ref\.example", "github.com/owner/posenc-ref")
    return tmp_path


def change(file, pattern, new):
    before = file.read_text(encoding="utf-8")
    after = re.sub(pattern, new, before, flags=re.MULTILINE)
    assert after != before
    file.write_text(after, encoding="utf-8")


def test_a_consistent_release_passes(released):
    assert RELEASE.problems("v0.1.0", released) == []


@pytest.mark.parametrize(
    ("file", "pattern", "new", "said"),
    [
        ("pyproject.toml", r'^version = ".*"', 'version = "0.1.1"', "pyproject.toml: the version"),
        ("posenc_ref/__init__.py", r"0\.1\.0", "0.2.0", "posenc_ref/__init__.py: the version"),
        ("CITATION.cff", r"^version: .*", "version: 0.0.9", "CITATION.cff: the version"),
        ("recipe/recipe.yaml", r"0\.1\.0", "0.1.0rc1", "recipe/recipe.yaml: the version"),
        ("CHANGELOG.md", r"^## 0\.1\.0, .*", "## Unreleased", "the first section must be"),
        ("pyproject.toml", r"github\.com/owner", "posenc.example", "exists nowhere"),
    ],
)
def test_an_inconsistent_release_is_refused(released, file, pattern, new, said):
    change(released / file, pattern, new)
    assert any(said in problem for problem in RELEASE.problems("v0.1.0", released))


def test_only_a_version_is_a_tag(released):
    assert any("the tag must be" in problem for problem in RELEASE.problems("0.1.0", released))


def test_an_address_that_does_not_exist_is_refused_today():
    addresses = [url for url in PROJECT["urls"].values() if ".example" in url]
    found = [p for p in RELEASE.problems(f"v{PROJECT['version']}") if "exists nowhere" in p]
    assert len(found) == len(addresses)


def test_the_recipe_has_the_dependencies_of_the_package():
    recipe = yaml.safe_load(text("recipe/recipe.yaml"))
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["cli"]]
    wanted.append("python" + PROJECT["requires-python"])
    assert {r.replace(" ", "") for r in recipe["requirements"]["run"]} == set(wanted)
    assert recipe["about"]["license"] == PROJECT["license"]
    (command,) = recipe["build"]["python"]["entry_points"]
    assert command == f"posenc = {PROJECT['scripts']['posenc']}"


def test_the_citation_is_that_of_the_package():
    cited = yaml.safe_load(text("CITATION.cff"))
    assert cited["license"] == PROJECT["license"]
    assert cited["title"].startswith(PROJECT["name"])


def workflow(name):
    return yaml.safe_load(text(f".github/workflows/{name}.yml"))


def test_only_the_publishing_job_may_publish():
    jobs = workflow("release")["jobs"]
    assert jobs["publish"]["environment"] == "pypi"
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert workflow("release")["permissions"] == {"contents": "read"}


def test_actions_are_pinned_to_a_commit():
    files = [*(ROOT / ".github").rglob("*.yml"), ROOT / "action.yml"]
    uses = [use for file in files for use in re.findall(r"uses: (.*)", file.read_text("utf-8"))]
    assert len(uses) >= 8
    assert [use for use in uses if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", use)] == []


def test_issue_forms_ask_for_what_their_ids_say():
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert [form.stem for form in forms] == ["accused", "config", "encoding", "library"]
    for form in forms:
        if form.stem == "config":
            continue
        body = yaml.safe_load(form.read_text("utf-8"))
        assert body["name"]
        assert body["description"]
        fields = [part for part in body["body"] if part["type"] != "markdown"]
        assert len({part["id"] for part in fields}) == len(fields)
        assert all(part["attributes"]["label"] for part in fields)
        assert any(part.get("validations", {}).get("required") for part in fields)


def test_every_schema_has_an_id_of_its_own():
    files = [
        *(ROOT / "conformance" / "schemas").glob("*.json"),
        ROOT / "conformance/vectors/schema.json",
    ]
    ids = [json.loads(file.read_text("utf-8"))["$id"] for file in files]
    assert len(set(ids)) == len(files)
    assert all(re.fullmatch(r"urn:posenc-ref:schema:[a-z-]+:\d+", one) for one in ids)


@pytest.mark.nightly
def test_the_release_workflow_builds_a_wheel_that_works(tmp_path):
    """Run the steps of the workflow that need no GitHub, in a copy of the committed files."""
    tree = tmp_path / "tree"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(tree)], check=True)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    steps = [step for step in workflow("release")["jobs"]["build"]["steps"] if "run" in step]
    names = [step.get("name") for step in steps]
    assert names == ["Check that all files name this release", "Build", "Try the wheel"]
    for step in steps[1:]:  # the first refuses this tree, as a test above shows
        script = f'set -e\nexport PATH="{tmp_path}/venv/bin:$PATH"\n' + step["run"]
        done = subprocess.run(["bash", "-c", script], cwd=tree, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (wheel,) = (tree / "dist").glob("*.whl")
    assert wheel.name == f"posenc_ref-{PROJECT['version']}-py3-none-any.whl"
