"""tools/mutate.py: what is drawn, which tests run, and what counts as killed."""

import ast
import importlib.util
import os
import sys
import time
from types import SimpleNamespace

import pytest

from tools.mutation import draw, page, work
from tools.mutation.draw import Mutant, spans_left_out
from tools.mutation.lines import Map, statement
from tools.mutation.results import Results
from tools.mutation.swap import functions, reload, swap

MUTANT = Mutant("conformance/sequences/call.py", 5, "core/NumberReplacer", 0, "x = 1", "x = 2")


def test_annotations_messages_and_exports_are_left_out():
    source = """\
__all__ = ["a" + "b"]
if TYPE_CHECKING:
    c = 1 + 1
def f(n: 1 + 1 = 2) -> 3 + 3:
    if n > 4:
        raise ValueError(f"{n + 1}", 5)
    return f"{n + 6}" + g(7)
"""
    spans = list(spans_left_out(ast.parse(source)))
    left = [
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant)
        and not any(a <= (node.lineno, node.col_offset) < b for a, b in spans)
    ]
    assert left == [2, 4, 7]


@pytest.mark.parametrize(
    ("line", "expected"), [(1, (1, 2)), (2, (1, 2)), (3, (3, 4)), (5, (5, 7)), (9, (8, 9))]
)
def test_the_statement_at_a_line(line, expected):
    source = "z = (\n1)\ndef f(a,\n  b):\n x = [\n1,\n2]\n if (a or\n  b):\n  y = 3\n"
    assert statement(ast.parse(source), line) == expected


def loaded(folder, source):
    path = folder / "mutated.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("mutated", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SOURCE = """\
import functools
A = 1
def f(x=2):
    return [(lambda y: y + 3)(x) for _ in range(1)][0]
def outer():
    def inner(x):
        return x * 5
    return inner
times = outer()
class C:
    B = 6
    @functools.lru_cache
    def method(self):
        return 7
