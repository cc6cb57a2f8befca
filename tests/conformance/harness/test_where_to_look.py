"""A failure of unknown cause with a place gets a remedy that says which code to look at."""

import pytest

from posenc_ref.conformance.harness.located.atoms import Atom
from posenc_ref.conformance.harness.located.locate import Place
from posenc_ref.conformance.harness.located.remedy import where_to_look
from posenc_ref.conformance.harness.located.search import Rule


@pytest.mark.parametrize(
    ("atom", "words"),
    [
        (Atom(("size", "token"), "is", (1,)), "the path for one token"),
        (Atom(("remainder 16", "token"), "is", (1,)), "the last, incomplete block of 16 tokens"),
        (Atom(("index", "head"), "from", (8,)), "how heads are indexed"),
        (Atom(("memory", ""), "is", (1,)), "the strides of x"),
        (Atom(("call", ""), "from", (3,)), "what the instance keeps between calls"),
        (Atom(("position", ""), "from", (512,)), "the length of a table"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_place_says_where_to_look(atom, words):
    found = where_to_look(Place("wrong: ...", (Rule((atom,)),)))
    assert found.startswith("Look at ")
    assert words in found


ATOMS = (
    Atom(("memory", ""), "is", (1,)), Atom(("call", ""), "from", (3,)),
    Atom(("size", "token"), "is", (1,)), Atom(("index", "head"), "from", (8,)),
)  # fmt: skip


def test_the_remedy_has_two_hints_and_says_what_is_right():
    assert where_to_look(Place("wrong: ...", (Rule(ATOMS[:2]), Rule(ATOMS[2:])))) == (
        "Look at the strides of x: code that takes x to be contiguous, and at what the instance "
        "keeps between calls: caches, counters, buffers. Judged elements that the rule "
        "does not name pass."
    )


def test_a_rule_of_parts_does_not_say_what_is_right():
    """ "Some elements of heads from 8 on" names elements that are right."""
    found = where_to_look(Place("wrong: some elements of ...", (Rule(ATOMS[3:]),), partial=True))
    assert found.endswith("heads that share a key head.")


def test_no_rule_says_nothing():
    assert where_to_look(None) == where_to_look(Place("no simple rule says where")) == ""
