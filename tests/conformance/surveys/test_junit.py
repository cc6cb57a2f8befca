"""JUnit files follow the rules that their readers share, and say what the reports say."""

import re
import xml.etree.ElementTree as ET

import pytest

from posenc_ref.conformance import ExpectedFailure, Finding, Report
from posenc_ref.conformance.surveys.batch import Checked
from posenc_ref.conformance.surveys.junit import junit, junit_file
from tests.conformance.recorded import right, wrong

#: Attributes of each element, those that are required first, as both junit-10.xsd of Jenkins' xUnit
#: plugin and JUnit.xsd of Windy Road (for Ant) accept them. Ant's schema has none for the root.
ATTRIBUTES = {
    "testsuites": ({"name", "tests", "failures", "errors", "time"}, set()),
    "testsuite": (
        {"name", "tests", "failures", "errors", "time", "timestamp", "hostname", "id", "package"},
        {"skipped"},
    ),
    "properties": (set(), set()),
    "property": ({"name", "value"}, set()),
    "testcase": ({"name", "classname", "time"}, set()),
    "failure": ({"type"}, {"message"}),
    "error": ({"type"}, {"message"}),
    "skipped": (set(), {"message"}),
    "system-out": (set(), set()),
    "system-err": (set(), set()),
}
#: The children of each element, in the order of the schema.
CHILDREN = {
    "testsuites": r"(testsuite )*",
    "testsuite": r"properties (testcase )*system-out system-err ",
    "properties": r"(property )*",
    "testcase": r"(skipped |error |failure )?",
}


def require_valid(document):
    """Fail unless a document follows the rules of a JUnit schema; return its root."""
    root = ET.fromstring(document)
    assert root.tag == "testsuites"
    for element in root.iter():
        required, optional = ATTRIBUTES[element.tag]
        assert required <= set(element.attrib) <= required | optional, element.attrib
        children = "".join(f"{child.tag} " for child in element)
        assert re.fullmatch(CHILDREN.get(element.tag, ""), children), children
    tags = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
    for suite in (root, *root):
        for name, tag in tags.items():
            if name not in suite.attrib:
                continue
            assert int(suite.get(name)) == len(list(suite.iter(tag)))
        assert float(suite.get("time")) >= 0
    for suite in root:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp"))
        names = [(test.get("classname"), test.get("name")) for test in suite.iter("testcase")]
        assert len(names) == len(set(names)) > 0
        assert sum(float(test.get("time")) for test in suite.iter("testcase")) == float(
            suite.get("time")
        )
    ids = [int(suite.get("id")) for suite in root]
    assert ids == list(range(len(ids)))
    return root


def known(report, code="base"):
    report.expected = ExpectedFailure(code, "issue 12")
    return report


OUTCOMES = [
    Checked.of("right", right(), 1.25),
    Checked.of("wrong", wrong(), 0.5),
    Checked.of("expected", known(wrong()), 0.5),
    Checked.of("other", known(wrong(), "sign"), 0.5),
    Checked.of("gone", known(right()), 0.5),
    Checked.failed("absent", "there is no file absent.py"),
]


@pytest.fixture(scope="module")
def root():
    return require_valid(junit(OUTCOMES))


def results(suite):
    """Return the tests of a suite that did not pass, each with the tag of the reason."""
    return {test.get("name"): test[0].tag for test in suite.iter("testcase") if len(test)}


def test_a_suite_has_a_test_for_each_check(root):
    report = OUTCOMES[0].report
    tests = [test.get("name") for test in root[0].iter("testcase")]
    assert tests == [*report.executed, "calls", "controls"]
    facts = {item.get("name"): item.get("value") for item in root[0].iter("property")}
    assert facts["cases of values"] == str(report.executed["values"]) != "0"
    assert results(root[0]) == {}


