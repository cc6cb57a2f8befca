"""Reports as NDJSON: what is written, and what a reader refuses."""

import hashlib
import json
import re
from importlib.resources import files

import jsonschema
import pytest
from typer.testing import CliRunner

import posenc_ref
from posenc_ref.conformance import Accuracy, Finding, Report, cli
from posenc_ref.conformance.harness.report import NOTE
from posenc_ref.conformance.surveys.ndjson import (
    FORMAT,
    NdjsonError,
    read_ndjson,
    recorded_outcomes,
)
from posenc_ref.conformance.surveys.ndjson_writer import recording
from posenc_ref.conformance.surveys.verify import failed_group
from posenc_ref.conformance.surveys.whole import CERTIFICATE, GOLDEN, golden_vectors
from tests.conformance.recorded import (
    FACTS,
    FOUND,
    HALF,
    batch,
    expected,
    record,
    record_batch,
    record_verification,
    right,
    wrong,
)

SCHEMA = json.loads((files("posenc_ref.conformance") / "schemas/report.json").read_text("utf-8"))


@pytest.fixture
def posenc():
    return lambda *arguments: CliRunner().invoke(cli.app, list(map(str, arguments)))


# --- writing and reading --------------------------------------------------------------------------


def in_any_order(report):
    """As data; in which order the required checks are listed does not matter."""
    return report.to_dict() | {"required": sorted(report.required)}


@pytest.mark.parametrize("make", [right, wrong, expected])
def test_a_report_comes_back_as_it_was(tmp_path, make):
    report = make()
    got = read_ndjson(record(tmp_path / "r.ndjson", report))
    assert str(got.report()) == str(report)
    assert in_any_order(got.report()) == in_any_order(report)
    assert got.footer["verdict"] == report.verdict
    assert got.footer["exit_code"] == report.exit_code == {right: 0, wrong: 1, expected: 0}[make]
    assert got.footer["executed"] == sum(report.executed.values())


def test_what_is_infinite_comes_back_infinite(tmp_path):
    wild = Finding("base", "m", severity=NOTE, equivalent=("sign",), values={"declared": 1.5})
    accuracy = Accuracy(float("inf"), 128.0, "x", errors={4096: float("inf"), 8: 0.25})
    report = Report("fn", "apply", "R", "numpy", "float32", [wild], accuracy, ["too long"],
                    {"values": 3}, ("values", "state"), {"moved": True}, "m")  # fmt: skip
    assert report.verdict == "inconclusive"
    got = read_ndjson(record(tmp_path / "r.ndjson", report, subject="fn", declared="R"))
    assert got.report() == report


def test_the_header_says_what_was_judged_and_with_what(tmp_path):
    header = read_ndjson(record(tmp_path / "r.ndjson", right())).header
    assert header["format"] == FORMAT
    assert posenc_ref.from_dict(header["encoding"]) == HALF
    assert header["versions"]["posenc_ref"] == posenc_ref.__version__
    assert header["versions"]["specification"] == posenc_ref.SPEC_VERSION
    assert {"numpy", "python"} <= set(header["versions"])


def test_a_verification_comes_back_as_it_was(tmp_path):
    got = read_ndjson(record_verification(tmp_path / "v.ndjson", FOUND))
    assert got.result == FOUND
    ids = [json.loads(line)["id"] for line in lines_of(tmp_path / "v.ndjson")]
    assert ids[3:-1] == ["absent", "absent #2"]


def test_a_batch_comes_back_as_it_was(tmp_path):
    found = batch()
    assert found.exit_code == 1
    got = read_ndjson(record_batch(tmp_path / "c.ndjson", found))
    assert got.result.counts == found.counts == {
        "conforms": 1, "deviates": 1, "expected": 1, "unexpected": 1, "inconclusive": 0, "error": 1
    }  # fmt: skip
    assert [one.to_json() for one in got.result.checked] == [one.to_json() for one in found.checked]
    assert str(got.result.parts()[-2]) == str(found.parts()[-2])
    with pytest.raises(NdjsonError, match="one of `posenc ci`"):
        got.report()


