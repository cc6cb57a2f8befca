"""The benchmarks run, and what they print of our own accuracy is what the suite would say."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from posenc_ref.accuracy import Truth

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("script", "options"),
    [
        ("rope.py", ["--shape", "1,2,64,32", "--no-compile"]),
        ("tables.py", ["--scale", "0.001"]),
    ],
)
def test_benchmark(script, options, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    out, page = tmp_path / "out.json", tmp_path / "out.md"
    command = [sys.executable, str(ROOT / "benchmarks" / script), *options, "--rounds", "1"]
    run = subprocess.run(
        [*command, "--json", str(out), "--markdown", str(page)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    data = json.loads(out.read_text(encoding="utf-8"))
    groups = {
        name: [c for c in group if c["name"].startswith("ours")]
        for name, group in data.items()
        if name not in ("environment", "shape")
    }
    assert all(groups.values())
    assert all(c["median_s"] > 0 for group in groups.values() for c in group)
    wide = [c["max_error"] for name, group in groups.items() if name != "bfloat16" for c in group]
    errors = [error for error in wide if error]
    # Exact angles: roundings of results that are no larger than 8, wherever the positions are.
    size = np.full(len(errors), 8.0)
    truth = Truth(np.zeros(len(errors)), size, np.zeros(()))
    assert errors
    assert truth.score(np.array(errors), dtype="float32").max() <= 1
    assert "| limit: " in page.read_text(encoding="utf-8")
