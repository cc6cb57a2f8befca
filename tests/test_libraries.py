"""`tools/libraries.py` and the pages of its report: what is counted, and in which releases."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from posenc_ref.conformance.adapters.library import LIBRARIES
from posenc_ref.conformance.surveys.expected import Expected
from posenc_ref.conformance.surveys.ndjson import read_ndjson
from posenc_ref.conformance.surveys.record import Outcome
from tests.tool import tool

libraries, pages, claims = tool("libraries"), tool("libraries_page"), tool("claims")
MANIFEST = libraries.tomllib.loads(libraries.MANIFEST.read_text(encoding="utf-8"))
ROWS = libraries.rows(MANIFEST)
BLANK = Outcome("library", "made-up", "1.0")


@pytest.fixture(scope="module")
def recorded():
    return read_ndjson(libraries.REPORT)


def test_every_library_has_releases():
    others = {claim.library for claim in claims.claims()} - set(LIBRARIES)
    assert others == {"torch"}  # has no adapter, but a claim with a script
    assert set(MANIFEST["libraries"]) == set(LIBRARIES) | others
    assert len({row.name for row in ROWS}) == len(ROWS)
    for library, one in MANIFEST["libraries"].items():
        assert one.keys() <= {"releases", "packages", "pins", "python", "alone"}, library
        assert set(one.get("pins", ())) <= set(one["releases"]), library
        for packages in (one.get("packages", ()), *one.get("pins", {}).values()):
            assert all("==" in package for package in packages), library
    assert sum(row.newest for row in ROWS) == len(MANIFEST["libraries"])


def test_pins_replace_the_packages_of_all():
    manifest = {
        "common": {"python": "3.11", "packages": ["torch==2.13.0", "numpy==2.4.6"]},
        "libraries": {"made-up": {"releases": ["1", "2"], "packages": ["torch==2.9.1", "a==1"],
                                  "pins": {"1": ["a==0"]}}},
    }  # fmt: skip
    first, second = libraries.rows(manifest)
    assert first.packages == ("torch==2.9.1", "numpy==2.4.6", "a==0")
    assert second.packages == ("torch==2.9.1", "numpy==2.4.6", "a==1")
    assert (first.newest, second.newest, second.python) == (False, True, "3.11")


def test_the_release_of_a_row_replaces_a_package_of_all():
    manifest = {
        "common": {"python": "3.11", "packages": ["torch==2.13.0", "numpy==2.4.6"]},
        "libraries": {"torch": {"releases": ["2.9.1"]}},
    }
    (row,) = libraries.rows(manifest)
    assert (row.name, row.packages) == ("torch 2.9.1", ("numpy==2.4.6",))


def test_a_library_without_an_adapter_has_scripts_alone(tmp_path):
    def verify(*_):
        raise AssertionError("there is nothing to verify")

    row = libraries.Row("made-up", "9.9", "3.11", (), newest=True, scripts=("a.py", "b.py"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(libraries, "install", lambda *_: "")
        patch.setattr(libraries, "versions", lambda *_: {"python": "3.11"})
        patch.setattr(libraries, "_verify", verify)
        shown = BLANK.replace(kind="script", version="9.9", verdict="deviates")
        patch.setattr(libraries, "_scripts", lambda *_: [shown.replace(label="a.py")])
        judged = libraries.judge(row, tmp_path, tmp_path / "a.whl", [])
    assert [o.label for o in judged.outcomes] == ["a.py"]
    path = tmp_path / "r.ndjson"
    libraries.write(path, {row.name: judged}, [row.name])
    text = pages.page(read_ndjson(path), [])
    assert "Of these only the scripts of [claims.md](claims.md) were run: made-up 9.9." in text
    assert "## made-up" not in text


def test_the_report_is_of_the_manifest(recorded):
    judged = [f"{one['library']} {one['release']}" for one in recorded.header["environments"]]
    assert judged == [row.name for row in ROWS]
    assert {f"{o.group} {o.version}" for o in recorded.result.outcomes} == set(judged)


def test_the_report_follows_the_schema():
    root = libraries.ROOT / "conformance" / "schemas" / "report.json"
    validator = jsonschema.Draft202012Validator(json.loads(root.read_text(encoding="utf-8")))
    lines = libraries.REPORT.read_text(encoding="utf-8").splitlines()
    for line in (lines[0], *lines[1:-1:97], lines[-1]):
        validator.validate(json.loads(line))


def test_the_pages_are_of_the_report(recorded):
    assert pages.PAGE.read_text(encoding="utf-8") == pages.page(recorded, claims.claims())
    made = claims.page(claims.claims(), recorded.result.outcomes)
    assert claims.PAGE.read_text(encoding="utf-8") == made


SCRIPTS = {
    "shows": "print('noise')\nassert 1 + 1 == 2",
    "does_not": "assert 1 + 1 == 3",
    "says_no": "raise SystemExit('accepted')",
    "library": "import json\njson.loads('no')",
    "theirs": "import unittest.mock\nunittest.mock.Mock().assert_called()",
}


def test_a_script_shows_its_deviation_or_not_or_does_not_run(tmp_path):
    for name, text in SCRIPTS.items():
        (tmp_path / f"{name}.py").write_text(text)
    paths = [str(tmp_path / f"{name}.py") for name in SCRIPTS]
    command = [sys.executable, "-c", libraries.RUN_SCRIPTS, *paths]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    found = dict(zip(SCRIPTS, map(json.loads, run.stdout.splitlines()), strict=True))
    assert {name: one["verdict"] for name, one in found.items()} == {
        "shows": "deviates",
        "does_not": "conforms",
        "says_no": "conforms",
        "library": "undrivable",
        "theirs": "undrivable",  # an assertion of the library is no answer of the script
    }
    assert found["does_not"]["reason"] == "the script does not show it: assert 1 + 1 == 3 fails"
    assert found["library"]["reason"].startswith("JSONDecodeError: Expecting value")


def run_of(*verdicts):
    """Return the outcomes of a script in releases 1, 2, ...; d shows it, c does not, u fails."""
    words = {"d": "deviates", "c": "conforms", "u": "undrivable"}
    return [BLANK.replace(version=str(n), verdict=words[v]) for n, v in enumerate(verdicts, 1)]


@pytest.mark.parametrize(
    ("verdicts", "text"),
    [
        ("ddd", "first seen in 1, the first of the releases judged; last seen in 3, the newest"),
        ("cdd", "first seen in 2, not in 1; last seen in 3, the newest"),
        ("cddc", "first seen in 2, not in 1; last seen in 3, not in 4"),
        ("ucuddu", "first seen in 4, not in 2; last seen in 5, the newest that could be judged"),
        ("uud", "seen in 3, the only release that could be judged"),
        ("udd", "first seen in 2, the first that could be judged; last seen in 3, the newest"),
        ("dcdc", "first seen in 1, the first of the releases judged; last seen in 3, not in 4; "
                 "not in 2"),
        ("d", "seen in 1, the only release judged"),
        ("cc", "in none of 2 releases, 1 to 2"),
        ("uu", "no release judged gives an answer"),
        ("", "not run over releases"),
    ],
)  # fmt: skip
def test_when_a_deviation_was_seen(verdicts, text):
    assert claims.seen(run_of(*verdicts)) == text


def test_a_release_that_cannot_be_installed_is_listed_with_the_reason(tmp_path):
    row = libraries.Row("made-up", "9.9", "3.11", (), newest=True)
    refuses = [sys.executable, "-c", "raise SystemExit('no version of made-up==9.9')"]
    judged = libraries.judge(row, tmp_path, Path(tmp_path / "a.whl"), refuses)
    (outcome,) = judged.outcomes
    assert (outcome.verdict, outcome.version) == ("skipped", "9.9")
    assert outcome.reason == "cannot be installed: no version of made-up==9.9"
    path = tmp_path / "r.ndjson"
    libraries.write(path, {row.name: judged}, [row.name])
    again = libraries.read(path)
    assert again == {row.name: judged}
    assert "- made-up 9.9: cannot be installed" in pages.page(read_ndjson(path), [])


def test_a_new_run_of_some_rows_keeps_the_others(tmp_path):
    path = tmp_path / "r.ndjson"

    where = "/tmp/x/made-up-1.0/lib/python3.11/site-packages/made_up/rope.py"

    def judged(release, verdict):
        environment = {"library": "made-up", "release": release, "versions": {}}
        one = BLANK.replace(version=release, label="rope", dtype="float32", verdict=verdict,
                            reason=f"no class in {where}")  # fmt: skip
        return libraries.Judged(environment | {"install_seconds": 1.0, "seconds": 2.0}, [one])

    order = ["made-up 1.0", "made-up 2.0"]
    found = dict(zip(order, [judged("1.0", "gap"), judged("2.0", "deviates")], strict=True))
    libraries.write(path, found | {"gone 1": judged("1", "gap")}, order)
    kept = libraries.read(path)
    assert list(kept) == order
    assert kept["made-up 1.0"].outcomes[0].reason == "no class in made_up/rope.py"
    libraries.write(path, kept | {"made-up 2.0": judged("2.0", "undrivable")}, order)
    assert [o.verdict for o in read_ndjson(path).result.outcomes] == ["gap", "undrivable"]


def test_what_differs_from_the_report_is_listed():
    one = BLANK.replace(label="rope", dtype="float32", verdict="conforms")
    other = one.replace(label="table")
    before = libraries.Judged({}, [one, other, one.replace(label="gone")])
    wrong = one.replace(verdict="deviates", codes=("base",))
    raises = other.replace(verdict="undrivable", reason="no class")
    assert libraries.differences(before, before) == []
    assert libraries.differences(before, libraries.Judged({}, [wrong, raises])) == [
        "made-up 1.0 rope float32: deviates base, was conforms",
        "made-up 1.0 table float32: undrivable (no class), was conforms",
        "made-up 1.0 gone float32: absent, was conforms",
    ]
    assert libraries.differences(None, libraries.Judged({}, [one])) == [
        "made-up 1.0 rope float32: conforms, was absent"
    ]


def test_other_words_differ_from_the_report_and_other_scores_do_not():
    one = BLANK.replace(label="rope", dtype="float32", verdict="deviates", codes=("base",),
                        messages=("base 500",), worst=7.0, seconds=1.0)  # fmt: skip
    before = libraries.Judged({}, [one])
    slower = libraries.Judged({}, [one.replace(worst=8.0, seconds=2.0)])
    assert libraries.differences(before, slower) == []
    other = libraries.Judged({}, [one.replace(messages=("base 700",), limits=("S < 9",))])
    assert libraries.differences(before, other) == [
        "made-up 1.0 rope float32: deviates base; messages ('base 700',), was ('base 500',)",
        "made-up 1.0 rope float32: deviates base; limits ('S < 9',), was ()",
    ]


@pytest.fixture
def check(monkeypatch, tmp_path):
    """Return a function that checks the releases of torch with a given judge, into one file."""

    def run(command, **_):
        (Path(command[command.index("-o") + 1]) / "made.whl").touch()

    def check(judge, file=tmp_path / "judged.ndjson"):
        monkeypatch.setattr(libraries, "judge", judge)
        monkeypatch.setattr(subprocess, "run", run)
        monkeypatch.setattr(shutil, "which", lambda *_, **__: "uv")
        arguments = ["--check", "--only", "torch 2.1*", "--resume", str(file)]
        monkeypatch.setattr(sys, "argv", ["libraries.py", *arguments])
        return libraries.main()

    return check


def test_an_interrupted_check_goes_on_and_lists_differences_as_they_come(check, capsys):
    report = libraries.read(libraries.REPORT)
    first, second = [row.name for row in ROWS if row.library == "torch"]
    asked = []

    def stops(row, *_):
        asked.append(row.name)
        if row.name == second:
            raise KeyboardInterrupt
        (shown,) = report[row.name].outcomes
        return libraries.Judged(report[row.name].environment, [shown.replace(verdict="gap")])

    with pytest.raises(KeyboardInterrupt):
        check(stops)
    printed = capsys.readouterr()
    assert f"1/2 {first}: " in printed.err
    assert f"{first} sweep-other-deviations/siglip2_column.py: gap, was deviates" in printed.out

    def judges(row, *_):
        asked.append(row.name)
        return report[row.name]

    assert check(judges) == 1  # the first release differs still
    assert asked == [first, second, second]
    assert "gap, was deviates" in capsys.readouterr().out


def test_a_file_that_is_no_report_is_not_resumed(check, capsys, tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    with pytest.raises(SystemExit):
        check(None, file)
    assert "line 1 is not JSON" in capsys.readouterr().err
    assert file.read_text() == "mine"


def test_the_page_tells_when_a_function_deviated():
    def outcome(release, *codes, verdict="conforms"):
        return BLANK.replace(
            version=release,
            label="rope",
            dtype="float32",
            source="rope.py: rope",
            codes=codes,
            messages=tuple(f"{code} is wrong" for code in codes),
            verdict="deviates" if codes else verdict,
        )

    environments = [
        {"library": "made-up", "release": r, "versions": {}, "install_seconds": 1, "seconds": 2}
        for r in "1234"
    ]
    own = [outcome("1", verdict="undrivable").replace(reason="no class"), outcome("2"),
           outcome("3", "base"), outcome("4")]  # fmt: skip
    text = "\n".join(pages._section("made-up", environments, own, [], []))
    assert "| rope | not drivable | ok | DEVIATES base | ok |" in text
    assert "base is wrong. First seen in 3, not in 2; last seen in 3, not in 4" in text
    assert "- rope: no class (1)" in text

    # Two deviations with one code: each has the claim whose script shows it in that release.
    entries = (
        Expected(
            ("made-up rope",),
            title,
            "deviates",
            "because",
            ("base",),
            "bug",
            "source",
            f"{title}.py",
            "all",
            "wrong",
            "not reported",
        )
        for title in ("first", "second")
    )
    known = [claims.Claim("made-up", f"{e.title}.py", e) for e in entries]
    scripts = [
        BLANK.replace(kind="script", label=f"{name}.py", version=release, verdict="deviates")
        for name, release in (("first", "1"), ("first", "4"), ("second", "2"), ("second", "3"))
    ]
    own = [outcome(release, "base") for release in "1234"]
    text = "\n".join(pages._section("made-up", environments, own, known, scripts))
    assert "Seen in 1, 4; in 2, 3 it has another deviation (`rope.py: rope`); [claim 1]" in text
    assert "Seen in 2, 3; in 1, 4 it has another deviation (`rope.py: rope`); [claim 2]" in text


def test_a_script_that_shows_more_than_the_judge_is_named():
    """Where both differ, the page says in which releases, and whether a call raised."""
    entry = Expected(("made-up rope",), "title", "deviates", "because", ("base",), "bug", "source",
                     "one.py", "all", "wrong", "not reported")  # fmt: skip
    known = [claims.Claim("made-up", "one.py", entry)]
    scripts = [o.replace(kind="script", label="one.py") for o in run_of(*"dddd")]
    environments = [
        {"library": "made-up", "release": r, "versions": {}, "install_seconds": 1, "seconds": 2}
        for r in "1234"
    ]
    own = [o.replace(label="rope", dtype="float32", source="rope.py") for o in run_of(*"uudc")]
    own[0] = own[0].replace(reason="a required call raises: x")
    own[1] = own[1].replace(reason="cannot be built: x")
    own[2] = own[2].replace(codes=("base",), messages=("base is wrong",))
    text = "\n".join(pages._section("made-up", environments, own, known, scripts))
    linked = "[claim 1](claims.md#claim-1)"
    assert (
        f"| rope | not drivable, the fault of {linked} | not drivable | DEVIATES base | ok |"
        in text
    )
    assert f"- rope: a required call raises: x, the fault of {linked} (1)" in text
    assert "- rope: cannot be built: x (2)" in text
    assert (
        f"{linked}; its script shows it in 4 too, where the judged calls are right; its script "
        "shows it in 1, 2 too, where the function could not be judged." in text
    )


def test_calls_that_raise_because_of_a_claimed_fault(recorded):
    """Each was read: the exception is that of the claim. A new one must be read as well."""
    every = recorded.result.outcomes
    scripts = [o for o in every if o.kind == "script"]
    found = {
        (o.group, o.version, o.label)
        for o in every
        if o.kind == "library" and pages.fault_of(
            o, claims.claims(), [s for s in scripts if s.group == o.group]
        )
    }  # fmt: skip
    assert found == {
        ("torchscale", "0.2.0", "Decoder"),
        ("megatron-core", "0.16.1", "MultimodalRotaryEmbedding, interleaved"),
    }


def test_usage_errors_teach(capsys, monkeypatch):
    for arguments, said in (
        (["--only", "nothing"], "no row has nothing in its name; --list prints the names"),
        (["--jobs", "0"], "--jobs must be at least 1, got 0"),
    ):
        monkeypatch.setattr(sys, "argv", ["libraries.py", *arguments])
        with pytest.raises(SystemExit) as error:
            libraries.main()
        assert error.value.code == 2
        assert said in capsys.readouterr().err


def test_the_day_of_a_release_is_that_of_its_first_file():
    files = [
        ("made_up-1.0-py3-none-any.whl", "2025-01-02T23:59:59Z"),
        ("made-up-1.0.tar.gz", "2025-01-01T00:00:00Z"),
        ("made_up-1.1.post1-cp311-cp311-linux_x86_64.whl", "2025-03-01T00:00:00.5Z"),
        ("made-up-1.2.win32.exe", "2025-04-01T00:00:00Z"),
        ("made-up-1.3.tar.gz", None),
    ]
    project = {"files": [{"filename": n} | ({"upload-time": t} if t else {}) for n, t in files]}
    assert tool("released").days(project) == {"1.0": "2025-01-01", "1.1.post1": "2025-03-01"}