def test_a_case_may_not_be_removed_from_a_batch(tmp_path):
    path = record_batch(tmp_path / "c.ndjson", batch())
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if b'"id": "w"' not in line))
    with pytest.raises(NdjsonError, match="footer counts"):
        read_ndjson(path)


@pytest.mark.parametrize("file", ["right", "wrong", "expected", "verify", "ci"])
def test_every_line_follows_the_schema(tmp_path, file):
    path = tmp_path / "r.ndjson"
    if file == "verify":
        record_verification(path, FOUND)
    elif file == "ci":
        record_batch(path, batch())
    else:
        record(path, {"right": right, "wrong": wrong, "expected": expected}[file]())
    validator = jsonschema.Draft202012Validator(SCHEMA)
    validator.check_schema(SCHEMA)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    for line in lines:
        validator.validate(line)
        for name in set(line) - {"event", "id"}:  # nothing is optional, and nothing is added
            assert not validator.is_valid({k: v for k, v in line.items() if k != name}), name
        assert not validator.is_valid(line | {"extra": 1})
        assert not validator.is_valid(line | {"event": "other"})


def test_every_group_of_verify_has_a_kind_that_the_schema_knows():
    kinds = {failed_group(group, "r").kind for group in ("numpy", CERTIFICATE, GOLDEN, "mlx")}
    kinds |= {golden_vectors().kind, "script"}  # a script is run by tools/libraries.py
    (schema,) = re.findall(r'"kind": {"enum": (\[.*?\])}', json.dumps(SCHEMA))
    assert sorted(kinds) == sorted(json.loads(schema))


def test_the_schema_knows_every_event(tmp_path):
    told = set()
    record(tmp_path / "a", wrong())
    limited = right()
    limited.limits.append("too long")
    record(tmp_path / "b", limited)
    record_verification(tmp_path / "c", FOUND)
    record_batch(tmp_path / "d", batch())
    for path in tmp_path.iterdir():
        told |= {json.loads(line)["event"] for line in path.read_bytes().splitlines()}
    assert told == {rules["properties"]["event"]["const"] for rules in SCHEMA["$defs"].values()}


def test_a_run_that_breaks_off_leaves_a_header_and_no_verdict(tmp_path):
    path = record(tmp_path / "r.ndjson", right())  # an older run, which passed

    def interrupted():
        with recording(path, "check", HALF, **FACTS):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(path.read_bytes().splitlines()) == 1
    with pytest.raises(NdjsonError, match="has no footer after 1 lines: the run was interrupted"):
        read_ndjson(path)


def test_a_header_that_cannot_be_written_leaves_the_older_file(tmp_path, monkeypatch):
    path = record(tmp_path / "r.ndjson", right())
    before = path.read_bytes()
    monkeypatch.setattr("os.fsync", lambda descriptor: 1 / 0)
    with pytest.raises(ZeroDivisionError), recording(path, "check", HALF, **FACTS):
        pass
    assert path.read_bytes() == before
    assert [*tmp_path.iterdir()] == [path]


def test_no_file_is_written_where_none_is_wanted(tmp_path):
    with recording(None, "check", HALF) as writer:
        assert writer is None


# --- what is refused ------------------------------------------------------------------------------


def lines_of(path):
    return path.read_bytes().splitlines(keepends=True)


def edited(line, **changes):
    return json.dumps(json.loads(line) | changes).encode() + b"\n"


def lacking(line, name):
    return json.dumps({k: v for k, v in json.loads(line).items() if k != name}).encode() + b"\n"


def sealed(lines):
    """The lines with a digest that fits: what a careful forger would write."""
    digest = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    return [*lines[:-1], edited(lines[-1], digest=f"sha256:{digest}")]


def recounted(lines, **changes):
    return sealed([*lines[:-1], edited(lines[-1], **changes)])


def counts(lines, **changes):
    return json.loads(lines[-1])["counts"] | changes


def without(lines, event):
    return [line for line in lines if json.loads(line)["event"] != event]


