"""`tools/pages.py` and `tools/identified/libraries.py`: which differences they list."""

import json

import pytest

from tests.tool import tool

pages, identified = tool("pages"), tool("identified/libraries")
PAGE = (
    "2026-11-22, in 78 s of processor time.\n| RoPE | conforms | 1.25 |\n| ALiBi | conforms | 2 |\n"
)


def test_every_page_has_a_command_or_a_reason():
    names = {path.name for path in (pages.ROOT / pages.PAGES).iterdir() if path.is_file()}
    made = {"benchmarks.json", "benchmarks.svg", "cost-laws.svg", "public-api.txt"}  # no pages
    assert set(pages.commands()) | set(pages.LEFT_OUT) == names - made
    assert not set(pages.commands()) & set(pages.LEFT_OUT)


def test_dates_and_durations_are_no_difference():
    later = PAGE.replace("2026-11-22", "2027-01-01").replace("78 s", "99 s")
    assert pages.differences(PAGE, later) == ([], [])


def test_decimal_numbers_are_counted_and_words_listed():
    assert pages.differences(PAGE, PAGE.replace("1.25", "1.0")) == ([], [0.2])
    lines, numbers = pages.differences(
        PAGE, PAGE.replace("| ALiBi | conforms", "| ALiBi | deviates")
    )
    assert lines == ["- | ALiBi | conforms | 2 |", "+ | ALiBi | deviates | 2 |"]
    assert numbers == []
    lines, _ = pages.differences(PAGE, PAGE.replace("| 2 |", "| 3 |"))
    assert lines, "a count is no score"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with one page, made by a program that writes what the test says."""
    root = tmp_path / "root"
    (root / "docs/generated").mkdir(parents=True)
    (root / "tests/mutants").mkdir(parents=True)
    (root / "docs/generated/page.md").write_text("# Page\n\nMade by `python make.py`.\n\none\n")
    monkeypatch.setattr(pages, "ROOT", root)
    monkeypatch.setattr(pages, "LEFT_OUT", {})

    def makes(text, then=""):
        path = "docs/generated/page.md"
        body = f"# Page\n\nMade by `python make.py`.\n\n{text}\n"
        (root / "make.py").write_text(f"open({path!r}, 'w').write({body!r})\n{then}")
        return root / path

    return makes


def test_a_page_that_is_made_again_alike_passes(checkout, capsys):
    checkout("one")
    assert pages.main([]) == 0
    assert capsys.readouterr().out.startswith("page.md: the same")


def test_a_page_that_differs_is_listed_and_kept_only_if_asked(checkout, capsys):
    page = checkout("two")
    before = page.read_text()
    assert pages.main(["page.md"]) == 1
    assert "  - one\n  + two\n" in capsys.readouterr().out
    assert page.read_text() == before
    pages.main(["--write"])
    assert page.read_text() == before.replace("one", "two")


def test_a_program_that_fails_is_a_difference(checkout, capsys):
    page = checkout("two", "raise SystemExit('no library')")
    assert pages.main(["--write"]) == 1
    assert "ended with exit code 1: no library" in capsys.readouterr().out
    assert "one" in page.read_text()


def test_a_page_without_a_command_is_refused(checkout):
    checkout("one")
    with pytest.raises(SystemExit):
        pages.main(["other.md"])


def line(**fields):
    keys = ("version", "surface", "declared", "identified", "grade", "deviations", "reason")
    return {"function": "a f", "library": "a", **dict.fromkeys(keys, ""), **fields}


def test_the_grade_of_a_reader_stays_with_its_result():
    before = line(identified="ALiBi(4)", grade="same", reason="read: other heads")
    now = line(identified="ALiBi(4)", grade="wrong", reason="other numbers")
    assert identified.kept(before, now) == before
    other = now | {"identified": "ALiBi(8)"}
    assert identified.kept(before, other) == other


def test_what_is_identified_otherwise_is_listed():
    digits = [line(declared=f"GivenFrequencies((0.1234567890123{d},))") for d in (4, 5)]
    assert identified.differences({"a f": digits[0]}, {"a f": digits[1]}) == []
    before = {"a f": line(grade="exact"), "a g": line()}
    now = {"a f": line(grade="wrong"), "a h": line()}
    assert identified.differences(before, before) == []
    assert identified.differences(before, now) == [
        "a f: grade 'wrong', was 'exact'", "a g: absent", "a h: new",
    ]  # fmt: skip


@pytest.mark.parametrize("options", [["--check"], []], ids=["check", "write"])
def test_the_lines_of_a_release_replace_the_old_ones(options, tmp_path, monkeypatch, capsys):
    report = tmp_path / "identified.ndjson"
    library = next(row.library for row in identified.rows(_manifest()) if row.newest)
    old = line(library=library, function="f", grade="none")
    report.write_text(f"{json.dumps(old)}\n")
    monkeypatch.setattr(identified, "REPORT", report)
    monkeypatch.setattr(identified, "uv_command", lambda *_: ["uv"])
    monkeypatch.setattr(identified, "build_wheel", lambda *_: "a.whl")
    monkeypatch.setattr(identified, "identified", lambda *_: {"f": old | {"grade": "exact"}})
    assert identified.main(options) == bool(options)
    assert "f: grade 'exact', was 'none'" in capsys.readouterr().out
    grade = json.loads(report.read_text())["grade"]
    assert grade == ("none" if options else "exact")


def _manifest():
    return identified.tomllib.loads(identified.MANIFEST.read_text(encoding="utf-8"))
