"""Biases whose queries stand at other keys than the last ones, by a rule that has a name."""

import numpy as np
import pytest

from posenc_ref import ALiBi, T5Bias
from posenc_ref.conformance import check

TABLE = np.random.default_rng(5).standard_normal((32, 1)).astype(np.float32)
CAUSAL, BOTH = T5Bias(TABLE, bidirectional=False), T5Bias(TABLE)
RULES = {
    "query i sits at key i": lambda q, k: np.arange(q),
    "every query sits at the last key": lambda q, k: np.full(q, k - 1),
    "every query is shifted by +1": lambda q, k: np.arange(k - q, k) + 1,
    "every query is shifted by -1": lambda q, k: np.arange(k - q, k) - 1,
}


def placed(encoding, at):
    return lambda q, k: encoding.bias(at(q, k), np.arange(k)).astype(np.float32)


@pytest.mark.parametrize(
    ("encoding", "words"),
    [*((CAUSAL, words) for words in RULES), (BOTH, "every query sits at the last key")],
)
def test_the_rule_is_named(encoding, words):
    (finding,) = check(placed(encoding, RULES[words]), encoding, "bias").findings
    assert finding.code == "bias-alignment"
    assert finding.message == f"queries are not aligned with the last keys: {words}"


def test_alibi_says_the_same():
    encoding = ALiBi(1)
    rule = "query i sits at key i"
    (finding,) = check(placed(encoding, RULES[rule]), encoding, "bias").findings
    assert finding.message.endswith(rule)


def test_queries_at_the_end_are_where_they_belong():
    for encoding in (CAUSAL, BOTH):
        assert check(placed(encoding, lambda q, k: np.arange(k - q, k)), encoding, "bias").passed


def test_a_number_that_does_vary_is_said_to():
    encoding = BOTH
    fn = placed(encoding, lambda q, k: np.arange(k - q, k) + k % 3)
    (finding,) = check(fn, encoding, "bias").findings
    assert finding.message.endswith("the shift differs between calls")
