"""The record of one implementation, and the two decorators that file it."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    """One implementation, its declaration, and the codes that a judge must give it.

    `expected` is empty for a correct implementation. Otherwise its first code is the best
    diagnosis; the others are acceptable, because no probe of this surface separates them.
    """

    name: str
    make: Callable[[], Callable]
    surface: str
    encoding: dict
    expected: tuple[str, ...]
    thread: str
    why: str
    kwargs: dict = field(default_factory=dict)
    held_out: bool = False
    thing: object = None  #: what was decorated, whose source the site shows


WRONG: list[Case] = []
CORRECT: list[Case] = []


def wrong(*codes, surface="apply", encoding, thread, held_out=False, **kwargs):
    """File the decorated function, or class of stateful instances, as a wrong implementation."""
    if not codes:
        raise TypeError("a wrong implementation needs at least one expected code")
    return _file(WRONG, surface, encoding, codes, thread, held_out, kwargs)


def correct(*, surface="apply", encoding, thread, **kwargs):
    """File the decorated function or class as correct, in whatever style."""
    return _file(CORRECT, surface, encoding, (), thread, False, kwargs)


def _file(cases, surface, encoding, codes, thread, held_out, kwargs):
    def decorate(thing):
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", thing.__name__).lower().replace("_", "-")
        why = thing.__doc__.strip().splitlines()[0]
        make = thing if isinstance(thing, type) else lambda: thing
        cases.append(
            Case(name, make, surface, encoding, codes, thread, why, kwargs, held_out, thing)
        )
        return thing

    return decorate


def rope(head_dim, layout="half", *, scaling=None, **fields):
    """Return a RoPE in JSON form; a number for `scaling` is the factor of a LinearScaling."""
    encoding = {"encoding": "RoPE", "head_dim": head_dim, "layout": layout, **fields}
    if isinstance(scaling, dict):
        encoding["scaling"] = scaling
    elif scaling is not None:
        encoding["scaling"] = {"scaling": "LinearScaling", "factor": scaling}
    return encoding


def schedule(name, **fields):
    """Return a frequency schedule in JSON form."""
    return {"scaling": name, **fields}


def multi_axis(head_dim, sections, layout="half", **fields):
    """Return a MultiAxisRoPE in JSON form."""
    encoding = {"encoding": "MultiAxisRoPE", "head_dim": head_dim, "sections": list(sections)}
    return {**encoding, "layout": layout, **fields}


def sinusoidal(dim, **fields):
    """Return a Sinusoidal in JSON form."""
    return {"encoding": "Sinusoidal", "dim": dim, **fields}


def alibi(num_heads, **fields):
    """Return an ALiBi in JSON form."""
    return {"encoding": "ALiBi", "num_heads": num_heads, **fields}


def t5(table, **fields):
    """Return a T5Bias in JSON form, with its learned table as an array."""
    return {"encoding": "T5Bias", "table": table, **fields}
