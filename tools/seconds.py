"""Measure the processor time of the tests: python tools/seconds.py [PATH ...].

It runs all tests that no file marks nightly, or those in PATH, in one process, which takes half an
hour, and writes the tests of functions that take long to tests/seconds.csv. From this file
tests/night.py chooses what a pull request runs.
"""

import argparse
import resource
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests import night  # noqa: E402


def processor_time():
    """Return the seconds that this process and its ended children have computed."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


class Recorder:
    """A plugin of pytest that measures every test, without fixtures that it shares with others."""

    def __init__(self):
        self.seconds = {}
        self.shared = 0.0  #: the time of shared fixtures, which another test would set up instead

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        """Measure one test."""
        begin, self.shared = processor_time(), 0.0
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = processor_time() - begin - self.shared

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef):
        """Measure a fixture that several tests share."""
        begin = processor_time()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self.shared += processor_time() - begin


def merged(before, measured):
    """Return the old times of the functions that were not measured now, and the new times."""
    again = {night.function(test) for test in measured}
    return {t: s for t, s in before.items() if night.function(t) not in again} | measured


def main():
    """Run the tests and write their processor times."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="files, folders or ids; default: all"
    )
    paths = parser.parse_args().paths
    night.tests_by_night = frozenset  # what it leaves out has to be measured as well
    recorder = Recorder()
    code = pytest.main(["-q", "-n", "0", *paths], plugins=[recorder])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        sys.exit(f"nothing was written, because pytest ended with {code!r}")
    night.write(merged(night.read() if paths else {}, recorder.seconds))


if __name__ == "__main__":
    main()
