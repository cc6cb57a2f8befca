"""Which tests run a line, and how long they take: a pytest plugin that records it, and its reader.

``record`` runs the tests with this plugin. In every process of the run (the workers of xdist, and
the Python processes that tests start), Coverage.py notes the lines of the two packages; its context
is the name of the test. Lines that run while modules are imported or tests are collected have the
context "".
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest

#: The folders whose lines are recorded and mutated.
PACKAGES = ("posenc_ref", "conformance")
#: Tests that judge no mutant: they read sources and documents, build packages, run for a given time
#: on inputs of their own, or test backends/ (JAX hangs in the forks in which mutants are judged).
IGNORED = (
    "tests/lint",
    "tests/fuzz",
    "tests/backends",
    "tests/test_packaging.py",
    "tests/test_transcripts.py",
)
#: Tests that judge many right and wrong implementations of every surface.
VERDICTS = tuple(f"tests/conformance/test_{name}.py" for name in ("corpus", "verdicts", "kills"))
#: Where ``record`` writes, for the plugin; and the test that runs, for the processes it starts.
FOLDER, TEST = "POSENC_MUTATION_MAP", "POSENC_MUTATION_TEST"
SETTINGS = """\
[run]
data_file = {folder}/lines
parallel = true
patch = _exit
context = ${{POSENC_MUTATION_TEST-}}
source =
    {root}/posenc_ref
    {root}/conformance
disable_warnings = no-data-collected, module-not-imported, module-not-measured, couldnt-parse
"""


def record(root: Path, folder: Path, arguments: list[str]) -> int:
    """Run the tests of ``root`` and write their lines and seconds to ``folder``."""
    folder.mkdir(parents=True)
    settings = folder / "settings.ini"
    settings.write_text(SETTINGS.format(folder=folder, root=root), encoding="utf-8")
    ignored = [f"--ignore={name}" for name in IGNORED]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tools.mutation.lines", *ignored]
    env = os.environ | {FOLDER: str(folder)}
    done = subprocess.run([*command, *arguments], cwd=root, env=env, check=False)
    combine = [sys.executable, "-m", "coverage", "combine", "-q", f"--rcfile={settings}"]
    subprocess.run(combine, cwd=folder, check=True)
    return done.returncode


class Recorder:
    """Notes each test's lines and seconds."""

    def __init__(self, folder: Path) -> None:
        import coverage

        settings = str(folder / "settings.ini")
        os.environ[TEST] = ""
        self.lines = coverage.Coverage(config_file=settings, data_suffix=True)
        os.environ["COVERAGE_PROCESS_START"] = settings  # for processes that a test starts
        self.seconds = (folder / f"seconds-{os.getpid()}.ndjson").open("a", encoding="utf-8")
        self.lines.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.lines.switch_context(item.nodeid)
        os.environ[TEST] = item.nodeid
        begin = time.perf_counter()
        try:
            return (yield)
        finally:
            print(json.dumps([item.nodeid, time.perf_counter() - begin]), file=self.seconds)
            self.lines.switch_context("")
            os.environ[TEST] = ""

    def pytest_unconfigure(self) -> None:
        self.lines.stop()
        self.lines.save()
        self.seconds.close()


def pytest_configure(config: Any) -> None:
    """Record in the process that runs tests: a worker, or the only one."""
    folder = os.environ.get(FOLDER)
    if folder and (hasattr(config, "workerinput") or not config.option.numprocesses):
        config.pluginmanager.register(Recorder(Path(folder)))


@dataclass
class Tests:
    """The tests of one mutant, in the order in which they run."""

    names: list[str]  # node ids
    nightly: list[str]  # folders whose nightly tests run, because no other test runs the line
    at_import: bool  # whether an import or pytest's collection runs the line, too


class Map:
    """What ``record`` wrote, or has written so far."""

    def __init__(self, folder: Path) -> None:
        texts = (path.read_text(encoding="utf-8") for path in folder.glob("seconds-*.ndjson"))
        rows = (json.loads(line) for text in texts for line in text.splitlines())
        self.seconds: dict[str, float] = {
            name: seconds for name, seconds in rows if not name.startswith(IGNORED)
        }
        self.files = sorted(folder.glob("lines*"))

    @cached_property
    def data(self) -> list[Any]:
        """Return the recorded lines: one database, or one of each process while tests run."""
        from coverage import CoverageData

        databases = [CoverageData(str(path)) for path in self.files]
        for database in databases:
            database.read()
        return databases

    @cache  # noqa: B019  (one map a process)
    def lines(self, module: str) -> dict[int, set[str]]:
        """Return the tests that run each line of a module; the test "" is an import."""
        found: dict[int, set[str]] = {}
        for data in self.data:
            for path in data.measured_files():
                if path.endswith(f"/{module}"):
                    for line, names in data.contexts_by_lineno(path).items():
                        found.setdefault(line, set()).update(names)
        return found

    def tests(self, module: str, source: str, line: int, seconds: float) -> Tests:
        """Return tests of so many seconds together, those that run the line before others.

        They are the tests that run the statement, then the tests that run another function of the
        module; of each, the tests of the module's own folder come first, then VERDICTS. The
        cheapest case of every test function comes before a second case of any.
        """
        lines = self.lines(module)
        first, last = statement(ast.parse(source), line)
        here = set().union(*(lines.get(n, ()) for n in range(first, last + 1)))
        near = set().union(*lines.values())
        folder = f"tests/{os.path.dirname(module)}/"
        names: list[str] = []
        for group in (here - {""}, near - here - {""}):
            known = {n for n in group if n in self.seconds}
            for starts in (folder, VERDICTS, ""):
                part = {n for n in known if n.startswith(starts)}
                names += self._spread(part)
                known -= part
        left, chosen = seconds, []
        for name in names:
            if self.seconds[name] <= left:
                left -= self.seconds[name]
                chosen.append(name)
        return Tests(chosen, [] if here else [folder], "" in here)

    def _spread(self, names: Iterable[str]) -> list[str]:
        """Return the tests by seconds, the first case of all test functions before the second."""
        cases: Counter[str] = Counter()
        ranked = []
        for name in sorted(names, key=lambda n: (self.seconds[n], n)):
            function = name.partition("[")[0]
            ranked.append((cases[function], self.seconds[name], name))
            cases[function] += 1
        return [name for _, _, name in sorted(ranked)]


def statement(tree: ast.Module, line: int) -> tuple[int, int]:
    """Return the first and last line of the innermost statement, or of its head, at a line."""
    best = (line, line)
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            inner = getattr(node, "body", None)
            start = getattr(node, "lineno", None) or node.pattern.lineno  # type: ignore
            start = min([start, *(d.lineno for d in getattr(node, "decorator_list", []))])
            end = max(start, inner[0].lineno - 1) if inner else node.end_lineno  # type: ignore
            if start <= line <= end and end - start <= (best[1] - best[0] or 10**9):
                best = (start, end)
    return best