c = C()
"""


@pytest.mark.parametrize(
    ("old", "new", "call", "before", "after"),
    [
        ("y + 3", "y - 3", lambda m: m.f(), 5, -1),
        ("x * 5", "x / 5", lambda m: m.times(10), 50, 2),
        ("x * 5", "x / 5", lambda m: m.outer()(10), 50, 2),
        ("return 7", "return 8", lambda m: m.c.method(), 7, 8),
    ],
    ids=["lambda", "closure made before", "closure made after", "method"],
)
def test_a_function_gets_the_code_of_the_mutant(tmp_path, old, new, call, before, after):
    module = loaded(tmp_path, SOURCE)
    if "7" not in old:  # the method's result is kept, once it was called
        assert call(module) == before
    assert swap(functions(), module.__file__, SOURCE, SOURCE.replace(old, new))
    assert call(module) == after


def test_a_mutant_may_compare_a_literal_by_identity(tmp_path):
    module = loaded(tmp_path, SOURCE)
    changed = SOURCE.replace("return 7", "return 7 is not 8")
    assert swap(functions(), module.__file__, SOURCE, changed)
    assert module.c.method() is True


def test_of_lines_that_read_the_same_the_nearest_is_mutated_again(tmp_path, monkeypatch):
    path = tmp_path / MUTANT.module
    path.parent.mkdir(parents=True)
    path.write_text("x = 1\n\nx = 1\n\n\nx = 1\n", encoding="utf-8")
    places = {(1, 4): [("core/NumberReplacer", 0)], (3, 4): [("core/NumberReplacer", 1)],
              (6, 4): [("core/NumberReplacer", 2)]}  # fmt: skip
    monkeypatch.setattr(draw, "mutants_of", lambda path: places)

    def mutated(source, operator, occurrence):
        parts = source.split("x = 1")
        return (
            "x = 1".join(parts[: occurrence + 1]) + "x = 2" + "x = 1".join(parts[occurrence + 1 :])
        )

    monkeypatch.setattr(draw, "mutated", mutated)
    found = draw.again(tmp_path, MUTANT)
    assert (found.line, found.occurrence) == (6, 2)


def test_the_time_of_other_programs_is_not_that_of_the_tests(monkeypatch):
    clock, said, ran = iter([10.0, 10.5, 12.5]), [], []
    monkeypatch.setattr(work, "cpu", lambda: next(clock))
    config = SimpleNamespace(
        pluginmanager=SimpleNamespace(register=lambda plugin: None),
        hook=SimpleNamespace(pytest_runtest_protocol=lambda item, nextitem: ran.append(item)),
    )
    items = [SimpleNamespace(nodeid=name, config=config) for name in "abc"]
    work.run_items(items, 2.0, lambda **words: said.append(words))
    assert [item.nodeid for item in ran] == ["a", "b"]
    assert said == [{"running": "a", "ran": 1}, {"running": "b", "ran": 2}]


@pytest.mark.parametrize(
    ("old", "new"),
    [("A = 1", "A = 2"), ("x=2", "x=3"), ("B = 6", "B = 7"), ("    @functools.lru_cache\n", "")],
    ids=["constant", "default", "class", "decorator"],
)
def test_what_an_import_does_is_not_swapped(tmp_path, old, new):
    module = loaded(tmp_path, SOURCE)
    assert not swap(functions(), module.__file__, SOURCE, SOURCE.replace(old, new))
    assert (module.A, module.f(), module.C.B) == (1, 5, 6)


def test_a_module_that_is_imported_again_gives_its_constants_to_old_functions(
    tmp_path, monkeypatch
):
    source = "A = 1\ndef f():\n    return A\n"
    module = loaded(tmp_path, source)
    old = module.f
    reload("mutated", "1 / 0")  # no module of this name has been imported
    monkeypatch.setitem(sys.modules, "mutated", module)
    reload("mutated", source.replace("1", "2"))
    assert (old(), module.f()) == (2, 2)


class Known(Map):
    """A map without files."""

    def __init__(self, seconds, lines):
        self.seconds, self.known = seconds, lines

    def lines(self, module):
        """Return what is known of every module."""
        return self.known


MINE = "tests/conformance/sequences/test_calls.py::"
VERDICT = "tests/conformance/test_corpus.py::test_c"
SECONDS = {
    f"{MINE}test_a[1]": 2.0, f"{MINE}test_a[2]": 3.0, f"{MINE}test_b": 5.0,
    "tests/x.py::test_near": 0.1, "tests/x.py::test_here": 1.0, VERDICT: 4.0,
    f"{MINE}test_slow": 90.0,
}  # fmt: skip


def test_tests_that_run_the_line_come_first_and_their_time_is_bounded():
    here = {"tests/x.py::test_here", VERDICT, *(n for n in SECONDS if n.startswith(MINE))}
    known = Known(SECONDS, {1: {""}, 5: here, 9: {"tests/x.py::test_near", "tests/gone.py::t"}})
    tests = known.tests(MUTANT.module, "\n" * 4 + "x = 1\n", 5, 60)
    names = [f"{MINE}test_a[1]", f"{MINE}test_b", f"{MINE}test_a[2]"]
    assert tests.names == [
        *names, VERDICT, "tests/x.py::test_here", "tests/x.py::test_near"
    ]  # fmt: skip
    assert (tests.nightly, tests.at_import) == ([], False)
    assert known.tests(MUTANT.module, "\n" * 4 + "x = 1\n", 5, 3).names == [
        f"{MINE}test_a[1]", "tests/x.py::test_here"
    ]  # fmt: skip


def test_a_line_that_no_test_runs_gets_the_nightly_tests_of_its_folder():
    known = Known(SECONDS, {1: {""}, 9: {"tests/x.py::test_near"}})
    tests = known.tests(MUTANT.module, "\n" * 4 + "x = 1\n", 5, 60)
    assert tests.names == ["tests/x.py::test_near"]
    assert tests.nightly == ["tests/conformance/sequences/"]
    assert known.tests(MUTANT.module, "x = 1\n", 1, 60).at_import


@pytest.fixture
def worker(tmp_path, monkeypatch):
    """A worker on a copy that holds the mutant's module only."""
    monkeypatch.setattr(work, "mutated", lambda source, *_: source.replace("x = 1", "x = 2"))
    module = tmp_path / MUTANT.module
    module.parent.mkdir(parents=True)
    module.write_text("\n" * 4 + "x = 1\n", encoding="utf-8")
    known = Known(SECONDS, {5: {f"{MINE}test_a[1]", f"{MINE}test_b"}})
    return work.Worker(tmp_path, known, 60, tmp_path / "log")


