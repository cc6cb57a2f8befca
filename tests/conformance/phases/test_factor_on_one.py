"""A factor on cosines alone, or on sines alone, is named with its size."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check
from posenc_ref.conformance.phases.factor_mistakes import on_one
from tests.conformance.handwritten import HEAD_DIM, inv_freq, rope

ANGLE = np.arange(1, 33)[:, None] * inv_freq().astype(float)
EXACT = np.cos(ANGLE), np.sin(ANGLE)
HALF = RoPE(HEAD_DIM, layout="half")


@pytest.mark.parametrize(
    ("a", "b", "m", "text"),
    [
        (1.1, 1.0, 1.0, "only cos is multiplied by 1.1; the declared factor is 1"),
        (1.0, 0.5, 1.0, "only sin is multiplied by 0.5; the declared factor is 1"),
        (1.2, 1.0, 1.2, "only cos is multiplied by the attention factor 1.2, not cos and sin"),
        (1.0, 1.2, 1.2, "only sin is multiplied by the attention factor 1.2, not cos and sin"),
        (1.2, 1.44, 1.2, "sin is multiplied by 1.44, declared 1.2; cos is right"),
        (2.0, 3.0, 1.0, "cos is multiplied by 2, sin by 3, declared 1 for both"),
        (2.0, 2.0, 1.0, None),
        (1.0, 1.0, 1.0, None),
        (-1.0, 1.0, 1.0, None),
    ],
)
def test_different_factors_are_named(a, b, m, text):
    found = on_one((a * EXACT[0], b * EXACT[1]), EXACT, np.full(ANGLE.shape, 1e-5), m)
    assert (found and found[0]) == text


def test_values_of_other_angles_have_no_factor():
    seen = 1.1 * np.cos(1.01 * ANGLE), EXACT[1]
    assert on_one(seen, EXACT, np.full(ANGLE.shape, 1e-5), 1.0) is None


def stretched(c, s, p):
    """A factor on the cosines."""
    return 1.1 * c, -s, s, 1.1 * c


def test_the_report_of_apply_has_the_factor_and_the_true_frequencies():
    report = check(rope(block=stretched), HALF, "apply")
    (found,) = report.findings
    assert found.code == "amplitude"
    assert found.message == "only cos is multiplied by 1.1; the declared factor is 1"
    assert report.measured == f"{HEAD_DIM // 2} half-split pairs, frequencies 1 .. 0.001"


def test_the_report_of_tables_has_the_factor():
    def cos_sin(p):
        angle = p[:, None].astype(np.float32) * inv_freq()
        return np.cos(angle), np.float32(1.1) * np.sin(angle)

    (found,) = check(cos_sin, HALF, "cos_sin").findings
    assert found.code == "amplitude"
    assert found.message == "only sin is multiplied by 1.1; the declared factor is 1"
