"""Reports that contradict themselves are refused."""

import pytest

from posenc_ref.conformance import Accuracy, Report
from posenc_ref.conformance.harness.received import report_of


def green(**changes):
    fields = {
        "accuracy": Accuracy(1.0, 128.0, "case"), "executed": {"values": 3},
        "controls": {"one NaN": True},
    }  # fmt: skip
    return Report("fn", "apply", "R", "numpy", "float32", **fields | changes).to_dict()


def test_a_consistent_report_is_read():
    assert report_of(green()).verdict == "conforms"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"accuracy": Accuracy(1.7e5, 128.0, "case")}, r"at most its budget \(128.0\), got 170000"),
        ({"accuracy": Accuracy(float("inf"), 128.0, "case")}, "got inf"),
        ({"accuracy": Accuracy(-1.0, 128.0, "case")}, "got -1"),
        ({"failed": {"values": ["base"]}}, "'values' failed with 'base', and no finding"),
        ({"executed": {"values": 3, "state": -1}}, "'state' must have executed 0 or more"),
        ({"executed": {}}, "no check executed a case"),
    ],
)
def test_a_report_that_contradicts_itself_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        report_of(green(**changes))
