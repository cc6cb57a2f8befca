"""What the report of a wrong rotation says, where another explanation is near."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check
from posenc_ref.conformance.rotary.judge_equivalence import order_of
from posenc_ref.conformance.rotary.length_rules import length_rules
from posenc_ref.conformance.rotary.structure import _token_index
from tests.night import by_day

HALF = pr.RoPE(16, layout="half")
OTHER = HALF.replace(layout="interleaved")


def heads_as_positions(x, positions):
    return np.swapaxes(OTHER.apply(np.swapaxes(x, 1, 2), np.arange(x.shape[1])), 1, 2)


def counted(x, positions):
    if not np.array_equal(positions, np.arange(positions.size) + positions[0]):
        raise ValueError("positions must be consecutive")
    return HALF.apply(x, np.arange(positions.size))


def across_the_head(x, positions):
    cos, sin = PART.cos_sin(positions, dtype="float64")
    cos, sin = (t[:, :4].astype(x.dtype) for t in (cos, sin))
    a, b = x[..., :4], x[..., 8:12]
    y = x.copy()
    y[..., :4], y[..., 8:12] = a * cos - b * sin, b * cos + a * sin
    return y


def wide(right, wrong):
    """Return a function that is wrong for calls of 8 heads."""
    return lambda x, p: (wrong if x.shape[1] == 8 else right)(x, p)


PART = HALF.replace(rotary_dim=8)
CASES = {
    "heads": (heads_as_positions, HALF, "position-axis", "the head index is taken for"),
    "counted": (counted, HALF, "decode-offset", "the position used is the index in the call"),
    "slice": (across_the_head, PART, "layout", "pairs reach across the whole head"),
    "wide layout": (
        wide(HALF.apply, OTHER.apply), HALF, "layout", "(2, 8, 64), pairs are interleaved",
    ),
    "wide shift": (
        wide(HALF.apply, lambda x, p: HALF.apply(x, np.asarray(p) + 1)), HALF,
        "wrong-row", "(2, 8, 64), 1024 of 1024 tokens are wrong",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", by_day(CASES, CASES.keys() - {"wide shift"}))
def test_the_explanation(case):
    function, encoding, code, words = CASES[case]
    report = check(function, encoding, "apply")
    assert report.codes == [code], report
    assert words in report.findings[0].message


def test_the_length_that_a_rule_sees():
    early, late, never = list(length_rules(HALF.replace(scaling=pr.DynamicNTK(2.0, 64)), [64]))[:3]
    assert [early.seen(n) for n in (1, 64)] == [2, 65]
    assert [late.seen(n) for n in (1, 64)] == [1, 63]
    assert [never.seen(n) for n in (1, 64)] == [0, 0]


LONG = HALF.replace(scaling=pr.LongRoPE((1.0,) * 8, (4.0,) * 8, 4096, factor=32.0))


@pytest.mark.parametrize(
    ("lengths", "words"),
    [
        ([4096, 4097, 131072, 131073], "changes the frequencies after length 131072"),
        ([4096, 4097, 131072], "keeps the frequencies of short calls up to length 131072"),
        ([32, 4095, 4096], "changes the frequencies between lengths 32 and 4095"),
        ([4095, 4096], "has the frequencies of long calls from length 4095 on"),
        ([], "keeps the frequencies of short calls in calls past length 4096"),
        ([], "has the frequencies of long calls in calls up to length 4096 too"),
    ],
)
def test_a_rule_names_judged_lengths_alone(lengths, words):
    said = [rule.message for rule in length_rules(LONG, lengths) if rule.encoding is LONG]
    assert f"LongRoPE {words}" in {message.partition(", declared")[0] for message in said}
    named = {int(number) for message in said for number in re.findall(r"\d+", message)}
    assert named <= {*lengths, 4096, 4097}


def test_an_early_change_is_placed_between_two_judged_lengths():
    def early(x, positions):
        return LONG.apply(x, positions, seq_len=4097 if np.max(positions) >= 1000 else 4096)

    (finding,) = check(early, LONG, "apply").findings
    assert finding.message == (
        "LongRoPE changes the frequencies between lengths 32 and 4095, declared after 4096"
    )
    assert "2048" not in finding.remedy


def test_the_order_of_the_channels_of_a_result():
    def measured(*pairs):
        made = [SimpleNamespace(a=a, b=b, out_a=c, out_b=d) for a, b, c, d in pairs]
        return SimpleNamespace(pairs=made, moved={})

    four = pr.RoPE(4, layout="half")
    assert order_of(four, measured((0, 2, 0, 1), (1, 3, 2, 3))).tolist() == [0, 2, 1, 3]
    assert order_of(four, measured((0, 1, 0, 1), (2, 3, 2, 3))) is None
    assert order_of(four, measured((0, 2, 0, 1), (1, 3, 1, 3))) is None


@pytest.mark.parametrize(("apply", "is_index"), [(counted, True), (HALF.apply, False)])
def test_the_index_of_a_token_is_told_from_its_position(apply, is_index):
    said = []
    run = SimpleNamespace(
        driver=SimpleNamespace(apply=apply),
        random=lambda shape, seed: np.random.default_rng(seed).standard_normal(shape),
        add=lambda *finding: said.append(finding[0]),
    )
    assert _token_index(run, HALF) is is_index
    assert said == ["decode-offset"] * is_index
