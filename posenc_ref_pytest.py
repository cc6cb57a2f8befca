"""The pytest plugin of posenc-ref: a line in the summary, and ``--posenc-ndjson FILE``.

pytest imports it in every run, so it lies outside the package: importing ``posenc_ref`` takes a
hundred times as long.  Nothing else is imported before a test judges a function.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from typing import Any

import pytest

#: Reports of the test that runs, each with its duration and the id of its check.
_pending: list[tuple[Any, float, str]] = []
#: The attribute of pytest's test reports that takes them from the workers of pytest-xdist.
_ATTRIBUTE = "posenc_ref"
_WORDS = {
    "conforms": "conforming",
    "expected": "deviating as expected",
    "unexpected": "conforming although a deviation is expected",
    "deviates": "deviating",
    "inconclusive": "inconclusive",
    "error": "in error",
}


def judged(report: Any, seconds: float, part: str) -> None:
    """Take a report from ``assert_conforms`` or ``parametrize_with_conformance``."""
    _pending.append((report, seconds, part))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("posenc-ref").addoption(
        "--posenc-ndjson",
        metavar="FILE",
        help="write the reports of all judged functions to FILE, for `posenc report`",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect the reports of this run; workers of pytest-xdist send theirs to the main process."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Session(config), "posenc_ref_session")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Attach the reports made in this phase of a test to pytest's report of it."""
    outcome = yield
    if _pending:
        from posenc_ref.conformance.surveys.batch import Checked

        cases = [
            Checked.of(item.nodeid.removesuffix(f"[{part}]"), report, seconds).to_json()
            for report, seconds, part in _pending
        ]
        _pending.clear()
        setattr(outcome.get_result(), _ATTRIBUTE, cases)


class _Session:
    """The functions judged in a run of pytest."""

    def __init__(self, config: pytest.Config) -> None:
        self._path = config.getoption("posenc_ndjson")
        self._verdicts: Counter[str] = Counter()
        self._cases: list[Any] = []
        self._seen: set[str] = set()
        self._stack = ExitStack()
        self._file: Any = None
        self._begin = time.perf_counter()

    def pytest_sessionstart(self) -> None:
        """Write the header of the file, so that an interrupted run leaves no older file."""
        if self._path is not None:
            from pathlib import Path

            from posenc_ref.conformance.surveys.ndjson_writer import recording

            try:
                file = recording(Path(self._path), "ci", source="pytest", select=None)
                self._file = self._stack.enter_context(file)
            except OSError as error:
                raise pytest.UsageError(f"--posenc-ndjson: {error}") from None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count, and write, the functions that a test judged."""
        for case in getattr(report, _ATTRIBUTE, ()):
            known = repr({key: value for key, value in case.items() if key != "seconds"})
            if known in self._seen:  # workers that share the checks of a function all judge it
                continue
            self._seen.add(known)
            self._verdicts[case["verdict"]] += 1
            if self._file is not None:
                from posenc_ref.conformance.surveys.recorded_result import case_of

                self._cases.append(case_of(case))
                self._file.case(self._cases[-1])

    def pytest_sessionfinish(self) -> None:
        """Write the footer of the file."""
        if self._file is not None:
            from posenc_ref.conformance.surveys.batch import Batch

            self._file.batch(Batch(self._cases, time.perf_counter() - self._begin))
            self._stack.close()

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say how many functions were judged, and how."""
        if self._verdicts:
            from importlib.metadata import version

            counts = ", ".join(
                f"{self._verdicts[v]} {_WORDS[v]}" for v in _WORDS if self._verdicts[v]
            )
            terminalreporter.write_line(f"posenc-ref {version('posenc-ref')}: {counts}")
            if self._path is not None:
                terminalreporter.write_line(f"posenc-ref: reports in {self._path}")
