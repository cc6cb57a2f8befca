"""The GPU script starts, its model of the GPU runs, and a report is not older than the sources."""

import importlib
import json
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from posenc_ref.backends import backend
from tests import gpu_stand_in
from tests.backends.kernels import rotary_model

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "benchmarks" / "gpu_rope.py"
REPORT = ROOT / "docs/generated/gpu-report.json"


def script(*options):
    return subprocess.run(
        [sys.executable, str(SCRIPT), *options], capture_output=True, text=True, check=False
    )


def stale(report, today):
    """The sources that changed since ``report`` was written, or that it does not name."""
    return sorted(name for name in today if report["sources"].get(name) != today[name])


def test_the_script_explains_itself():
    run = script("--help")
    assert run.returncode == 0, run.stderr
    assert "--deadline" in run.stdout


def test_without_a_device_it_says_so():
    reason = backend("cupy").missing()
    if reason is None:
        pytest.skip("a CUDA device is here: run benchmarks/gpu_rope.py itself")
    run = script()
    assert run.returncode == 2
    assert "cupy" in run.stderr


def test_the_report_is_of_these_sources():
    today = json.loads(script("--digests").stdout)
    assert {"kernels/rotary.cu", "fused_cupy.py"} <= set(today)
    if not REPORT.exists():  # no GPU has run it yet: docs/gpu.md says so
        text = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
        assert "has not run on a GPU yet" in text
        return
    report = json.loads(REPORT.read_text(encoding="utf-8"))
    assert stale(report, today) == [], "run benchmarks/gpu_rope.py again on a machine with a GPU"
    assert all(check["passed"] for check in report["checks"])


def test_a_stale_report_is_found():
    today = {"rotary.cu": "1", "fused_cupy.py": "2"}
    assert stale({"sources": dict(today)}, today) == []
    assert stale({"sources": {"rotary.cu": "0"}}, today) == ["fused_cupy.py", "rotary.cu"]


@pytest.mark.nightly
def test_the_bits_of_the_model_are_written(tmp_path):
    if shutil.which("g++") is None:
        if os.environ.get("CI"):
            pytest.fail("g++ is missing: the model of the CUDA kernel cannot be built")
        pytest.skip("g++ is missing: the model of the CUDA kernel is not built here")
    run = script("--model-bits", str(tmp_path / "bits.npz"))
    assert run.returncode == 0, run.stderr
    bits = np.load(tmp_path / "bits.npz")
    assert len(bits.files) == 24
    assert all(bits[name].any() for name in bits.files)


def imported(monkeypatch, name):
    """A module beside the script."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    return importlib.import_module(name)


@pytest.fixture
def rope(monkeypatch, tmp_path):
    """The script as a module, all of its sizes small, with stand-ins in place of a GPU."""
    torch = pytest.importorskip("torch", reason="the script holds torch beside CuPy")
    # Now, because it would take the stand-in for CuPy.
    pytest.importorskip(
        "transformers.models.llama.modeling_llama", reason="the script holds it beside ours"
    )
    right, script = imported(monkeypatch, "gpu_right"), imported(monkeypatch, "gpu_rope")
    shapes = {"training": (1, 2, 2, 16), "grouped": (2, 4, 2, 8)}
    changes = {right: {"CUDA": "cpu", "FIRST": 256, "CHUNK": 128, "LARGE": (1, 3, 40, right.DIM)},
               script: {"CUDA": "cpu", "SHAPES": shapes, "host_seconds": lambda call: call() and 1},
               torch: {"compile": lambda call, **options: call},
               torch.cuda: gpu_stand_in.CUDA_OF_TORCH}  # fmt: skip
    for module, values in changes.items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
    monkeypatch.setitem(sys.modules, "cupy", gpu_stand_in.Library(rotary_model.build(tmp_path)))
    rotary_model.forget()
    yield script
    rotary_model.forget()


def test_every_section_runs_on_stand_ins(rope, monkeypatch, tmp_path):
    """A wrong name would cost the only minutes that anybody has on a GPU."""
    right, asked = rope.gpu_right, []

    def model(command, check):
        bits = {name: right.fused(e)(gpu_stand_in.Array(x), at).host.view(np.uint8)
                for name, e, x, at in right.bit_cases()}  # fmt: skip
        np.savez(command[-1], **bits)

    def judge(call, encoding, surface, **options):
        asked.append(options)
        return types.SimpleNamespace(passed=True, verdict="not judged in a dry run")

    monkeypatch.setattr(right.subprocess, "run", model)
    monkeypatch.setattr(right, "check", judge)
    report, paths = rope.Report(1000), (tmp_path / "report.json", tmp_path / "report.md")
    for run in rope.sections():
        report.section(run)
        report.save(*paths)
    # A replay that does nothing is seen; all else is right on stand-ins too.
    failed = [(c["name"], c["note"]) for c in report.checks if not c["passed"]]
    assert failed == [("torch: a captured graph", "")]
    assert len(report.checks) == 50
    assert len(asked) == 16
    saved = json.loads(paths[0].read_text(encoding="utf-8"))
    assert len(saved["timings"]) == 2 * 14 + 5
    assert all(goal["measured"] is not None for goal in saved["goals"])
    text = paths[1].read_text(encoding="utf-8")
    assert "a stand-in" in text
    assert "| transformers eager / CuPy half | 6 | 1.00 | **missed** |" in text


def test_an_error_costs_one_section(monkeypatch):
    rope = imported(monkeypatch, "gpu_rope")
    report = rope.Report(1000)

    def broken(report):
        raise KeyError("gone")

    report.section(broken)
    assert report.checks == [{"name": "broken", "passed": False, "note": "KeyError: 'gone'"}]
    late = rope.Report(-1)
    late.section(rope.decoding)
    assert late.checks[0]["note"] == "not started: the deadline has passed"
