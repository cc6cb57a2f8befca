"""The rule behind the numbers that a function used: the shortest one that gives all of them."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from posenc_ref.conformance.diagnosis import conditions
from posenc_ref.conformance.diagnosis.rule import DECLARED, find_rule

START = np.array([0, 0, 0, 5, 6, 6, 20, 20, 20, 20, 40, 40])
INDEX = np.array([0, 1, 2, 0, 0, 1, 0, 1, 9, 17, 8, 12])
CALL = np.array([0, 0, 0, 1, 2, 2, 3, 3, 3, 3, 4, 4])
AT = {DECLARED: START + INDEX, "the index": INDEX, "the start": START, "the call": CALL}


@pytest.mark.parametrize(
    ("used", "words"),
    [
        (INDEX, "the index"),
        (START + INDEX + 3, f"{DECLARED} + 3"),
        (2 * (START + INDEX), f"2 times {DECLARED}"),
        ((START + INDEX) // 4 * 4, f"{DECLARED} rounded down to a multiple of 4"),
        ((START + INDEX) % 16, f"{DECLARED} modulo 16"),
        (np.minimum(START + INDEX, 25), f"{DECLARED}, clamped to at most 25"),
        (START + INDEX - CALL, f"{DECLARED} - the call"),
        (START + INDEX % 8, "the start + the index modulo 8"),
        (8 * START + INDEX, "the index + 8 times the start"),
        (
            np.where(INDEX % 2 == 1, INDEX, START + INDEX),
            "the index, where the index modulo 2 is 1",
        ),
    ],
)
def test_a_rule_is_found(used, words):
    rule = find_rule(used, AT)
    assert rule is not None
    assert rule.words == words
    assert np.array_equal(rule.of(AT), used)


def test_a_narrow_integer_whose_negative_numbers_become_0():
    at = np.arange(0, 500, 7)
    rule = find_rule(np.maximum(at.astype(np.int8), 0), {DECLARED: at})
    assert rule is not None
    assert rule.words == f"{DECLARED} stored in int8, which wraps round; negative numbers become 0"


def test_a_condition_may_have_several_parts():
    used = np.where((INDEX >= 8) & (START < 30), 0, START + INDEX)
    rule = find_rule(used, AT)
    assert rule is not None
    assert rule.text == "0"
    assert " and " in rule.where
    assert np.array_equal(rule.of(AT), used)


def test_right_numbers_and_numbers_without_a_rule_have_none():
    assert find_rule(START + INDEX, AT) is None
    assert find_rule(np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]), AT) is None


def test_one_wrong_number_is_too_little_for_a_constant_and_a_condition():
    used = START + INDEX
    used[-1] += 7
    rule = find_rule(used, AT)
    assert rule is None or rule.constants <= 0


@pytest.mark.parametrize(
    ("used", "remedy"),
    [
        (START + INDEX + 3, f"Subtract 3: use {DECLARED} itself."),
        ((START + INDEX) // 4 * 4, f"Do not round {DECLARED} down to a multiple of 4: to divide it "
         "by 4, use /, not //."),
        (INDEX, f"Use {DECLARED}, in place of the index."),
        (np.where(INDEX % 2 == 1, INDEX, START + INDEX),
         f"Use {DECLARED}, also where the index modulo 2 is 1, in place of the index."),
        (START + INDEX - CALL, f"Do not subtract the call: use {DECLARED} itself."),
    ],
)  # fmt: skip
def test_the_remedy_of_a_rule(used, remedy):
    assert find_rule(used, AT).remedy == remedy


def test_conditions_are_evaluated_once_for_all_rules(monkeypatch):
    rng = np.random.default_rng(0)
    n = 600
    at = {DECLARED: rng.integers(9, 60, n), **{f"v{i}": rng.integers(0, 9, n) for i in range(12)}}
    wrong = np.isin(np.arange(n), [5, 90, 300])
    # Equal tokens of another call are right: no condition is enough, and all are tried.
    at = {name: np.concatenate([v, v[wrong]]) for name, v in at.items()}
    used = np.concatenate([np.where(wrong, 0, at[DECLARED][:n]), at[DECLARED][n:]])
    evaluated, atoms = Counter(), conditions._atoms

    def counted(*arguments):
        for one in atoms(*arguments):
            yield replace(one, of=lambda v, c=one: evaluated.update([c.text]) or c.of(v))

    monkeypatch.setattr(conditions, "_atoms", counted)
    assert find_rule(used, at) is None
    assert len(evaluated) > 20
    assert set(evaluated.values()) == {1}
