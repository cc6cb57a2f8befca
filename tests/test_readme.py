"""README.md and examples/ do what they say."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NEEDS = {
    "apply_on_torch.py": "torch",
    "attention_on_torch.py": "torch",
    "dask_and_shards.py": "dask",
    "fused_in_transformers.py": "transformers",
    "jax_and_shards.py": "jax",
    "other_library.py": "transformers",
}
#: These take two seconds and more, mostly for imports.
LONG = {
    "apply_on_torch.py",
    "attention_on_torch.py",
    "ci_test.py",
    "dask_and_shards.py",
    "fused_in_transformers.py",
    "jax_and_shards.py",
    "long_context_and_images.py",
    "long_context_mistakes.py",
    "other_library.py",
    "which_path.py",
}


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: block.split("\n")[-2])
def test_a_block_of_python_runs(block):
    run = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr


def command(text):
    """The one shell command of the README that has `text` in it."""
    (found,) = [block for block in blocks("sh") if text in block and "\\\n" not in block]
    return found.strip()


def extras(line):
    (listed,) = re.findall(r'-e "?\'?\.\[([\w,]+)\]', line)
    return set(listed.split(","))


def test_the_command_that_runs_the_main_job():
    install, run = command("posenc verify").split(" && ")
    assert run == "posenc verify"
    assert "posenc" in PROJECT["scripts"]
    assert extras(install) <= set(PROJECT["optional-dependencies"])
    assert (ROOT / install.split(" -c ")[1]).is_file()


def test_the_command_that_passes_the_tests_is_what_ci_runs():
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert command("pytest").replace("&& ", "&& CI=1 ").replace("install", "install --quiet") in ci


def test_the_schedule_that_the_page_adds_works():
    """It is a value like all others, and `check` judges it."""
    text = (ROOT / "docs" / "schedules.md").read_text(encoding="utf-8")
    block, entry = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    use = """
import posenc_ref
from posenc_ref.conformance import check

encoding = posenc_ref.RoPE(64, layout="half", scaling=GradualScaling(4.0))
assert posenc_ref.from_dict(encoding.to_dict()) == encoding
assert check(encoding.apply, encoding, "apply").passed
plain = posenc_ref.RoPE(64, layout="half")
assert check(plain.apply, encoding, "apply").codes == ["scaling-missing"]
"""
    named = """
from mpmath import mp
from posenc_ref.conformance.exact.schedules import frequencies

with mp.workdps(50):
    exact = [float(w) for w in frequencies(GradualScaling(4.0), 1e4, 64, None)]
assert exact == encoding.frequencies().tolist()
wrong = [float(w) / 4 ** (k / 31) for k, w in enumerate(plain.frequencies())]
given = posenc_ref.RoPE(64, layout="half", scaling=posenc_ref.GivenFrequencies(wrong))
report = check(given.apply, encoding, "apply")
assert report.codes == ["scaling-formula"], report
assert report.findings[0].message.startswith("GradualScaling: the last pair"), report
assert "f_k / 4 ** (2k/64)" in str(report), report
"""
    command = [sys.executable, "-c", block + use + entry + named]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr


def test_what_it_points_to_is_there():
    assert {"CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"} <= set(re.findall(r"\]\((.+?)\)", README))
    mentioned = set(re.findall(r"examples/\w+\.\w+", README))
    assert [path for path in mentioned if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(p, id=p.name, marks=pytest.mark.nightly if p.name in LONG else ())
        for p in EXAMPLES
    ],
)
def test_an_example_runs(path):
    if path.name in NEEDS:
        pytest.importorskip(NEEDS[path.name], reason="what the example is about")
    run = subprocess.run(
        [sys.executable, path.name], capture_output=True, text=True, cwd=path.parent
    )
    assert run.returncode == 0, run.stderr
    if path.name == "check_my_rope.py":
        names = ["sign", "base", "layout", "angle-precision"]
        lines = run.stdout.splitlines()[:5]
        assert lines[0].split() == ["apply", "conforms"]
        assert [line.split()[2] for line in lines[1:]] == names


def test_every_public_encoding_is_in_the_table():
    from posenc_ref.conformance.guide.names import encodings

    linked = re.findall(r"\[`(\w+)`\]\(", README)
    assert sorted(linked) == sorted(cls.__name__ for cls in encodings())


def test_every_command_is_in_the_table():
    from posenc_ref.conformance.cli import app

    names = re.findall(r"^\| `posenc (\w+)", README, re.MULTILINE)
    assert sorted(names) == sorted(c.name or c.callback.__name__ for c in app.registered_commands)


def test_it_is_short():
    assert len(README.splitlines()) <= 200
