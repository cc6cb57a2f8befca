"""What functions return, read without trust; and the ledger of a run that judged nothing."""

import pytest

from posenc_ref.conformance.harness.accuracy import NOTHING
from posenc_ref.conformance.harness.foreign import _list_shape
from posenc_ref.conformance.harness.ledger import Ledger
from posenc_ref.conformance.harness.report import Report


@pytest.mark.parametrize(
    ("value", "shape"),
    [([], (0,)), ([[], []], (2, 0)), ([[1, 2, 3]], (1, 3)), ((4.0,), (1,)), (7, ())],
)
def test_the_shape_of_lists(value, shape):
    assert _list_shape(value) == shape


def test_a_ledger_without_values_has_no_error():
    accuracy = Ledger(Report("f", "apply", "RoPE(4)", "numpy", "float32")).finish(128.0).accuracy
    assert (accuracy.worst, accuracy.where) == (0.0, NOTHING)
