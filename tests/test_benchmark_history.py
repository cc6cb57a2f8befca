"""What `benchmarks/report.py --keep` calls slower, and what its rows measure."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.backends import fused
from posenc_ref.backends.kernels import numba_loops, numpy_rotary

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module", autouse=True)
def modules():
    """Import the scripts as they import each other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.syspath_prepend(str(FOLDER))
        import history
        import tables
        import timing
        import ways

        yield history, timing, tables, ways


@pytest.fixture
def history(modules):
    return modules[0]


COSTS = {"ours NumPy half, out=": 3.0, "ours Numba half, out=": 1.4}
FACTS = {"machine": "m", "cpu": "a", "cores": 2, "threads": "1", "load": "1.5"}


def report(seed, noise=0.02, spread=None, **changed):
    """A report of 15 rounds; ``spread`` is the noise of a candidate in quiet and other rounds."""
    rng = np.random.default_rng(seed)

    def row(name, cost):
        paired = cost * (1 + noise * rng.random(15))
        if spread == name:
            paired[:5] *= 1.6
        return {
            "name": name,
            "samples_s": [1e-3] * 15,
            "paired": [[1e-3 * value, 1e-3] for value in paired],
        }

    tables = {"ALiBi [1]": [row("ours, out=", changed.pop("ALiBi", 2.0))]}
    limit = {"name": "limit: np.copyto", "samples_s": [1e-3] * 15, "paired": []}
    rows = [limit, *(row(name, cost) for name, cost in {**COSTS, **changed}.items())]
    facts = dict(FACTS)
    return {
        "rope": {"environment": facts, "shape": [1, 2, 3, 4], "float32": rows},
        "tables": {"environment": facts, **tables},
        "cost_laws": {},
    }


def names(history, now, earlier):
    return [name for name, *_ in history.grown(now, earlier)]


NUMBA = "ours Numba half, out="


def test_growth_is_named(history):
    earlier = [report(seed) for seed in range(5)]
    for seed in range(5, 25):
        assert names(history, report(seed), earlier) == []
        assert names(history, report(seed, **{NUMBA: 1.4 * 1.05}), earlier) == []
        ((found, now, before),) = history.grown(report(seed, **{NUMBA: 1.4 * 1.3}), earlier)
        assert found == f"float32: {NUMBA}"
        assert 1.4 <= before <= 1.43 < 1.82 <= now <= 1.86
        assert names(history, report(seed, ALiBi=2.6), earlier) == ["ALiBi [1]: ours, out="]


def test_a_candidate_is_not_named_for_values_that_it_had_before(history):
    """A third of the earlier rounds took 1.6 times as long; the median did not show it."""
    earlier = [report(seed, spread=NUMBA) for seed in range(5)]
    assert names(history, report(5, **{NUMBA: 1.4 * 1.4}), earlier) == []
    assert names(history, report(5, **{NUMBA: 1.4 * 1.8}), earlier) == [f"float32: {NUMBA}"]


def test_a_candidate_is_not_named_if_one_earlier_report_was_as_slow(history):
    slow = {NUMBA: 1.4 * 1.4}
    earlier = [*(report(seed) for seed in range(9)), report(9, **slow)]
    assert names(history, report(10, **{NUMBA: 1.4 * 1.45}), earlier) == []
    assert names(history, report(10, **{NUMBA: 1.4 * 1.7}), earlier) == [f"float32: {NUMBA}"]


class Machine:
    """A clock: ``load`` other processes take time slices, and share the memory and the caches."""

    def __init__(self, seed, load):
        self.rng, self.load = np.random.default_rng(seed), load
        self.wall = self.own = self.slow_until = 0.0
        self.slow = 1.0

    def run(self, seconds, memory=0.0):
        seconds *= 1 + memory * self.load
        while seconds > 0:
            if self.wall > self.slow_until:
                self.slow_until = self.wall + self.rng.exponential(0.2 * (1 + self.load))
                self.slow = 1 + 0.1 * self.load * self.rng.random()
            part = min(seconds, 0.003)
            seconds -= part
            self.own += part * self.slow
            self.wall += part * self.slow + self.rng.exponential(0.002 * self.load)

    def perf_counter(self):
        return self.wall

    def process_time(self):
        return self.own


def measured(timing, monkeypatch, seed, load, **changed):
    """A report of a machine with this load."""
    machine = Machine(seed, load)
    monkeypatch.setattr(timing, "time", machine)
    costs = {"limit: fill": 0.002, "ours, out=": 0.06, "ours, fresh": 0.005, **changed}
    group = [
        timing.Candidate(
            name, lambda c=cost, n=name: machine.run(c, memory=0.1 * n.startswith("limit"))
        )
        for name, cost in costs.items()
    ]
    rows = timing.record(timing.measure(group, 9))
    return {
        "rope": {"environment": FACTS, "shape": [1], "float32": rows},
        "tables": {"environment": FACTS},
    }


def test_a_loaded_machine_is_no_change(history, modules, monkeypatch):
    timing = modules[1]
    for first in (0.5, 8.0):
        earlier = [measured(timing, monkeypatch, seed, first + seed / 2) for seed in range(3)]
        for seed in range(3, 9):
            for load in (0.5, 4.0, 10.0):
                now = measured(timing, monkeypatch, seed, load)
                assert history.grown(now, earlier) == []
            now = measured(timing, monkeypatch, seed, first, **{"ours, out=": 0.11})
            assert names(history, now, earlier) == ["float32: ours, out="]