def judged(worker, fails, in_bare=False, **said):
    """Judge MUTANT; ``fails(name, is_mutated)`` says which tests fail."""
    path = worker.copy / MUTANT.module

    def run(names, nightly):
        is_mutated = "x = 2" in path.read_text(encoding="utf-8")
        names = [name for name in names if name not in worker.broken]
        return {"killer": next((name for name in names if fails(name, is_mutated)), None), **said}

    said = worker.judge(MUTANT, run, in_bare)
    assert "x = 1" in path.read_text(encoding="utf-8")
    return said["outcome"], said["killer"]


def test_a_mutant_that_a_test_rejects_is_killed(worker):
    assert judged(worker, lambda name, bad: bad) == ("killed", f"{MINE}test_a[1]")
    assert judged(worker, lambda name, bad: False) == ("survived", None)


def test_a_test_that_fails_without_the_mutant_kills_nothing(worker):
    assert judged(worker, lambda name, bad: "test_a" in name) == ("survived", None)
    assert worker.broken == {f"{MINE}test_a[1]"}
    assert judged(worker, lambda name, bad: bad or "test_a" in name) == ("killed", f"{MINE}test_b")


def test_a_survivor_of_a_line_that_imports_run_is_judged_again(worker):
    worker.map.known[5].add("")
    assert judged(worker, lambda name, bad: False) == ("import", None)
    assert judged(worker, lambda name, bad: False, in_bare=True) == ("survived", None)


def test_a_module_imported_again_decides_only_if_its_tests_pass_without_the_mutant(worker):
    assert judged(worker, lambda name, bad: bad, reloaded=True)[0] == "killed"
    assert judged(worker, lambda name, bad: False, reloaded=True)[0] == "import"
    assert judged(worker, lambda name, bad: "test_b" in name, reloaded=True)[0] == "import"
    assert worker.broken == set()


def sleep(say):
    say(running="slow")
    time.sleep(60)


def end(say):
    say(running="exits")
    os._exit(0)


# Another test of this process may have imported JAX, which warns about every fork. These forks run
# only the few lines of an action and end without JAX.
@pytest.mark.filterwarnings(r"ignore:os.fork\(\) was called:RuntimeWarning")
@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (lambda say: say(ran=3), {"ran": 3, "done": True}),
        (sleep, {"running": "slow", "killer": "slow", "hung": True}),
        (end, {"running": "exits", "killer": "exits", "hung": False}),
        (lambda say: 1 / 0, {"killer": "imports", "hung": False}),
    ],
    ids=["ends", "hangs", "exits", "raises"],
)
def test_a_fork_that_does_not_end_well_is_a_failure(worker, action, expected):
    assert worker.fork(action, 1.5 if action is sleep else 30) == expected


def test_the_page_counts_and_explains(tmp_path, monkeypatch):
    listed = tmp_path / "survivors.json"
    row = '[{"module": "%s", "old": "x = 1", "new": "x = 2", "kind": "words", "why": "A title."}]'
    listed.write_text(row % MUTANT.module, encoding="utf-8")
    monkeypatch.setattr(page, "REASONS", listed)
    first, again = Results(tmp_path / "first"), Results(tmp_path / "again")
    others = [Mutant(MUTANT.module, n, "o", n, f"a{n}", f"b{n}") for n in (1, 2, 3)]
    for mutant, outcome in zip([MUTANT, *others], ["survived"] * 3 + ["killed"], strict=True):
        first.add(mutant, {"outcome": outcome, "seconds": 2.0})
    for mutant, outcome in zip([MUTANT, others[0]], ["survived", "survived"], strict=True):
        again.add(mutant, {"outcome": outcome, "seconds": 2.0})
    text = page.page("Today.", first, again)
    assert "| `conformance/sequences/` | 4 | 1 | 2 | 2 | 1 |" in text
    assert "50.0% are killed; 75.0% are killed or explained" in text
    assert "`conformance/sequences/call.py:5 | `x = 1` | `x = 2` | A title. |".lstrip("`") in text
    assert "1 survivor: not explained yet" in text
    assert "| `conformance/sequences/` | 4 | 1 | 1 | 3 | 2 |" in page.page("Today.", first)
