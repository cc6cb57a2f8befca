"""The record of one function with a well known mistake, and the decorators that file it."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    """A function, its declaration, and its expected first finding.

    The first message must contain `words`. A right function has no `words` and no `code`.
    """

    mistake: str
    name: str
    function: Callable
    surface: str
    encoding: dict | None
    code: str = ""
    words: str = ""
    kwargs: dict = field(default_factory=dict)


CASES: list[Case] = []
#: Long calls are left out: dense biases take most of the time, and no mistake here needs them.
_SHORT = {"bias": 700, "scores": 700}


def wrong(mistake, code, words, *, surface, encoding, **kwargs):
    """File the decorated function under the mistake that it makes."""
    return _file(mistake, surface, encoding, code, words, kwargs)


def right(mistake, *, surface, encoding, **kwargs):
    """File the decorated function as one that does not make the mistake."""
    return _file(mistake, surface, encoding, "", "", kwargs)


def _file(mistake, surface, encoding, code, words, kwargs):
    def decorate(function):
        name = function.__name__.replace("_", "-")
        if surface in _SHORT:
            kwargs.setdefault("max_position", _SHORT[surface])
        CASES.append(Case(mistake, name, function, surface, encoding, code, words, kwargs))
        return function

    return decorate
