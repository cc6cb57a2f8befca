"""A cause is asserted only if further calls do not refute it; the mended function is judged."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check

ROPE = RoPE(16, layout="half")
BASE = ROPE.replace(base=500.0)


def test_a_cause_that_holds_for_one_head_alone_explains_a_part():
    def one_head(x, p):
        return (BASE if x.shape[1] == 1 else ROPE).apply(x, p).astype(np.float32)

    report = check(one_head, ROPE, "apply")
    assert report.verdict == "deviates"
    assert not report.findings[0].message.startswith("the base is"), report


def test_a_cause_that_holds_everywhere_is_asserted():
    report = check(lambda x, p: BASE.apply(x, p).astype(np.float32), ROPE, "apply")
    assert report.findings[0].message.startswith("the base is 500")


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (ROPE.replace(sign=-1), "negated before and after, the function conforms"),
        (RoPE(16, layout="interleaved"), "back after, the function conforms"),
    ],
    ids=["sign", "layout"],
)
def test_the_mended_function_is_judged(other, words):
    report = check(lambda x, p: other.apply(x, p).astype(np.float32), ROPE, "apply")
    assert words in report.findings[0].remedy, report.findings[0].remedy


@pytest.mark.nightly
def test_a_mended_function_with_a_second_fault_does_not_conform():
    def twice(x, p):  # the other layout, and another token's position from 300 on
        return RoPE(16, layout="interleaved").apply(x, np.minimum(p, 300)).astype(np.float32)

    remedy = check(twice, ROPE, "apply").findings[0].remedy
    assert "the function conforms" not in remedy
