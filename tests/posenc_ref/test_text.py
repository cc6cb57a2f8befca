"""Foreign text reaches a terminal, a report or a page as plain characters only."""

import html
import sys

import pytest
from markdown_it import MarkdownIt

from posenc_ref._text import code, indented, markdown, near, one_line, printable, shown

#: Text that changes a terminal or a page, each with what it would do.
HOSTILE = {
    "forges a verdict": "f\nCONFORMS  g  (apply, numpy, float32)",
    "clears the line": "f\x1b[2K\rCONFORMS  g",
    "reverses the text": "f \u202eSMROFNOC\u2066",
    "separates lines": "f\u2028CONFORMS\u0085g\x0bh",
    "is no text": "f \ud800 \udfff",
    "rings": "\a\b\x00\x7f",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_one_line_of_printable_characters(text):
    found = one_line(text)
    assert found.isprintable()
    assert found.encode("ascii", "strict")
    assert len(found.splitlines()) == 1
    assert printable(text).replace("\n", "").isprintable()
    assert printable(text).count("\n") == text.count("\n")


def test_what_is_kept_and_what_is_cut():
    assert one_line("RoPE(64, layout='half') é 日本 🙂") == "RoPE(64, layout='half') é 日本 🙂"
    assert one_line("\x1b[0m\n") == "\\x1b[0m\\n"
    assert len(one_line("a" * 10**6)) < 2100
    assert one_line("a" * 1000 + "z" * 9000).startswith("aaa")
    assert shown("x" * 10**6).startswith("'xxx")
    assert len(shown("x" * 10**6)) < 300


class Broken:
    def __str__(self):
        raise RuntimeError("no")

    __repr__ = __str__


class Leaves(type):
    """A metaclass whose classes end Python if they are asked for their name."""

    @property
    def __name__(cls):
        sys.exit(0)


class Hostile(str, metaclass=Leaves):
    """Text that says of itself that it is printable and short."""

    def isprintable(self):
        return True

    def __len__(self):
        return 1

    def __str__(self):
        return self


class Exits(metaclass=Leaves):
    def __str__(self):
        sys.exit(0)

    def __repr__(self):
        raise GeneratorExit


def test_objects_that_cheat_or_exit():
    assert one_line(Hostile("a\nCONFORMS \u202e")) == r"a\nCONFORMS \u202e"
    assert type(one_line(Hostile("a"))) is str
    assert one_line(Hostile("a" * 5000), 10) == "aaaaa ... aaaaa"
    assert one_line(Exits()) == "<Exits, whose __str__ raises SystemExit>"
    assert shown(Exits()) == "<Exits>"
    Exits.__str__ = interrupt
    with pytest.raises(KeyboardInterrupt):
        one_line(Exits())


def interrupt(self):
    raise KeyboardInterrupt


def test_objects_that_cannot_be_shown():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert shown(deep) == "<list>"
    assert shown(10**5000) == "<int>"
    assert shown(Broken()) == "<Broken>"
    assert "RuntimeError" in one_line(Broken())
    assert near("x" * 10**6, ["x"]) == []
    assert near("lama", ["llama", "gemma"]) == ["llama"]


MARKDOWN = [
    "<img src=x onerror=alert(1)>", "a & b &amp; c", "**bold** _it_ ~~gone~~", "[t](http://e.x)",
    "![i](u)", "`code` ``", "| a | b |", "# head", "- item", "+ item", "1. one", "2) two",
    "> quote", "\\*", "<!-- hidden -->", "a\n# b", "$x$", "===", "---", "    indented", "[x]: y",
    "<http://e.x>", *HOSTILE.values(),
]  # fmt: skip


@pytest.mark.parametrize("text", MARKDOWN)
def test_markdown_shows_the_text_and_does_nothing(text):
    """Render with markdown-it, and compare with the text; GitHub drops the empty comments."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("strikethrough")
    wanted = html.escape(" ".join(one_line(text).split()), quote=False).replace('"', "&quot;")
    assert parser.render(markdown(text)).strip().replace("<!-- -->", "") == f"<p>{wanted}</p>"
    page = parser.renderInline(code(text).replace("\\|", "|"))
    assert page.startswith("<code>")
    assert page.count("<") == 2


@pytest.mark.parametrize(
    ("text", "apart"),
    [
        ("@octocat", "@<!-- -->octocat"),
        ("see #12", "see #<!-- -->12"),
        ("GH-3", "GH-<!-- -->3"),
        ("a/b#4", "a/b#<!-- -->4"),
        ("https://e.x/y", "https<!-- -->://e.x/y"),
        ("www.e.x", "www<!-- -->.e.x"),
        ("mailto:a", "mailto<!-- -->:a"),
    ],
)
def test_what_github_would_link_is_taken_apart(text, apart):
    assert markdown(text) == apart


def test_no_line_of_a_message_but_the_first_begins_with_a_name():
    text = indented("no file\nCONFORMS  mine\n\x1b[2J")
    assert text == "no file\n  CONFORMS  mine\n  \\x1b[2J"
    assert indented(text) == text
