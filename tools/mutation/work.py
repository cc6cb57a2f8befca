"""Judge mutants in forks of one process: in one that has collected all tests, or in a bare one.

The first fork of ``work`` collects the tests once. For each mutant it forks again, swaps the
mutant's functions in (swap.py) and runs its tests until one fails. What an import must change is
judged afterwards, in forks of the process that has imported other libraries only. The mutated file
is on disk meanwhile, for the processes that tests start.

A test that fails counts if it passes without the mutant, alone, in a fork of the same kind.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tools.mutation.draw import Mutant, mutated
from tools.mutation.lines import IGNORED, Map
from tools.mutation.results import Results
from tools.mutation.swap import functions, reload, swap

#: Seconds after which a test hangs.
HANGS = 300
#: Seconds that imports and collection may take in a fork that does both.
IMPORTS = 240
#: The most test files that such a fork collects.
FILES = 12


class Worker:
    """Judges mutants on a copy of the repository."""

    def __init__(self, copy: Path, known: Map, seconds: float, log: Path) -> None:
        self.copy, self.map, self.seconds, self.log = copy, known, seconds, log
        self.broken: set[str] = set()  # tests that fail without a mutant
        self.passed: set[tuple[str, str]] = set()  # (kind of fork, test) without a mutant

    def judge(
        self, mutant: Mutant, run: Callable[[list[str], list[str]], dict[str, Any]], in_bare: bool
    ) -> dict[str, Any]:
        """Return the outcome of a mutant: killed, survived or import (only a bare fork can say)."""
        path, begin = self.copy / mutant.module, time.monotonic()
        source, times = path.read_text(encoding="utf-8"), path.stat()
        text = mutated(source, mutant.operator, mutant.occurrence)
        assert text is not None, mutant
        killer = None
        while True:
            tests = self.map.tests(mutant.module, source, mutant.line, self.seconds)
            try:
                path.write_text(text, encoding="utf-8")
                os.utime(path, (times.st_mtime + 3600, times.st_mtime + 3600))
                said = run(tests.names, tests.nightly)
            finally:
                path.write_text(source, encoding="utf-8")
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            killer = said.get("killer")
            kind = "bare" if in_bare else mutant.module if said.get("reloaded") else "swapped"
            if killer is None or (kind, killer) in self.passed:
                break
            first = [killer] if killer != "imports" else tests.names[: None if in_bare else 1]
            if run(first, []).get("killer") != killer:
                self.passed |= {(kind, killer)} - {(kind, "imports")}
                break
            if said.get("reloaded"):
                killer = None
                break
            if killer == "imports":
                raise RuntimeError(f"{tests.names[:12]} fail without a mutant, see {self.log}")
            self.broken.add(killer)
        undecided = said.get("reloaded") or (tests.at_import and not in_bare)
        survived = "import" if undecided else "survived"
        return {
            "outcome": "killed" if killer else survived,
            "killer": killer,
            "hung": said.get("hung", False),
            "executed": not tests.nightly,
            "ran": said.get("ran", 0),
            "seconds": round(time.monotonic() - begin, 1),
        }

    def chosen(
        self, items: dict[str, pytest.Item], names: list[str], folders: list[str]
    ) -> list[pytest.Item]:
        """Return the named tests, and the nightly tests of these folders."""
        nightly = [
            name
            for name, item in items.items()
            if name.startswith(tuple(folders)) and item.get_closest_marker("nightly")
        ]
        return [
            items[name] for name in [*names, *nightly] if name in items and name not in self.broken
        ]

    def fork(self, action: Callable[[Callable[..., None]], None], seconds: float) -> dict[str, Any]:
        """Run ``action(say)`` in a fork; return what it said last, of each kind of word.

        The fork is ended when it has said nothing for so many seconds.
        """
        said_to = self.log.with_suffix(".said")
        said_to.write_text("", encoding="utf-8")
        child = os.fork()
        if child == 0:
            self._child(action, said_to)
        hung, latest, size = True, time.monotonic(), 0
        while hung and time.monotonic() < latest + seconds:
            hung = not os.waitpid(child, os.WNOHANG)[0]
            if said_to.stat().st_size != size:  # another test has begun
                latest, size = time.monotonic(), said_to.stat().st_size
            time.sleep(0.01)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        if hung:
            os.waitpid(child, 0)
        said: dict[str, Any] = {}
        for line in said_to.read_text(encoding="utf-8").splitlines():
            said |= json.loads(line)
        if hung or not said.get("done"):  # what ran last hung, or ended the process
            said |= {"killer": said.get("running", "imports"), "hung": hung}
        return said

    def _child(self, action: Callable[[Callable[..., None]], None], said_to: Path) -> None:
        try:
            os.setsid()
            out = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1)
            os.dup2(out, 2)
            with said_to.open("a", encoding="utf-8", buffering=1) as file:
                action(lambda **words: print(json.dumps(words), file=file))
                print(json.dumps({"done": True}), file=file)
        except BaseException:  # whatever a mutant raises, the fork must end here
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(0)


class Failures:
    """Whether a test failed: a pytest plugin."""

    def __init__(self) -> None:
        self.any = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.any |= report.failed


def cpu() -> float:
    """Return the CPU seconds of this process and of the children that have ended."""
    return sum(os.times()[:4])


def run_items(items: list[pytest.Item], seconds: float, say: Callable[..., None]) -> None:
    """Run tests until one fails or the time is over; say which one failed, and how many ran.

    It is CPU time, so that other programs take none of it.
    """
    if not items:
        return
    manager, end, failures = items[0].config.pluginmanager, cpu() + seconds, Failures()
    manager.register(failures)
    for ran, (item, after) in enumerate(zip(items, [*items[1:], None], strict=True), 1):
        say(running=item.nodeid, ran=ran)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        if failures.any:
            say(killer=item.nodeid)
            return
        if cpu() > end:
            return


class Warm:
    """A pytest plugin: once the tests are collected, judge the mutants instead of running them."""

    def __init__(self, worker: Worker, mutants: list[Mutant], done: Callable[..., None]) -> None:
        self.worker, self.mutants, self.done = worker, mutants, done

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Judge the mutants."""
        import posenc_ref.conformance as package

        assert self.worker.copy in Path(package.__file__ or "").parents, package.__file__
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        items, found = {item.nodeid: item for item in session.items}, functions()
        for mutant in self.mutants:
            in_package = _in_package(mutant.module)
            filename = str(self.worker.copy / in_package)
            source = (self.worker.copy / mutant.module).read_text(encoding="utf-8")
            text = mutated(source, mutant.operator, mutant.occurrence)
            swappable = swap({}, filename, source, text or "")

            def run(
                names: list[str],
                folders: list[str],
                path: Path = self.worker.copy / mutant.module,
                source: str = source,
                filename: str = filename,
                imports: bool = not swappable,
                name: str = in_package[:-3].replace("/", ".").removesuffix(".__init__"),
            ) -> dict[str, Any]:
                text, chosen = path.read_text("utf-8"), self.worker.chosen(items, names, folders)

                def action(say: Callable[..., None]) -> None:
                    if imports:
                        say(reloaded=True)
                        reload(name, text)
                    elif text != source:
                        swap(found, filename, source, text)
                    run_items(chosen, self.worker.seconds, say)

                return self.worker.fork(action, HANGS)

            self.done(mutant, self.worker.judge(mutant, run, in_bare=False))
        return True


