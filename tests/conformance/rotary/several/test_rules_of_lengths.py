"""A mistake beside a rule of lengths is named too, where frequencies depend on the length."""

import numpy as np
import pytest

from posenc_ref import DynamicNTK, LongRoPE, QwenNTK, RoPE
from posenc_ref.conformance import check

LONG = RoPE(
    8, layout="half", scaling=LongRoPE([1.0, 1.05, 1.2, 1.5], [1.0, 3.0, 8.0, 20.0], 64, factor=32)
)
DYNAMIC = RoPE(16, layout="half", scaling=DynamicNTK(2.0, 128))
QWEN = RoPE(16, layout="half", scaling=QwenNTK(64))
TOKENS = "the number of tokens of a call is taken for its length"
NO_FACTOR = "the attention factor is missing"
AT_MOST_511 = "the declared position, clamped to at most 511"
OF_ROW_0 = "the position of the same token of row 0"


def declared(p, x):
    return p


def later(p, x):
    return p + 1


def clamped(p, x):
    return np.minimum(p, 511)


def of_row_0(p, x):
    return np.broadcast_to(p[:1], p.shape) if p.ndim > 1 else p


def index(p, x):
    return np.arange(x.shape[2])


def largest(p, x):
    return int(p.max()) + 1


def tokens(p, x):
    return x.shape[2]


def last(p, x):
    return max(int(p.max()), 1)


def turned(encoding, used=declared, length=largest, factor=1.0):
    """Return a function that uses other positions, other lengths, and another factor."""

    def fn(x, p):
        p = np.asarray(p)
        y = encoding.apply(x, used(p, x), seq_len=length(p, x))
        return (y * factor).astype(np.float32)

    return fn


CASES = {
    "clamp": (turned(LONG, clamped), LONG, [AT_MOST_511]),
    "row 0": (turned(DYNAMIC, of_row_0), DYNAMIC, [OF_ROW_0]),
    "index": (turned(QWEN, index), QWEN, ["the index in the call"]),
    "factor and tokens": (
        turned(LONG, length=tokens, factor=1 / LONG.attention_factor()), LONG, [NO_FACTOR, TOKENS],
    ),
    "origin and tokens": (turned(LONG, later, tokens), LONG, ["angles of position 1", TOKENS]),
    "clamp and tokens": (turned(DYNAMIC, clamped, tokens), DYNAMIC, [AT_MOST_511, TOKENS]),
    "row 0 and late": (turned(LONG, of_row_0, last), LONG, [OF_ROW_0, "one token late"]),
    "sign and late": (
        turned(DYNAMIC.replace(sign=-1), length=last), DYNAMIC, ["other way", "one token late"],
    ),
    "layout, factor and tokens": (
        turned(
            LONG.replace(layout="interleaved"), length=tokens, factor=1 / LONG.attention_factor()
        ),
        LONG, ["pairs are interleaved", NO_FACTOR, TOKENS],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_all_mistakes_are_named(name):
    fn, encoding, words = CASES[name]
    errors = [f for f in check(fn, encoding).findings if f.severity == "error"]
    assert len(errors) == len(words)
    said = " ".join(f.message for f in errors)
    assert all(text in said for text in words)
    assert "consistent with" not in said


def test_a_rule_of_positions_is_not_said_of_rows_where_it_does_not_hold():
    def used(p, x):
        row_0 = p.ndim > 1 and np.arange(len(p))[:, None] == 0
        return np.where(row_0, p, np.minimum(p, 511))

    errors = [f for f in check(turned(LONG, used), LONG).findings if f.severity == "error"]
    assert errors
    assert not any(AT_MOST_511 in f.message for f in errors)


def test_no_rule_of_lengths_is_reported_without_a_cause_where_positions_are_kept():
    kept = {}

    def fn(x, p):
        at = kept.setdefault((x.shape[2], np.shape(p)), np.array(p))
        return LONG.apply(x, np.minimum(at, 511), seq_len=largest(p, x)).astype(np.float32)

    report = check(fn, LONG)
    assert {f.code for f in report.findings if f.severity == "error"} == {"state"}


def test_a_second_mistake_that_has_no_name_replaces_nothing():
    def fn(x, p):
        y = turned(LONG, length=tokens)(x, p)
        return y + 0.01 * (np.asarray(p).max() > 700)

    report = check(fn, LONG)
    assert report.verdict == "deviates"
    assert not any("together with" in f.values for f in report.findings)


def test_positions_that_have_no_rule_leave_no_rule_of_lengths():
    def used(p, x):
        return np.where(p > 600, (7919 * p * p + 13) % 1009, p)

    report = check(turned(LONG, used, tokens), LONG)
    assert report.verdict == "deviates"
    assert not any("together with" in f.values for f in report.findings)
