"""The GPU script starts, its model of the GPU runs, and a report is not older than the sources."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from posenc_ref.backends import backend

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "benchmarks" / "gpu_rope.py"
REPORT = ROOT / "docs" / "gpu-report.json"


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
    assert {"rotary.cu", "fused_cupy.py"} <= set(today)
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
