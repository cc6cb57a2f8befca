"""The grades of identity cards: what counts as right, and what does not."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from posenc_ref import GivenFrequencies, MixedRoPE, MultiAxisRoPE, RoPE, Sinusoidal
from posenc_ref.conformance.adapters.library import LibraryFunction
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.identify.card import Card
from posenc_ref.conformance.surveys.gallery import grade
from tests.tool import tool

DOCS = Path(__file__).parents[3] / "docs"
AXES = MultiAxisRoPE(16, sections=(4, 4), layout="half")
WEIGHT = np.where(AXES.axes() == np.arange(2)[:, None], AXES.frequencies(), 0.0)


def library_function(encoding, declared):
    """A function that computes one encoding and declares another one."""
    axes = 2 if isinstance(encoding, MultiAxisRoPE) else 1

    def build():
        return Implementation(encoding.apply, "apply", "own", head_dim=16, axes=axes)

    return LibraryFunction("own", "numpy", "here", build, declared)


@pytest.mark.parametrize(
    ("encoding", "declared", "wanted", "numbers"),
    [
        (RoPE(16, layout="half"), RoPE(16, layout="half"), "exact", "conforms"),
        (AXES, MixedRoPE(16, WEIGHT, layout="half"), "same", "conforms"),
        (RoPE(16, layout="half", base=5e5), RoPE(16, layout="half"), "described", "deviates"),
    ],
    ids=["exact", "same", "described"],
)
def test_a_right_card_has_its_grade(encoding, declared, wanted, numbers):
    found = grade.grade_function(library_function(encoding, declared))
    assert (found.right, found.reason, found.verdict) == (wanted, "", numbers), found.card


def test_a_list_of_numbers_is_no_rule():
    """Frequencies that a base gives are not described by listing them."""
    declared = RoPE(16, layout="half")
    listed = GivenFrequencies(tuple(declared.frequencies().tolist()))
    card = Card("fn", "apply", "numpy", "float32", declared.replace(scaling=listed), rule=False)
    judged = grade.check(declared.apply, declared, "apply")
    found, reason = grade.graded(card, declared, judged, "conforms")
    assert found == "wrong"
    assert "no rule" in reason


def test_a_false_alarm_is_wrong():
    declared = RoPE(16, layout="half")
    judged = grade.check(declared.apply, declared, "apply")
    refused = grade.check(declared.replace(base=5e5).apply, declared, "apply")
    card = Card("fn", "apply", "numpy", "float32", declared)
    card.report, card.deviations = refused, refused.findings
    assert grade.graded(card, declared, judged, "conforms") == (
        "wrong",
        "the function conforms to its declaration; the card has: base",
    )
    # The same card is right for the function that deviates so.
    assert grade.graded(card, declared, refused, "conforms") == ("described", "")
    card.deviations = []
    assert grade.graded(card, declared, refused, "conforms")[0] == "wrong"


def test_other_numbers_are_wrong():
    """Cards that pass their own check, because the check takes few calls."""
    declared = RoPE(16, layout="half")
    judged = grade.check(declared.apply, declared, "apply")
    card = Card("fn", "apply", "numpy", "float32", Sinusoidal(16))
    card.report = judged
    assert grade.graded(card, declared, judged, "deviates")[0] == "wrong"


def test_a_card_without_encoding_says_why():
    card = Card("fn", "apply", "numpy", "float32", unknown=["a call failed"], broken=["a step"])
    declared = RoPE(16, layout="half")
    judged = grade.check(declared.apply, declared, "apply")
    assert grade.graded(card, declared, judged, "skipped") == ("none", "a step; a call failed")


def test_the_tool_writes_a_line_for_each_function(tmp_path, monkeypatch, capsys):
    identified = tool("identified/installed")
    one = library_function(RoPE(16, layout="half"), RoPE(16, layout="half"))
    every = [one, dataclasses.replace(one, name="other", build=lambda: 1 / 0)]
    for module in (identified, grade):
        monkeypatch.setattr(module, "functions", lambda: every)
    identified.main([str(tmp_path / "found.ndjson"), "--processes", "0"])
    written = (tmp_path / "found.ndjson").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in written.splitlines()]
    assert [(line["function"], line["grade"]) for line in lines] == [
        ("own", "exact"),
        ("other", "none"),
    ]
    assert "ZeroDivisionError" in lines[1]["reason"]
    assert capsys.readouterr().out.startswith("2 functions, 1 right: 1 exact, 0 same")


def test_the_page_counts_the_grades_of_its_lines():
    """The table of docs/identify.md has the numbers of docs/generated/identified.ndjson."""
    text = (DOCS / "generated/identified.ndjson").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert len({line["function"] for line in lines}) == len(lines)
    assert all(line["reason"] for line in lines if line["grade"] not in grade.RIGHT)
    page = (DOCS / "identify.md").read_text(encoding="utf-8")
    assert table_of(lines) in page


def table_of(lines):
    """The rows of the table: one for each library and release, then the sums."""
    groups = {}
    for line in lines:
        groups.setdefault(f"{line['library']} {line['version']}", []).append(line["grade"])
    every = [*sorted(groups.items()), ("all", [g for part in groups.values() for g in part])]
    rows = []
    for name, grades in every:
        right = sum(grades.count(g) for g in grade.RIGHT)
        counts = " | ".join(str(grades.count(g)) for g in grade.GRADES)
        share = f"{right} ({100 * right // len(grades)} %)"
        rows.append(f"| {name} | {len(grades)} | {counts} | {share} |")
    return "\n".join(rows)