#: What is done to the lines of a failing check, and what the reader says.
REFUSED = {
    "empty": (lambda ls: [], "is empty"),
    "no header": (lambda ls: sealed(ls[1:]), "begins with 'check', not with a header"),
    "no footer": (lambda ls: ls[:-1], "has no footer after"),
    "cut in a line": (lambda ls: [*ls[:3], ls[3][:20]], "line 4 is not JSON"),
    "two footers": (lambda ls: [*ls, ls[-1]], "goes on after its footer, in line"),
    "a finding after the footer": (lambda ls: [*ls, ls[-3]], "goes on after its footer"),
    "an id twice": (lambda ls: sealed([*ls[:2], ls[1], *ls[2:]]), "twice, in lines 2 and 3"),
    "no id": (lambda ls: sealed([*ls[:1], b'{"event": "check"}\n', *ls[1:]]), 'with "event" and'),
    "a line that is a list": (lambda ls: sealed([*ls[:1], b"[]\n", *ls[1:]]), "line 2 must be an"),
    "a line less": (lambda ls: sealed([*ls[:2], *ls[3:]]), "but its footer counts"),
    "cases added": (
        lambda ls: sealed([ls[0], edited(ls[1], executed=99), *ls[2:]]),
        "executed cases, but its footer",
    ),
    "an unknown event": (
        lambda ls: sealed([*ls[:-1], b'{"event": "advert", "id": "a"}\n', ls[-1]]),
        "has an event 'advert'; events of check are check, control",
    ),
    "another format": (
        lambda ls: sealed([edited(ls[0], format="posenc-report-9"), *ls[1:]]),
        "has the format 'posenc-report-9'; this version reads",
    ),
    "another kind": (
        lambda ls: sealed([edited(ls[0], kind="sweep"), *ls[1:]]),
        "has the kind 'sweep', not check or verify",
    ),
    "another subject": (
        lambda ls: [edited(ls[0], subject="yours"), *ls[1:]],
        "was changed after it was written",
    ),
    "another verdict": (
        lambda ls: recounted(ls, verdict="conforms", exit_code=0),
        "exit code ('deviates', 1) in its footer, got ('conforms', 0)",
    ),
    "another exit code": (lambda ls: recounted(ls, exit_code=0), "exit code ('deviates', 1)"),
    "the finding removed": (
        lambda ls: recounted(without(ls, "finding"), counts=counts(ls, finding=0)),
        "exit code ('conforms', 0) in its footer, got ('deviates', 1)",
    ),
    "the controls removed": (
        lambda ls: recounted(
            without(without(ls, "finding"), "control"),
            counts=counts(ls, finding=0, control=0),
            verdict="conforms",
            exit_code=0,
        ),
        "exit code ('inconclusive', 3) in its footer, got ('conforms', 0)",
    ),
    "a member removed": (
        lambda ls: sealed([ls[0], lacking(ls[1], "name"), *ls[2:]]),
        "has a missing or wrong entry: the check must have 'name'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_file_that_does_not_add_up_is_refused(tmp_path, posenc, what):
    path = record(tmp_path / "r.ndjson", wrong())
    assert read_ndjson(path).footer["verdict"] == "deviates"
    change, words = REFUSED[what]
    path.write_bytes(b"".join(change(lines_of(path))))
    with pytest.raises(NdjsonError, match=re.escape(words)) as caught:
        read_ndjson(path)
    assert str(caught.value).startswith(f"{path}: ")
    result = posenc("report", path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr


def test_the_line_that_cannot_be_continued_is_numbered(tmp_path):
    path = record(tmp_path / "r.ndjson", wrong())
    path.write_bytes(b"".join([*lines_of(path)[:2], b"[]"]))
    with pytest.raises(NdjsonError, match=r"is no sweep: line 3 must be an object"):
        recorded_outcomes(path, "sweep", {}, {})


def test_a_verification_that_does_not_add_up_is_refused(tmp_path):
    path = record_verification(tmp_path / "v.ndjson", FOUND)
    lines = lines_of(path)
    path.write_bytes(b"".join(sealed([lines[0], edited(lines[1], verdict="deviates"), *lines[2:]])))
    with pytest.raises(NdjsonError, match=r"exit code .*'deviates': 2.* in its footer"):
        read_ndjson(path)


def test_a_file_that_is_not_there(posenc, tmp_path):
    result = posenc("report", tmp_path / "none.ndjson")
    assert result.exit_code == 2
    assert "none.ndjson" in result.stderr