@pytest.mark.parametrize("load", [0, 3])
def test_the_limit_runs_right_after_each_candidate_and_for_as_long(modules, load, monkeypatch):
    timing = modules[1]
    machine, ran = Machine(0, load), []
    machine.slow_until = np.inf  # other processes take time slices only
    monkeypatch.setattr(timing, "time", machine)

    def candidate(name, seconds):
        def call():
            ran.append(name)
            machine.run(seconds)

        return timing.Candidate(name, call)

    group = {
        "limit: fill": 0.01, "limit: fresh fill": 0.02, "ours, out=": 0.1, "ours, fresh": 0.08,
        "ours, out=, 2 threads": 0.1, "other": 0.1,
    }  # fmt: skip
    found = timing.measure([candidate(*one) for one in group.items()], 3, warm=0)
    rows = {row["name"]: row["paired"] for row in timing.record(found) if row["paired"]}
    pairs = {name: [own / limit for own, limit in paired] for name, paired in rows.items()}
    assert list(pairs) == ["ours, out=", "ours, fresh"]
    np.testing.assert_array_equal(np.round(pairs["ours, out="], 6), 10)
    np.testing.assert_array_equal(np.round(pairs["ours, fresh"], 6), 4)
    if load:
        return
    text = " ".join(ran)
    assert text.count("ours, out= ours, out= " + "limit: fill " * 11) == 3
    assert text.count("ours, fresh ours, fresh " + "limit: fresh fill " * 5) == 3


def test_reports_of_the_same_measurement_are_kept_and_compared(history, tmp_path):
    texts = [history.section(report(seed), tmp_path) for seed in range(4)]
    assert "0 earlier reports of this measurement: at least 3 are needed" in texts[0]
    assert "1 earlier report of this measurement: at least 3 are needed" in texts[1]
    assert "Nothing, in comparison with 3 reports (load 1.5, 1.5, 1.5; now 1.5)" in texts[3]
    slow = {"ours NumPy half, out=": 4.5}
    once = history.section(report(3, **slow), tmp_path)
    assert "Nothing, in comparison with 4 reports" in once  # a run may be slower by chance
    assert "Nothing, in comparison with 5 reports" in history.section(report(5), tmp_path)
    for path in sorted(tmp_path.iterdir())[-2:]:
        path.unlink()
    history.section(report(3, **slow), tmp_path)
    text = history.section(report(5, **slow), tmp_path)
    assert "In comparison with 5 reports (load 1.5, 1.5, 1.5, 1.5, 1.5; now 1.5):" in text
    assert "| float32: ours NumPy half, out= |" in text
    for change in (
        lambda one: one["rope"]["environment"].update(cpu="b"),
        lambda one: one["rope"].update(shape=[1, 2, 3, 8]),
        lambda one: one["tables"].update({"ALiBi [2]": one["tables"].pop("ALiBi [1]")}),
        lambda one: one["rope"]["float32"][0].update(samples_s=[1e-3] * 5),
    ):
        other = report(4, **slow)
        change(other)
        assert "0 earlier reports" in history.section(other, tmp_path)
    for seed in range(12):
        history.section(report(seed), tmp_path)
    kept = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(tmp_path.iterdir())]
    same = [one for one in kept if history.measurement(one) == history.measurement(report(0))]
    assert same == [report(seed) for seed in range(2, 12)]
    assert len(kept) == len(same) + 4  # those of other measurements stay


def test_other_files_in_the_folder_are_left_alone(history, tmp_path):
    others = {
        "1000.json": json.dumps(report(0)),
        "notes.txt": "mine",
        "20300101T000000000000Z.json": '{"rope"',
        "20200101T000000000000Z.json": "{}",
        "20200102T000000000000Z.json": "[1]",
        "20200103T000000000000Z.json": json.dumps({"rope": {"environment": [], "float32": []}}),
    }
    old = report(0)
    for row in old["rope"]["float32"]:
        del row["paired"]
    others["20200104T000000000000Z.json"] = json.dumps(old)
    for name, text in others.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    texts = [history.section(report(seed), tmp_path) for seed in range(12)]
    assert [text.split()[4] for text in texts[:2]] == ["0", "1"]
    assert "Nothing, in comparison with 10 reports" in texts[-1]
    for name, text in others.items():
        assert (tmp_path / name).read_text(encoding="utf-8") == text
    assert len(list(tmp_path.iterdir())) == len(others) + history.KEPT


def test_a_row_named_after_numba_measures_numba(modules, monkeypatch):
    pytest.importorskip("numba", reason="Numba's loop is what is tried")
    *_, tables, ways = modules
    for module, name in ((numba_loops, "LEAST"), (numpy_rotary, "_COMPILED")):
        monkeypatch.setattr(module, name, getattr(module, name))  # set back after this test
    fast, out = fused(pr.ALiBi(2)), np.empty((2, 64, 64), np.float32)
    calls = partial(fast, 64, 64, out=out), partial(fast, 64, 64, dtype=np.float32)
    alone = ["ours NumPy alone, out=", "ours NumPy alone, fresh"]
    assert [c.name for c in tables.both_ways(*calls)] == alone
    monkeypatch.setattr(ways, "_USUAL", (1, 1))
    found = tables.both_ways(*calls)
    assert [c.name for c in found] == ["ours with Numba, out=", *alone]  # a view has no loop
