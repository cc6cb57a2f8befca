"""Reports as JUnit XML, which GitHub, GitLab, Jenkins and others show as tests.

Each function is a suite and each of its checks a test, as :func:`by_check` lists them; a function
that could not be judged is a suite with one error.  The format has no standard: only elements and
attributes are used that both Jenkins (junit-10.xsd of its xUnit plugin) and Ant (JUnit.xsd by Windy
Road) accept, so the numbers of cases are properties of the suite.  Only on the root is Ant
stricter, which wants no attributes there.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from posenc_ref._text import printable
from posenc_ref.conformance.harness.by_check import EXPECTED, PASSED, SKIPPED, XFAILED, by_check
from posenc_ref.conformance.harness.report import Report
from posenc_ref.conformance.harness.whole import write_whole

from .batch import Checked
from .files import require_own
from .record import versions


@contextmanager
def junit_file(path: Path | None) -> Iterator[list[Checked]]:
    """Yield a list; write the outcomes that it has at the end to a JUnit file.

    The file is written at once, with the error "interrupted", so an interrupted run does not leave
    the file of an earlier one.  After an exception it has its message.  Without ``path`` nothing is
    written.

    Raises
    ------
    FileExistsError
        If the file exists and is no JUnit XML.
    """
    outcomes: list[Checked] = []
    if path is None:
        yield outcomes
        return
    require_own(path, b"<testsuite", "JUnit XML file")
    write_whole(path, junit([Checked.failed("posenc", "the run was interrupted")]))
    try:
        yield outcomes
    except Exception as error:
        write_whole(path, junit([*outcomes, Checked.failed("posenc", str(error))]))
        raise
    write_whole(path, junit(outcomes))


def junit(outcomes: Sequence[Checked]) -> bytes:
    """Return the outcomes as a JUnit document: a suite for each, with a test for each check."""
    root = ET.Element("testsuites", name="posenc")
    for n, one in enumerate(outcomes):
        root.append(_suite(one, n))
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    root.set("time", f"{sum(one.seconds for one in outcomes):.3f}")
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _suite(one: Checked, n: int) -> ET.Element:
    name = _clean(one.name)
    suite = ET.Element("testsuite", name=name, id=str(n), package="posenc", hostname="localhost")
    suite.set("timestamp", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S"))
    properties = ET.SubElement(suite, "properties")
    for key, value in _properties(one).items():
        ET.SubElement(properties, "property", name=_clean(key), value=_clean(value))
    if one.report is None:
        error = ET.SubElement(_test(suite, name, "judged", one.seconds), "error", type="error")
        error.set("message", _clean(one.reason))
        error.text = _clean(one.text)
    else:
        _tests(suite, name, one.report, one.seconds)
    for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(kind, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("time", f"{one.seconds:.3f}")
    ET.SubElement(suite, "system-out").text = _clean(one.text)
    ET.SubElement(suite, "system-err")
    return suite


def _tests(suite: ET.Element, name: str, report: Report, seconds: float) -> None:
    for result in by_check(report):
        # One run judges all checks: its time is that of the first test.
        test = _test(suite, name, result.name, 0.0 if len(suite) > 1 else seconds)
        if result.outcome == PASSED:
            continue
        if result.outcome in (SKIPPED, XFAILED):
            ET.SubElement(test, "skipped", message=_clean(result.title))
            continue
        deviates = bool(result.text) or result.name == EXPECTED
        why = ET.SubElement(test, "failure" if deviates else "error", type=_clean(result.name))
        why.set("message", _clean(result.title))
        why.text = _clean(result.text or result.title)


def _test(suite: ET.Element, classname: str, name: str, seconds: float) -> ET.Element:
    test = ET.SubElement(suite, "testcase", classname=classname, name=_clean(name))
    test.set("time", f"{seconds:.3f}")
    return test


def _properties(one: Checked) -> dict[str, str]:
    facts = {f"version of {name}": value for name, value in versions().items()}
    facts |= {"verdict": one.verdict, "surface": one.surface, "dtype": one.dtype}
    if one.report is not None:
        facts |= {"backend": one.report.backend, "encoding": one.encoding}
        facts |= {f"cases of {check}": str(n) for check, n in one.report.executed.items()}
        if one.report.expected is not None:
            facts["expected deviation"] = str(one.report.expected)
    return facts


def _clean(text: str) -> str:
    """Return a text with unprintable characters escaped, some of which XML forbids."""
    return printable(text)
