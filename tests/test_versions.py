"""`tools/versions.py`: every row counts, and one that did not run says so."""

import sys
import sysconfig
from types import SimpleNamespace

import pytest

from tests import conftest
from tests.tool import tool

versions = tool("versions")
TABLE = versions.tomllib.loads(versions.TABLE.read_text(encoding="utf-8"))
REPORT = """<testsuites><testsuite>
<testcase name="right"/>
<testcase name="wrong"><failure message="assert 1 == 2"/></testcase>
<testcase name="broken"><error message="no fixture"/></testcase>
<testcase name="left"><skipped type="pytest.skip" message="torch is not installed"/></testcase>
<testcase name="module"><skipped message="collection skipped">
('tests/a.py', None, 'Skipped: torch is not installed')</skipped></testcase>
<testcase name="expected"><skipped type="pytest.xfail" message="known"/></testcase>
</testsuite></testsuites>"""
SKIP = "torch is not installed"


def test_every_row_has_tests():
    for name, row in TABLE["rows"].items():
        assert row.keys() <= {"python", "packages", "extras", "tests", "verdicts"}, name
        assert row["python"], name
        assert versions.files(row["tests"], TABLE["tests"]), name


def test_the_versions_that_the_project_promises():
    promised = {"3.11", "3.12", "3.13", "3.14"}
    rows = TABLE["rows"].values()
    assert promised <= {version for row in rows for version in row["python"]}
    project = (versions.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for version in promised:
        assert f'"Programming Language :: Python :: {version}"' in project
    assert 'dependencies = ["numpy>=2.0", "array-api-compat>=1.10"]' in project
    assert TABLE["rows"]["oldest"]["packages"] == ["numpy==2.0.*", "array-api-compat==1.10.*"]
    assert all(f"numpy 2.{minor}" in TABLE["rows"] for minor in (1, 2, 3))


def test_a_pattern_without_a_file_is_an_error():
    with pytest.raises(SystemExit, match=r"no test is called tests/posenc_ref/test_gone\.py"):
        versions.files(["one"], {"one": ["tests/posenc_ref/test_{rope,gone}.py"]})


def test_the_counts_of_a_report(tmp_path):
    (tmp_path / "report.xml").write_text(REPORT, encoding="utf-8")
    outcome = versions.Outcome("row")
    versions.read(tmp_path / "report.xml", outcome)
    assert (outcome.passed, outcome.failed, outcome.skipped) == (2, 2, {SKIP: 2})
    assert outcome.wrong


def test_a_row_without_an_interpreter_is_not_run(tmp_path):
    table = {"rows": {"old": {"python": ["2.6"], "tests": []}}, "tests": {}}
    outcome, python = versions.run("old", table, tmp_path, [])
    assert not python
    assert outcome.line() == (
        "| old | - | - | - | - | not run: no interpreter of Python 2.6 |  |  |  |"
    )
    assert versions.text([outcome]).endswith("1 rows: 0 passed, 0 failed, 1 not run")


def test_a_row_that_was_named_must_run(monkeypatch, capsys):
    """All rows together run as far as the machine has interpreters."""
    monkeypatch.setattr(versions, "interpreter", lambda wanted: None)
    monkeypatch.setattr(sys, "argv", ["versions.py", "oldest"])
    assert versions.main() == 1
    assert "not run: no interpreter of Python 3.11 or 3.12" in capsys.readouterr().out
    absent, right = versions.Outcome("a", absent="no interpreter"), versions.Outcome("b", passed=1)
    assert versions.failed([absent, right], named=True)
    assert not versions.failed([absent, right], named=False)
    assert versions.failed([absent], named=False)
    assert versions.failed([right, versions.Outcome("c", failed=1)], named=False)


def test_an_installation_that_fails_breaks_the_row(tmp_path):
    mine = "{}.{}".format(*sys.version_info)
    mine += "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    row = {"python": [mine], "tests": []}
    table = {"rows": {"bad": row}, "tests": {}, "common": {"packages": []}}
    (tmp_path / "file").touch()  # where the environment should be
    outcome, _ = versions.run("bad", table, tmp_path / "file", [])
    assert outcome.wrong
    assert "broken: exit code 1 of -m venv" in outcome.line()


def test_the_text_lists_counts_and_reasons():
    right = versions.Outcome("a", {"Python": "3.12.1", "numpy": "2.5.5"}, passed=7, seconds=3.2)
    right.skipped.update({SKIP: 4})
    wrong = versions.Outcome("b", {"Python": "3.13.0"}, passed=1, failed=2)
    wrong.skipped.update({SKIP: 1})
    lines = versions.text([right, wrong]).splitlines()
    assert lines[2] == "| a | 3.12.1 | 2.5.5 | - | - | 7 | 0 | 4 | 3 |"
    assert f"skipped 5: {SKIP}" in lines
    assert lines[-1] == "2 rows: 1 passed, 1 failed, 0 not run"


@pytest.mark.parametrize(
    ("module", "ci", "outcome"),
    [
        ("torch.nn", "", "skipped"),
        ("torch.nn", "1", "failed"),
        ("posenc_ref.gone", "", "failed"),
        ("numpy.gone", "", "failed"),
    ],
)
def test_only_an_optional_library_may_be_missing_and_not_in_ci(module, ci, outcome, monkeypatch):
    monkeypatch.setenv("CI", ci)
    report = SimpleNamespace(failed=True, outcome="failed", nodeid="tests/a.py::b", longrepr=None)
    error = ImportError("while collecting")
    error.__cause__ = ModuleNotFoundError("no module", name=module)
    call = SimpleNamespace(excinfo=SimpleNamespace(value=error))
    assert conftest._skipped_without_a_library(report, call).outcome == outcome
    report = SimpleNamespace(failed=True, outcome="failed", nodeid="tests/a.py::b", longrepr=None)
    other = SimpleNamespace(excinfo=SimpleNamespace(value=ValueError("wrong")))
    assert conftest._skipped_without_a_library(report, other).outcome == "failed"
