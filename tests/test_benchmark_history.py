"""What `benchmarks/report.py --keep` calls slower: a change of the code, and no noise."""

import importlib.util
import json
from pathlib import Path

import numpy as np

PATH = Path(__file__).resolve().parents[1] / "benchmarks" / "history.py"
SPEC = importlib.util.spec_from_file_location("benchmark_history", PATH)
history = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(history)

OURS = {"ours NumPy half, out=": 3.0, "ours Numba half, out=": 1.4}


def report(seed, load=1.0, cpu="a", **changed):
    """A report of 15 rounds: each has its own disturbance, and each candidate some of its own."""
    rng = np.random.default_rng(seed)
    rounds = load * (1 + rng.exponential(0.5, 15))

    def row(name, cost):
        noise = 1 + 0.05 * rng.random(15)
        noise[rng.integers(15)] *= 4  # interrupted once
        return {"name": name, "samples_s": (1e-3 * cost * rounds * noise).tolist()}

    costs = {**OURS, **changed}
    rows = [row("limit: np.copyto", 1.0), row("limit: one-pass multiply", 1.0)]
    rows += [row(name, cost) for name, cost in costs.items()]
    rows.append(row("transformers", 30.0))
    facts = {"machine": "m", "cpu": cpu, "cores": 2, "threads": "1"}
    return {
        "rope": {"environment": facts, "shape": [1, 2, 3, 4], "float32": rows},
        "tables": {"environment": facts, "ALiBi [1]": [row("limit: fill", 1), row("ours", 2)]},
        "cost_laws": {},
    }


def test_a_loaded_machine_and_an_interruption_are_no_change():
    earlier = [report(seed) for seed in range(5)]
    for seed in range(5, 25):
        assert history.slower(report(seed, load=1 + seed), earlier) == []


def test_half_as_fast_is_named():
    earlier = [report(seed) for seed in range(5)]
    name = "ours Numba half, out="
    for seed in range(5, 25):
        ((found, now, before),) = history.slower(report(seed, **{name: 2.1}), earlier)
        assert found == f"float32: {name}"
        assert 1.9 < now < 2.3
        assert 1.26 < before < 1.54


def test_reports_are_kept_and_compared_on_one_machine_only(tmp_path):
    texts = [history.section(report(seed), tmp_path) for seed in range(3)]
    assert "0 earlier reports of this machine: at least 2 are needed" in texts[0]
    assert "1 earlier report of this machine: at least 2 are needed" in texts[1]
    assert "Nothing, in comparison with 2 reports" in texts[2]
    slow = {"ours NumPy half, out=": 4.5}
    assert "| float32: ours NumPy half, out= |" in history.section(report(3, **slow), tmp_path)
    assert "0 earlier reports" in history.section(report(4, cpu="b", **slow), tmp_path)
    for seed in range(12):
        history.section(report(seed), tmp_path)
    kept = sorted(tmp_path.iterdir())
    assert len(kept) == history.KEPT
    assert json.loads(kept[-1].read_text(encoding="utf-8")) == report(11)
