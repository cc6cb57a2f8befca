"""`tools/conformance_page.py`: the page has every outcome once, and shows foreign text as text."""

import json
import re
import sys
from collections import Counter
from html.parser import HTMLParser

import pytest

from posenc_ref.conformance.surveys.ndjson import read_ndjson
from posenc_ref.conformance.surveys.ndjson_writer import recording
from posenc_ref.conformance.surveys.verify import Verification
from tests import survey_rows
from tests.tool import tool

made = tool("conformance_page")
VOID = {"meta", "link", "br", "input"}


class Page(HTMLParser):
    """The tags, ids, links and texts of a page, and its rows of outcomes by the row around them."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.tags = [], [], [], Counter()
        self.rows, self.badly, self.text = {}, [], ""
        self.feed(text)
        self.close()
        assert not self.open, f"{self.open} are not closed"

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags[tag] += 1
        if tag not in VOID:
            self.open.append((tag, found))
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if "href" in found else []
        if tag == "tr" and found.get("class") == "outcome":
            inside = [a["id"] for t, a in self.open if t == "div" and "id" in a][-1]
            self.rows.setdefault(inside, []).append([])

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        name, _ = self.open.pop()
        assert name == tag, f"</{tag}> ends <{name}>"

    def handle_data(self, data):
        self.text += data
        if [t for t, a in self.open if a.get("class") == "outcome"]:
            cells = next(reversed(self.rows.values()))[-1] if self.rows else []
            if self.open[-1][0] == "td":
                cells.append(data)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return survey_rows.write(tmp_path_factory.mktemp("report") / "libraries.ndjson")


@pytest.fixture(scope="module")
def survey(report):
    return made.survey_of(
        [read_ndjson(report)], survey_rows.known_claims(), survey_rows.SCRIPTS.__getitem__
    )


@pytest.fixture(scope="module")
def text(survey):
    return made.page(survey)


def events(path):
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line["event"] == "outcome"]


def counted(page, path):
    """Return the number of outcomes in each row: the releases that its lines name."""
    header = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    order = {}
    for one in header["environments"]:
        order.setdefault(one["library"], []).append(one["release"])
    found = {}
    for name, lines in page.rows.items():
        parts = name.split("/")
        releases = order[parts[1] if parts[0] == "claims" else parts[0]]
        for said in (line[0] for line in lines):
            first, _, last = said.partition(" to ")
            n = said.count(",") + 1
            if last:
                n = releases.index(last) - releases.index(first) + 1
            found[name] = found.get(name, 0) + n
    return found


def test_every_outcome_is_on_the_page_once(report, text):
    page = Page(text)
    every = Counter(e["kind"] for e in events(report))
    failed = sum(not e["label"] and bool(e["version"]) for e in events(report))
    assert text.count("cannot be installed: no wheel") == failed == 1
    rows = counted(page, report)
    assert rows == {
        "alpha/rope": 5,
        "alpha/script-fail-script-quoted-text-braces": 4,
        "alpha/bias": 4,
        "beta-x/table": 1,
        "beta-x/table-learned": 1,
        "beta-x/table-3": 1,
        "claims/alpha/made-up/wrong": 3,
    }
    functions = sum(n for name, n in rows.items() if not name.startswith("claims/"))
    assert functions + failed + 1 == every["library"]
    assert "Not installed where the report was made: gamma." in page.text
    assert "1 outcome of scripts that no claim names any more left out" in page.text
    assert "1 outcome about posenc_ref itself left out" in page.text


def test_a_row_has_verdict_score_first_visible_error_and_precision(text):
    rows = Page(text).rows["alpha/rope"]
    assert rows == [
        ["2.1", "float32", "ok", "2.50 / 128", "never", "float32", "7"],
        ["2.1", "bfloat16", "DEVIATES inaccurate", "2.50 / 128", "never", "float32", "7"],
        ["2.0", "float32", "DEVIATES base", "2.50 / 128", "≤ 33", "float32", "7"],
        ["1.1", "float32", "ok", "2.50 / 128", "never", "float32", "7"],
        ["1.0", "float32", "not drivable", "n/a", "n/a", "n/a", "0"],
    ]


def test_a_function_without_angles_has_no_columns_for_them(text):
    page = Page(text)
    assert page.rows["beta-x/table"] == [["8", "float32", "ok", "2.50 / 128", "7"]]
    heads = [part.partition("</thead>")[0] for part in text.split("<thead>")[1:]]
    of_outcomes = [head for head in heads if "<th>score</th>" in head]
    assert [head.count("<th>") for head in of_outcomes] == [
        7 if name == "alpha/rope" else 5 for name in page.rows if not name.startswith("claims/")
    ]


def test_releases_with_the_same_outcome_are_one_line(text):
    page = Page(text)
    assert page.rows["alpha/bias"][0][0] == "1.0 to 2.1"
    assert page.rows["alpha/script-fail-script-quoted-text-braces"][0][:3] == [
        "1.0 to 2.1", "float32", "our gap",
    ]  # fmt: skip


def test_claims_about_other_libraries_are_not_shown(report):
    claims = [one.__class__("delta", one.script, one.entry) for one in survey_rows.known_claims()]
    found = made.survey_of([read_ndjson(report)], claims, str)
    assert (found.deviations, found.withdrawn) == ([], 4)


def test_days_are_shown_where_they_are_known(text):
    assert re.findall("<time>(.*?)</time>", text) == ["2025-01-31", "2026-02-28"]
    assert "Judged on 2026-11-23." in text


def test_every_release_has_the_versions_of_other_packages(text):
    said = (
        "Newest release judged: 2.1. 1.0 judged with python 3.11.7, numpy 1.26.4. "
        "1.1 to 2.1 judged with python 3.11.7, numpy 2.4.6."
    )
    assert said in text
    assert "Newest release judged: 8. 8 judged with" in text


def test_counts_are_those_of_the_report(survey, text):
    said = "2 libraries, 6 releases, 17 outcomes of functions. Of the 6 functions in the newest "
    assert said in " ".join(Page(text).text.split())
    assert "<strong>2 ok, 1 DEVIATES, 1 ERROR, 1 inconclusive, 1 our gap</strong>" in text
    alpha, beta = survey.libraries
    assert alpha.newest.name == "2.1"
    assert alpha.cell("RoPE", "float32") == {"conforms": 1}
    assert alpha.cell("RoPE", "bfloat16") == {"deviates": 1}
    assert alpha.in_release("2.0") == {"conforms": 1, "deviates": 1, "gap": 1}
    assert [f.name for f in alpha.changed] == ["rope"]
    assert beta.newest.name == "8"
    assert made.badge(alpha)["message"] == "1 ok, 1 deviates"
    assert made.badge(beta)["message"] == "1 ok"


def test_a_deviation_has_its_releases_its_remedy_and_its_claim(survey, text):
    (rope, *_), _ = (library.functions for library in survey.libraries)
    base, inaccurate = rope.findings
    assert base.where == "float32: first seen in 2.0, not in 1.1; last seen in 2.0, not in 2.1"
    assert base.claim is survey.deviations[0]
    assert inaccurate.claim is None
    assert made.CODES["base"].remedy in Page(text).text
    assert text.count("no claim is made about this deviation") == 1


def test_foreign_text_is_text(text):
    page = Page(text)
    assert (page.tags["script"], page.tags["i"]) == (2, 0)  # ours, and none
    assert page.text.count(survey_rows.FOREIGN) >= 8
    assert "print('<b>' & 1)" in page.text
    assert '<a href="https://github.com/owner/made.up/issues/12">owner/made.up#12</a>' in text
    assert '<a href="https://made-up.example/a?b=1">https://made-up.example/a?b=1</a>.' in text
    assert re.findall(r'(?:src|href)="(?!#|badges/|https://|data:,)', text) == []


def test_long_reasons_are_cut():
    most = made.words.MOST
    assert made.words.short("x" * most) == "x" * most
    assert made.words.short("word " * 100) == ("word " * 100)[: most - 2].rstrip() + " …"
    assert len(made.words.short("x" * 1000)) == most


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no tokens: refused (ValueError: f() got [1, (2)], too few (of 3))", "no tokens: refused"),
        (
            "a: refused (RuntimeError: no); judged in whole grids",
            "a: refused; judged in whole grids",
        ),
        ("judged up to 4096 (its table)", "judged up to 4096 (its table)"),
    ],
)
def test_a_limit_is_shown_without_the_error_that_it_quotes(text, shown):
    assert made.words.limit(text) == shown


def test_every_link_inside_the_page_has_its_goal_and_ids_are_unique(text):
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    inside = {link[1:] for link in page.links if link.startswith("#")}
    assert inside <= set(page.ids)
    assert {"alpha", "alpha/rope", "claims/alpha/made-up/old"} <= inside


def test_the_link_for_corrections_is_to_a_public_address_or_none(survey, text, monkeypatch):
    assert made.words.addresses() == {}
    assert ".example/source" not in text
    assert "its form for corrections is .github" in " ".join(Page(text).text.split()).lower()
    assert (made.ROOT / made.words.FORM).is_file()
    issues = "https://public.org/issues"
    monkeypatch.setattr(made.words, "addresses", lambda: {"Issues": issues})
    found = Page(made.page(survey))
    assert f"{issues}/new?template=library.yml" in found.links
    assert "no public address" not in found.text


def test_two_functions_with_one_link_are_refused(report):
    recorded = read_ndjson(report)
    recorded.result.outcomes.append(recorded.result.outcomes[1].replace(label="Rope!"))
    with pytest.raises(ValueError, match=r"'rope' and 'Rope!' both have the link #alpha/rope"):
        made.survey_of([recorded], [], str)


def test_an_outcome_without_an_environment_is_refused(report):
    recorded = read_ndjson(report)
    recorded.result.outcomes.append(recorded.result.outcomes[1].replace(version="0.9"))
    with pytest.raises(ValueError, match=r"no environment of alpha 0\.9"):
        made.survey_of([recorded], [], str)


def test_reports_of_verify_are_shown_and_a_release_is_in_one_report(report, tmp_path):
    path = tmp_path / "verify.ndjson"
    own = [o.replace(version="9") for o in survey_rows.outcomes() if o.label == "bias"][:1]
    asked = {"full": False, "only": None, "dtypes": [], "libraries": []}
    with recording(path, "verify", options=asked) as record:
        record.verification(Verification(own, 1.0))
    both = made.survey_of([read_ndjson(report), read_ndjson(path)], [], str)
    assert [r.name for r in both.libraries[0].releases] == ["1.0", "1.1", "2.0", "2.1", "9"]
    assert both.libraries[0].newest.versions.keys() >= {"numpy", "python", "posenc_ref"}
    with pytest.raises(ValueError, match=r"alpha 1\.0 is in two reports"):
        made.survey_of([read_ndjson(report)] * 2, [], str)


@pytest.mark.parametrize(
    ("verdicts", "message", "color"),
    [
        (("conforms", "conforms"), "2 ok", "brightgreen"),
        (("conforms", "deviates", "undrivable"), "1 ok, 1 deviates", "yellow"),
        (("deviates", "deviates"), "2 deviate", "yellow"),
        (("undrivable", "gap"), "not judged", "lightgrey"),
    ],
)
def test_a_badge_counts_the_newest_release(verdicts, message, color):
    library = made.rows.Library("made-up", [made.rows.Release(n, {}) for n in ("1", "2")])
    for n, verdict in enumerate(verdicts):
        own = [
            survey_rows.Outcome("library", "made-up", release, str(n), verdict=found)
            for release, found in (("1", "deviates"), ("2", verdict))
        ]
        library.functions.append(made.rows.Function("made-up", str(n), ["1", "2"], own))
    badge = made.badge(library)
    assert (badge["message"], badge["color"]) == (message, color)
    assert badge["label"] == "posenc_ref: made-up 2"
    assert badge["schemaVersion"] == 1


def test_the_folder_of_the_committed_report(tmp_path):
    folder = tmp_path / "page"
    made.write(folder, home="../index.html")
    page = Page((folder / "index.html").read_text(encoding="utf-8"))
    found = events(made.REPORT)
    shown = sum(counted(page, made.REPORT).values())
    failed = sum(not e["label"] for e in found)
    withdrawn = re.search(r"(\d+) outcomes? of scripts that no claim names", page.text)
    assert shown + failed + int(withdrawn[1] if withdrawn else 0) == len(found)
    names = {e["group"] for e in found}
    assert {
        json.loads(path.read_text())["label"].split()[1] for path in folder.glob("badges/*")
    } == names
    assert sum(path.stat().st_size for path in folder.rglob("*.*")) < 1_000_000
    assert page.links.count("../index.html") == 1


def test_usage_errors_teach(tmp_path, report, monkeypatch, capsys):
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine.txt").write_text("mine")
    for arguments, said in (
        ([str(full), str(report)], f"FOLDER must be new or empty, got {full}"),
        ([str(tmp_path / "new"), str(full / "mine.txt")], "mine.txt"),
    ):
        monkeypatch.setattr(sys, "argv", ["conformance_page.py", *arguments])
        with pytest.raises(SystemExit) as error:
            made.main()
        assert error.value.code == 2
        assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.rglob("*")] == ["full", "mine.txt"]
