import gc
import os
from pathlib import Path

if "PYTEST_XDIST_WORKER" in os.environ:  # before NumPy starts a thread for every core
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import settings

from tests import night

settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# PyTorch, JAX and transformers hold a million objects: Python's default visits them too often.
gc.set_threshold(20_000, 20, 20)

#: A worker that has imported PyTorch, JAX and transformers takes 1.5 GiB of memory.
MOST_WORKERS = 8


def pytest_xdist_auto_num_workers(config):
    """Return a worker for each core, as its imports take long; none for one core or for files."""
    given = [Path(name.partition("::")[0]) for name in config.option.file_or_dir]
    mine = hasattr(os, "sched_getaffinity")  # not on macOS
    cores = len(os.sched_getaffinity(0)) if mine else os.cpu_count()
    if cores == 1 or (given and all(path.is_file() for path in given)):
        return 0
    return min(cores, MOST_WORKERS)


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(items):
    """Mark the tests nightly that take too long for a pull request."""
    for item in items:
        if item.nodeid in night.tests_by_night() and not item.get_closest_marker("day"):
            item.add_marker(pytest.mark.nightly)


@pytest.fixture
def rng():
    """A generator of the test's own: what it draws depends on no other test, order or worker."""
    return np.random.default_rng(2106)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """Forget the encodings that a test defines: no later test finds them by their names."""
    from posenc_ref._registry import CLASSES, classes

    for kind in CLASSES:
        classes(kind)  # an import during the test would be forgotten too
    before = {kind: dict(known) for kind, known in CLASSES.items()}
    try:
        return (yield)
    finally:
        for kind, known in before.items():
            CLASSES[kind].clear()
            CLASSES[kind].update(known)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    return _only_cupy_may_be_skipped(_skipped_without_a_library((yield), call))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    return _only_cupy_may_be_skipped(_skipped_without_a_library(report, report.call))


def _skipped_without_a_library(report, call):
    """Outside CI, skip a test that imports a library which is not installed.

    `tools/versions.py` runs many tests with NumPy alone, others with PyTorch or JAX.
    """
    error = call.excinfo and call.excinfo.value
    while error is not None and not isinstance(error, ModuleNotFoundError):
        error = error.__cause__
    name = (getattr(error, "name", None) or "").partition(".")[0]
    ours = ("", "posenc_ref", "posenc_ref_pytest", "tests", "numpy", "array_api_compat")
    if report.failed and name not in ours and not os.environ.get("CI"):
        report.outcome = "skipped"
        report.longrepr = (report.nodeid.partition("::")[0], None, f"{name} is not installed")
    return report


def _only_cupy_may_be_skipped(report):
    """In CI everything is installed but a GPU: any other skip is a failure in disguise."""
    reason = str(report.longrepr).lower()
    skipped = report.skipped and not hasattr(report, "wasxfail")
    if os.environ.get("CI") and skipped and "cupy" not in reason and "cuda" not in reason:
        report.outcome = "failed"
    return report


def pytest_sessionfinish(session, exitstatus):
    """In CI, a run in which nothing but skipped tests is left has shown nothing."""
    reporter = session.config.pluginmanager.getplugin("terminalreporter")  # a worker has none
    if not os.environ.get("CI") or reporter is None or session.config.option.collectonly:
        return
    if exitstatus == 0 and not any(reporter.stats.get(kind) for kind in ("passed", "xfailed")):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