def test_a_deviation_is_a_failure_with_the_finding(root):
    found = results(root[1])
    assert set(found) == set(OUTCOMES[1].report.failed) != set()
    assert set(found.values()) == {"failure"}
    (failure,) = root[1].findall("testcase[@name='values']/failure")
    assert failure.get("message") == "base: the base is 500, declared 10000"
    assert "remedy" in failure.text
    assert root[1].find("system-out").text == str(OUTCOMES[1].report)


def test_an_expected_deviation_is_skipped_with_its_reason(root):
    assert set(results(root[2]).values()) == {"skipped"}
    (skipped,) = root[2].findall("testcase[@name='values']/skipped")
    assert "issue 12" in skipped.get("message")
    assert results(root[3])["expected deviation"] == "failure"
    assert results(root[3])["values"] == "failure"
    assert results(root[4]) == {"expected deviation": "failure"}


def test_what_was_not_judged_is_an_error(root):
    assert results(root[5]) == {"judged": "error"}
    done = {"executed": {"values": 3}, "required": ("values", "state")}
    for controls, name in (({"moved": False}, "controls"), ({"moved": True}, "state")):
        report = Report("fn", "apply", "R", "numpy", "float32", controls=controls, **done)
        (suite,) = require_valid(junit([Checked.of("fn", report, 0.0)]))
        assert results(suite)[name] == "error"


def test_what_xml_forbids_is_escaped():
    nasty = "a\x00b\x1b[31m <&\"' ]]> \ud800 \ufffe é 🎉\n"
    report = Report("fn", "apply", nasty, "numpy", "float32", [Finding("base", nasty, nasty)],
                    executed={nasty: 3}, failed={nasty: ["base"]})  # fmt: skip
    document = junit([Checked.of(nasty, report, 0.0), Checked.failed(nasty, nasty)])
    root = require_valid(document)
    clean = "a\\x00b\\x1b[31m <&\"' ]]> \\ud800 \\ufffe é 🎉\\n"
    assert [suite.get("name") for suite in root] == [clean, clean]
    assert clean in root[0].find("system-out").text
    assert root[1].find("testcase/error").get("message") == clean


# --- the file -------------------------------------------------------------------------------------


def test_a_run_that_breaks_off_leaves_an_error(tmp_path):
    path = tmp_path / "junit.xml"
    path.write_bytes(junit(OUTCOMES[:1]))  # an older run, which passed

    def interrupted():
        with junit_file(path):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    (suite,) = require_valid(path.read_bytes())
    assert suite.find("testcase/error").get("message") == "the run was interrupted"


def test_an_exception_is_written_with_the_outcomes_before_it(tmp_path):
    def broken():
        with junit_file(tmp_path / "junit.xml") as outcomes:
            outcomes.append(OUTCOMES[0])
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        broken()
    first, second = require_valid((tmp_path / "junit.xml").read_bytes())
    assert results(first) == {}
    assert second.find("testcase/error").get("message") == "the disk is full"


def test_another_file_is_not_written_over(tmp_path):
    for name, text in (("port.py", "def apply(): ..."), ("pom.xml", "<project />")):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        words = f"{name} is no JUnit XML file, so it is not overwritten"
        with pytest.raises(FileExistsError, match=words), junit_file(path):
            pass
        assert path.read_text(encoding="utf-8") == text
    (tmp_path / "empty.xml").touch()
    with junit_file(tmp_path / "empty.xml") as outcomes:
        outcomes.append(OUTCOMES[0])
    assert (tmp_path / "empty.xml").stat().st_size


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text.replace('failures="0"', 'failures="1"', 1),
        lambda text: text.replace(' classname="right"', "", 1),
        lambda text: text.replace("<system-err />", "", 1),
        lambda text: text.replace("<testcase ", "<test ").replace("</testcase>", "</test>"),
    ],
)
def test_an_invalid_document_is_rejected(spoil):
    document = junit(OUTCOMES[:1]).decode()
    require_valid(document)
    assert spoil(document) != document
    with pytest.raises((AssertionError, KeyError)):
        require_valid(spoil(document))
