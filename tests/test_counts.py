"""Hand-written documents quote the numbers that tools/counts.py computes."""

import pytest

from tests.tool import tool

TOOL = tool("counts")
PAGES = {path.name: path.read_text(encoding="utf-8") for path in TOOL.DOCUMENTS}


@pytest.mark.parametrize("name", PAGES)
def test_the_numbers_of_a_document_are_those_of_today(name):
    assert TOOL.renewed(PAGES[name]) == PAGES[name], "run python tools/counts.py"


def test_every_phrase_is_quoted():
    assert [
        today
        for _, today in TOOL.patterns()
        if not any(today in page for page in PAGES.values())
    ] == []  # fmt: skip


def test_another_number_is_found():
    assert TOOL.renewed("There are 3 presets.") != "There are 3 presets."