class Ordered:
    """A pytest plugin: run these tests in this order."""

    def __init__(self, worker: Worker, names: list[str], folders: list[str], say: Any) -> None:
        self.worker, self.names, self.folders, self.say = worker, names, folders, say

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests; a file that cannot be imported is a failure."""
        if session.testsfailed:
            self.say(killer="imports")
        else:
            items = {item.nodeid: item for item in session.items}
            chosen = self.worker.chosen(items, self.names, self.folders)
            run_items(chosen, self.worker.seconds, self.say)
        return True


def bare(worker: Worker) -> Callable[[list[str], list[str]], dict[str, Any]]:
    """Return a function that runs tests in a fork that imports the package."""

    def run(names: list[str], folders: list[str]) -> dict[str, Any]:
        files = list(dict.fromkeys(name.partition("::")[0] for name in names))[:FILES]
        files += [name for name in folders if (worker.copy / name).is_dir()]

        def action(say: Callable[..., None]) -> None:
            if files and collect(worker, Ordered(worker, names, folders, say), files) > 1:
                say(killer="imports")

        return worker.fork(action, HANGS + IMPORTS)

    return run


def collect(worker: Worker, plugin: object, arguments: list[str]) -> int:
    """Collect these tests, the nightly ones as well, and leave them to the plugin."""
    options = ["-n", "0", "-q", "-s", "-m", "", "-p", "no:cacheprovider"]
    options += [f"--basetemp={worker.log.with_suffix('.tmp')}", "-Wignore::pytest.PytestWarning"]
    return int(pytest.main([*options, *arguments], plugins=[plugin]))


def work(worker: Worker, results: Results, mutants: list[Mutant]) -> None:
    """Judge mutants and add their outcomes to the results."""
    os.chdir(worker.copy)
    sys.path.insert(0, str(worker.copy))
    os.environ["PYTHONPATH"] = str(worker.copy)
    import hypothesis  # noqa: F401  (loaded once, for all forks)
    import ml_dtypes  # noqa: F401
    import mpmath  # noqa: F401
    import torch  # noqa: F401

    new = [mutant for mutant in mutants if mutant not in results.read()]
    if new:
        child = os.fork()
        if child == 0:
            plugin = Warm(worker, new, results.add)
            ignored = [f"--ignore={name}" for name in IGNORED]
            os._exit(collect(worker, plugin, ignored))
        if os.waitpid(child, 0)[1]:
            raise SystemExit("the process that collects all tests failed: see above")
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    run = bare(worker)
    for mutant in mutants:
        if results.read()[mutant]["outcome"] == "import":
            results.add(mutant, worker.judge(mutant, run, in_bare=True))


def _in_package(module: str) -> str:
    return module if module.startswith("posenc_ref/") else f"posenc_ref/{module}"
