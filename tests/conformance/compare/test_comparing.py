"""Parts of a comparison: which report of B counts, and which results are identical."""

from types import SimpleNamespace

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance.compare.comparing import Comparing
from posenc_ref.conformance.compare.comparison import Difference
from posenc_ref.conformance.compare.side import Two

ROPE = RoPE(8, layout="half")


@pytest.mark.parametrize(
    ("surface", "strict", "report", "counts"),
    [
        ("apply", False, "of the card", "of the card"),
        ("apply", True, "of the card", "new"),  # the card's was not strict
        ("apply", False, None, "new"),
        ("apply_qk", False, "of the card", "new"),  # the card is of the queries alone
    ],
)
def test_b_is_checked_again_unless_its_card_says_all(surface, strict, report, counts):
    view = SimpleNamespace(encoding=lambda encoding: encoding)
    comparing = SimpleNamespace(
        surface=surface, strict=strict, view=view, _size=8, b=None, _check=lambda fn, e: "new"
    )
    card = SimpleNamespace(surface=surface, encoding=ROPE, softmax_scale=None, report=report)
    assert Comparing._judged_b(comparing, card, ROPE) == (ROPE, counts)


@pytest.mark.parametrize(("last", "identical"), [(np.nan, True), (2.0, False)])
def test_results_that_are_not_numbers_are_identical(last, identical):
    results = {"a": np.array([1.0, last]), "b": np.array([1.0, np.nan])}
    two = Two(SimpleNamespace(name="a"), SimpleNamespace(name="b"), Difference())
    assert two.called(lambda side: results[side.name], "a call") is not None
    assert two.difference.identical is identical
