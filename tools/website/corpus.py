"""The wrong and correct implementations of tests/mutants, as text."""

import ast
import inspect
import json
import re
from functools import cache

import numpy as np

from tests.mutants import CORRECT, WRONG
from tests.mutants._case import Case, alibi

from .sections import ROOT
from .text import definition

#: For every code an example of tools/code_examples.py.
EXAMPLES = ROOT / "docs/generated/code-examples.json"


def saturating_distance(q_len, k_len):
    """A penalty that saturates with the distance."""
    distance = np.arange(q_len)[:, None] + k_len - q_len - np.arange(k_len)
    return -(2.0 ** -np.arange(1.0, 9.0))[:, None, None] * distance / (1 + distance / 512)


#: Cases outside the corpus, for codes of mistakes that no case of it makes.
OWN = (
    Case(
        "saturating-distance",
        lambda: saturating_distance,
        "bias",
        alibi(8),
        ("inaccurate",),
        "class: another formula",
        "A penalty that saturates with the distance.",
        thing=saturating_distance,
    ),
)


def source(case):
    """Return the code of a case, after the functions of the corpus that it calls."""
    return "\n\n\n".join(definition(thing) for thing in [*helpers(case.thing), case.thing])


def helpers(thing):
    """Return the functions of the corpus that a definition calls, those that they call first."""
    home, found = vars(inspect.getmodule(thing)), {}
    for node in ast.walk(ast.parse(definition(thing))):
        other = home.get(node.id) if isinstance(node, ast.Name) else None
        ours = inspect.isfunction(other) and other.__module__.startswith("tests.mutants")
        if ours and other is not thing:
            found |= dict.fromkeys([*helpers(other), other])
    return list(found)


@cache
def cases():
    """Return every case by name."""
    return {case.name: case for case in [*WRONG, *CORRECT, *OWN]}


@cache
def examples():
    """Return the recorded example of every code: the name of its case, and the report."""
    return json.loads(EXAMPLES.read_text(encoding="utf-8"))["codes"]


def origin(case):
    """Return where a mistake comes from: a public thread, a paper, or a class of mistakes."""
    thread = case.thread
    if found := re.fullmatch(r"([\w.-]+/[\w.-]+)#(\d+)", thread):
        return f"Written after [{thread}](https://github.com/{found[1]}/issues/{found[2]})."
    if found := re.match(r"arXiv:(\d{4}\.\d{4,5})", thread):
        return f"From [{thread}](https://arxiv.org/abs/{found[1]})."
    kind, _, rest = thread.partition(": ")
    return f"A common mistake: {rest}." if kind in ("class", "trap") else f"From {thread}."


def declaration(encoding):
    """Return a declaration as JSON in short lines; learned numbers are left out."""

    def plain(value):
        if isinstance(value, np.ndarray):
            return f"array {value.shape}, {value.dtype}"
        return str(value)

    return json.dumps(encoding, default=plain)
