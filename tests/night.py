"""Which tests a pull request runs; .ci/nightly runs all."""

import csv
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

#: The processor time that the cases of one test function may take together in a pull request.
SECONDS = 0.5
#: The processor time of the cases of longer functions in seconds, measured by tools/seconds.py.
MEASURED = Path(__file__).with_name("seconds.csv")


def by_day(cases: Iterable[Any], day: Collection[Any]) -> list[Any]:
    """Return ``cases`` for ``parametrize``: those that are not in ``day`` are marked nightly."""
    night = pytest.mark.nightly
    return [case if case in day else pytest.param(case, marks=night) for case in cases]


def longer(seconds: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return the cases of every function that takes more than SECONDS, the cheapest first.

    ``seconds`` maps the id of a test to its processor time.
    """
    functions: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for test in sorted(seconds, key=lambda test: (seconds[test], test)):
        functions[function(test)][test] = seconds[test]
    return {name: functions[name] for name in sorted(functions)
            if sum(functions[name].values()) > SECONDS}  # fmt: skip


def by_night(functions: Mapping[str, Mapping[str, float]]) -> set[str]:
    """Return the tests that do not fit: the cheapest cases of a function run by day.

    A function whose cheapest case takes more than SECONDS runs by night only.
    """
    night = set()
    for cases in functions.values():
        for test, total in zip(cases, accumulate(cases.values()), strict=True):
            if total > SECONDS:
                night.add(test)
    return night


def function(test: str) -> str:
    """Return the id of the function of a test, which is that of the test without its parameters."""
    file, _, name = test.partition("::")
    return f"{file}::{name.partition('[')[0]}"


def write(seconds: Mapping[str, float]) -> None:
    """Write the processor times of the functions that take long."""
    with MEASURED.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["test", "seconds"])
        for cases in longer(seconds).values():
            out.writerows([test, f"{cost:.2f}"] for test, cost in cases.items())


def read() -> dict[str, float]:
    """Return the processor times in the file."""
    with MEASURED.open(newline="", encoding="utf-8") as file:
        return {row["test"]: float(row["seconds"]) for row in csv.DictReader(file)}


@cache
def tests_by_night() -> frozenset[str]:
    """Return the ids of the tests that take too long for a pull request."""
    return frozenset(by_night(longer(read())))
