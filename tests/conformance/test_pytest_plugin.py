"""The pytest plugin: runs of pytest in a folder of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

import posenc_ref
from posenc_ref.conformance.surveys.ndjson import read_ndjson
from tests.night import by_day

ROOT = Path(__file__).resolve().parents[2]
MODULE = """
import numpy as np

from posenc_ref import ALiBi, RoPE
from posenc_ref.conformance import assert_conforms
from posenc_ref.conformance.pytest import parametrize_with_conformance

HALF = RoPE(8, layout="half")
KNOWN = {"code": "base", "reason": "issue 12"}


@parametrize_with_conformance(HALF.apply, HALF, "apply", max_position=128)
def test_right(check):
    check()


other = HALF.replace(base=500.0).apply


@parametrize_with_conformance(other, HALF, "apply", expected_failure=KNOWN, max_position=128)
def test_known(check):
    check()


def test_plain():
    assert_conforms(lambda n: ALiBi(n).slopes(), ALiBi(8), "slopes")


def test_wrong():
    assert_conforms(lambda n: 2 * ALiBi(n).slopes(), ALiBi(8), "slopes")
"""


def run_pytest(folder, *arguments):
    command = [sys.executable, "-m", "pytest", "-p", "posenc_ref_pytest", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "-p", "no:randomly", "test_mine.py", *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("workers", by_day([0, 2], {0}))
def test_a_run_of_pytest(tmp_path, workers):
    (tmp_path / "test_mine.py").write_text(MODULE, encoding="utf-8")
    options = ["-n", str(workers)] if workers else []
    run = run_pytest(tmp_path, *options, "-rx", "-v", "--posenc-ndjson", "r.ndjson")
    assert run.returncode == 1, run.stdout
    assert "test_mine.py::test_right[required inputs]" in run.stdout
    assert "1 failed" in run.stdout
    assert "4 xfailed" in run.stdout
    assert "XFAIL test_mine.py::test_known[values] - issue 12 (base: the base is 500" in run.stdout
    line = (
        f"posenc-ref {posenc_ref.__version__}: 2 conforming, 1 deviating as expected, 1 deviating"
    )
    assert line in run.stdout.splitlines()
    recorded = read_ndjson(tmp_path / "r.ndjson")
    assert recorded.header["source"] == "pytest"
    found = {one.name: one.verdict for one in recorded.result.checked}
    assert found == {
        "test_mine.py::test_right": "conforms",
        "test_mine.py::test_known": "expected",
        "test_mine.py::test_plain": "conforms",
        "test_mine.py::test_wrong": "deviates",
    }


@pytest.mark.nightly
def test_expected_failures_fail_with_runxfail(tmp_path):
    (tmp_path / "test_mine.py").write_text(MODULE, encoding="utf-8")
    run = run_pytest(tmp_path, "--runxfail", "-k", "known")
    assert "4 failed" in run.stdout, run.stdout


def test_a_run_that_judges_nothing_says_nothing(tmp_path):
    (tmp_path / "test_mine.py").write_text("def test():\n    assert True\n", encoding="utf-8")
    run = run_pytest(tmp_path)
    assert run.returncode == 0, run.stderr
    assert "posenc_ref" not in run.stdout  # the list of plugins has posenc-ref


def test_the_plugin_loads_nothing():
    lines = (
        "import pytest, sys",
        "before = set(sys.modules)",
        "import posenc_ref_pytest",
        "print(*sorted(set(sys.modules) - before))",
    )
    code = "\n".join(lines)
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.stdout.split() == ["posenc_ref_pytest"], run.stderr


def test_the_module_imports_pytest_only_when_it_is_used():
    code = "import sys, posenc_ref.conformance.pytest; print('pytest' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.stdout == "False\n", run.stderr
