"""The benchmarks run, and what they print of our own accuracy is what the suite would say."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from posenc_ref.accuracy import Truth

pytestmark = pytest.mark.nightly  # the report takes twenty seconds

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The folder that the report of small shapes was written into."""
    for name in ("torch", "transformers", "matplotlib"):
        pytest.importorskip(name, reason=f"the benchmarks run {name}")
    folder = tmp_path_factory.mktemp("benchmarks")
    script = ROOT / "benchmarks" / "report.py"
    command = [sys.executable, str(script), "--quick", "--output", str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return folder


@pytest.mark.parametrize("script", ["rope", "tables"])
def test_our_errors_are_roundings(report, script):
    data = json.loads((report / "benchmarks.json").read_bytes())[script]
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


def test_every_goal_has_a_number_or_says_that_it_was_left_out(report):
    page = (report / "benchmarks.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in page.splitlines() if re.match(r"\|.*\| [<>]= ", line)]
    assert len(rows) >= 20
    for goal, limit, *cells in rows:
        if cells[0].strip() == "left out":
            assert "compiled" in goal
            continue
        sign, bound = limit.split()
        for measured, *missed in (cell.split() for cell in cells if cell.strip()):
            value = float(measured)
            met = value <= float(bound) if sign == "<=" else value >= float(bound)
            assert met == (missed != ["**missed**"]) or value == float(bound)
    assert "| limit: " in page


def test_the_plot_names_what_it_shows(report):
    assert "ours JAX half, jitted" in (report / "benchmarks.svg").read_text(encoding="utf-8")


def test_cost_laws_are_drawn(report):
    data = json.loads((report / "benchmarks.json").read_bytes())
    curves, plot = data["cost_laws"]["curves"], report / "cost-laws.svg"
    assert {(c["axis"], c["kind"]) for c in curves} == {
        ("S", "time"), ("H", "time"), ("D", "time"), ("S", "memory"),
    }  # fmt: skip
    assert all(len(c["sizes"]) == len(c["values"]) >= 3 for c in curves)
    assert all(min(c["values"]) > 0 for c in curves)
    text = set(re.findall(r"<!-- (.*?) -->", plot.read_text(encoding="utf-8")))
    assert {c["name"] for c in curves} <= text
