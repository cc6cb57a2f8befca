"""The tests of a pull request are the cheapest cases of every test function."""

import ast
from pathlib import Path
from types import SimpleNamespace

from tests import night
from tests.tool import tool

TOOL = tool("seconds")
ROOT = Path(__file__).resolve().parents[1]


def tenths(number):
    """Return a processor time in tenths of what a function may take by day."""
    return number * night.SECONDS / 10


SHORT = {f"tests/test_a.py::test_short[{n}]": tenths(1) for n in range(7)}
LONG = {f"tests/test_a.py::test_long[{n}]": tenths(n) for n in (6, 1, 5, 2)}
ALONE = {"tests/test_a.py::A::test_alone": tenths(11)}
FIRST = {"tests/test_a.py::test_first[1]": tenths(9), "tests/test_a.py::test_first[2]": tenths(11)}


def test_the_cheapest_cases_run_by_day_until_the_time_is_used():
    functions = night.longer(SHORT | LONG | ALONE | FIRST)
    names = ("A::test_alone", "test_first", "test_long")
    assert [*functions] == [f"tests/test_a.py::{name}" for name in names]
    left_out = {"tests/test_a.py::test_long[6]", "tests/test_a.py::test_first[2]", *ALONE}
    assert night.by_night(functions) == left_out


def test_the_file_comes_back_as_it_was_written(tmp_path, monkeypatch):
    monkeypatch.setattr(night, "MEASURED", tmp_path / "seconds.csv")
    strange = {'tests/test_a.py::test_strange[a, "b"[0]-\\u274c]': tenths(20)}
    night.write(SHORT | LONG | strange)
    assert night.read() == {test: round(cost, 2) for test, cost in (LONG | strange).items()}


def test_every_measured_function_exists():
    functions = night.longer(night.read())
    trees = {name.partition("::")[0] for name in functions}
    defined = {
        (path, node.name)
        for path in trees
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    gone = [n for n in functions if (n.partition("::")[0], n.rpartition("::")[2]) not in defined]
    assert gone == [], "remove these from tests/seconds.csv and run tools/seconds.py on their files"


def test_no_test_of_the_night_runs_by_day(request):
    """With ``-m ""`` all run; here only that the mark is set counts."""
    unmarked = [
        item.nodeid
        for item in request.session.items
        if item.nodeid in night.tests_by_night()
        and not (item.get_closest_marker("nightly") or item.get_closest_marker("day"))
    ]
    assert unmarked == []


def test_times_of_functions_that_are_measured_again_are_replaced():
    again = {"tests/test_a.py::test_long[6]": 0.6}
    assert TOOL.merged(LONG | ALONE, again) == ALONE | again


def compute(seconds):
    begin = TOOL.processor_time()
    while TOOL.processor_time() < begin + seconds:
        pass


def test_the_processor_time_of_a_test_is_measured_without_shared_fixtures():
    recorder = TOOL.Recorder()
    item = SimpleNamespace(nodeid="tests/test_a.py::test_it")
    run = recorder.pytest_runtest_protocol(item, None)
    next(run)
    for scope, seconds in (("function", 0.05), ("module", 0.2)):
        setup = recorder.pytest_fixture_setup(SimpleNamespace(scope=scope))
        next(setup)
        compute(seconds)
        setup.close()
    compute(0.05)
    run.close()
    assert recorder.shared >= 0.2
    assert recorder.seconds[item.nodeid] >= 0.1
    assert recorder.seconds[item.nodeid] < 0.2  # 0.3 s in all
