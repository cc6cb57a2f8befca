"""Foreign text: names, messages and values that others wrote, made fit to be shown.

:func:`one_line` is the only place that decides which characters reach a terminal or a report.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .limits import SHOWN, TEXT


def one_line(text: Any, limit: int = TEXT) -> str:
    r"""Return foreign text as one line of printable characters, with at most about ``limit``.

    Line breaks, control characters, marks of writing direction and lone surrogates become escapes
    such as ``\n``, ``\x1b``, ``\u202e`` and ``\ud800``.  Longer text is cut in the middle.
    """
    try:
        text = str(text)
    except Exception as error:  # a foreign __str__ may raise anything
        text = f"<{type(text).__name__}, whose __str__ raises {type(error).__name__}>"
    return "".join(map(_printable, _cut(text, limit)))


def lines(text: Any, limit: int = 50 * TEXT) -> str:
    """Return foreign text of several lines, each as :func:`one_line` returns it."""
    return "\n".join(one_line(line, limit) for line in _cut(str(text), limit).split("\n"))


def shown(value: Any) -> str:
    """Return the ``repr`` of a foreign value for a message, cut in the middle if it is long."""
    try:
        text = repr(value)
    except Exception:  # an integer of 5000 digits, 1000 lists in each other, a foreign __repr__
        text = f"<{type(value).__name__}>"
    return one_line(text, SHOWN)


def near(word: Any, names: Iterable[str], most: int = 1) -> list[str]:
    """Return the ``names`` most similar to a foreign word; none for a word longer than a name."""
    if not isinstance(word, str) or len(word) > SHOWN:
        return []
    import difflib  # only errors need it

    return difflib.get_close_matches(word, list(names), n=most)


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} ... {text[-half:]}"
