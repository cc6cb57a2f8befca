"""Foreign text: names, messages and values that others wrote, made fit to be shown.

:func:`one_line` is the only place that decides which characters reach a terminal or a report.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from .limits import SHOWN, TEXT

#: Characters that are markup anywhere, and signs that begin a block at the start of a line.
_MARKUP = re.compile(r"[\\`*_\[\]<>|~&$]")
_BLOCK = re.compile(r"^(?:[+-](?= |$)|#|=|---)")
_LIST = re.compile(r"^(\d{1,9})([.)])(?= |$)")
#: The beginning of a mention, an issue's number, a link or an address.
_LINKED = re.compile(r"@|#(?=\d)|(?i:\bgh-(?=\d)|\bwww(?=\.)|\w(?=://)|\bmailto(?=:))")
_APART = "<!-- -->"
#: The name of a class, even if its metaclass has a ``__name__`` of its own.
_NAME = type.__dict__["__name__"]


def one_line(text: Any, limit: int = TEXT) -> str:
    r"""Return foreign text as one line of printable characters, with at most about ``limit``.

    Line breaks, control characters, marks of writing direction and lone surrogates become escapes
    such as ``\n``, ``\x1b``, ``\u202e`` and ``\ud800``.  Longer text is cut in the middle.
    """
    try:
        text = str.__str__(str(text))  # of a subclass of str, which may hide its characters
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a foreign __str__ may raise anything
        text = f"<{class_name(text)}, whose __str__ raises {class_name(error)}>"
    text = cut(text, limit)
    return text if text.isprintable() else "".join(map(_printable, text))


def printable(text: str) -> str:
    """Return text of several lines with every other unprintable character escaped."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c == "\n" else _printable(c) for c in text)


def markdown(text: Any, limit: int = TEXT) -> str:
    """Return foreign text as one line of Markdown that shows these characters and does nothing.

    Markup and HTML are escaped.  An empty comment separates what GitHub would make a mention, a
    link, or the number of an issue.
    """
    found = " ".join(one_line(text, limit).split())
    found = _MARKUP.sub(r"\\\g<0>", found)
    found = _LIST.sub(r"\1\\\2", _BLOCK.sub(r"\\\g<0>", found))
    return _LINKED.sub(rf"\g<0>{_APART}", found)


def code(text: Any, limit: int = TEXT) -> str:
    """Return foreign text as a Markdown code span, for a table too."""
    found = one_line(text, limit).replace("|", "\\|")
    ticks = "`" * (1 + max(map(len, re.findall("`+", found)), default=0))
    padding = " " if "`" in found else ""
    return f"{ticks}{padding}{found}{padding}{ticks}"


def shown(value: Any) -> str:
    """Return the ``repr`` of a foreign value for a message, cut in the middle if it is long."""
    try:
        text = repr(value)
    except KeyboardInterrupt:
        raise
    except BaseException:  # 5000 digits, 1000 lists in each other, or a foreign __repr__
        text = f"<{class_name(value)}>"
    return one_line(text, SHOWN)


def class_name(value: Any) -> str:
    """Return the name of a value's class, which the class cannot change or hide."""
    return str.__str__(_NAME.__get__(type(value)))


def near(word: Any, names: Iterable[str], most: int = 1, *, cutoff: float = 0.6) -> list[str]:
    """Return the ``names`` most similar to a foreign word; none for a word longer than a name."""
    if not isinstance(word, str) or len(word) > SHOWN:
        return []
    import difflib  # only errors need it

    return difflib.get_close_matches(word, list(names), n=most, cutoff=cutoff)


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


def cut(text: str, limit: int) -> str:
    """Return a text, cut in the middle if it has more than ``limit`` characters."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} ... {text[-half:]}"


def in_full(number: int | float) -> str:
    """Return a bound, or the number that exceeds it, with all of its digits: they may be close."""
    if isinstance(number, int) or number.is_integer():
        whole = int(number)
        if whole.bit_length() <= 64:
            return str(whole)
        if isinstance(number, int):
            return "an integer of many digits"  # which Python may refuse to print
    return repr(float(number))


def indented(message: object, most: int = SHOWN) -> str:
    """Return a message on printable lines; all but the first are indented.

    So no name in it can begin a line, such as one with a verdict.  Indented text stays as it is.
    """
    first, *others = (one_line(line, most) for line in str(message).split("\n"))
    if not all(line.startswith("  ") for line in others):
        others = [f"  {line}" for line in others]
    return "\n".join([first, *others])
