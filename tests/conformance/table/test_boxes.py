"""Wrong coordinates of boxes, and two mistaken fields of a table of boxes or of Time2Vec."""

import numpy as np
import pytest

from posenc_ref import BoxSine, Time2Vec
from posenc_ref.angles import geometric
from posenc_ref.conformance import check

BOXES = BoxSine(16)
WAVES = Time2Vec(
    np.array([0.3, 1.0, 0.5, 0.12, 0.031, 0.0075]), np.array([0.1, -0.4, 0.7, 1.1, -1.3, 0.2])
)


def table_of_boxes(convert, scale=1.0):
    def table(boxes):
        v = convert(*np.asarray(boxes, np.float64))
        return BOXES.table(scale * np.stack(v), dtype="float64")

    return table


@pytest.mark.parametrize(
    ("convert", "words"),
    [
        (lambda x, y, w, h: (x - w / 2, y - h / 2, w, h), "x, y are the first corner"),
        (lambda x, y, w, h: (x, y, x + w, y + h), "w, h are the last corner, x + w and y + h"),
        (lambda x, y, w, h: ((x + w) / 2, (y + h) / 2, w - x, h - y), "are taken for corners"),
        (lambda *v: [np.clip(c, 0, 1) for c in v], "are clamped to 0 .. 1"),
    ],
)
def test_boxes_converted_to_other_numbers(convert, words):
    report = check(table_of_boxes(convert), BOXES, "table")
    (finding,) = report.findings
    assert f"the coordinates {words}" in finding.message
    assert finding.remedy == "Use the coordinates x, y, w, h as they are passed."


def test_boxes_in_space_with_their_last_corner():
    boxes = BoxSine(24, axes="xyzwhd", axis_order="xyzwhd")

    def table(v):
        v = np.asarray(v, np.float64)
        return boxes.table(np.concatenate([v[:3], v[:3] + v[3:]]), dtype="float64")

    (finding,) = check(table, boxes, "table").findings
    assert "w, h, d are the last corner, x + w and y + h and z + d" in finding.message


def test_exchanged_coordinates_and_a_factor_that_is_applied_twice():
    fn = table_of_boxes(lambda x, y, w, h: (y, x, w, h), BOXES.scale)
    report = check(fn, BOXES, "table")
    assert report.codes == ["position-scale", "axis-order"]
    assert "the scale 6.28319 of the coordinates is squared" in report.findings[0].message
    assert report.findings[0].remedy == "Multiply the coordinates by 6.28319, once."


def test_time2vec_with_cosines_in_all_columns():
    def table(t):
        t = np.asarray(t, np.float64)[:, None]
        return np.cos(WAVES.weight * t + WAVES.bias)

    report = check(table, WAVES, "table")
    messages = {finding.message for finding in report.findings}
    assert messages == {
        "cos is used, declared sin",
        "the linear component has the same function as the others",
    }


def test_equal_frequencies_are_computed_once():
    assert geometric(10000, [1, 2]) is geometric(10000.0, (1, 2))


def in_halves(rows):
    """Return rows whose coordinates have all their sines before their cosines."""
    return np.concatenate([rows[:, 4 * c : 4 * c + 4][:, [0, 2, 1, 3]] for c in range(4)], axis=1)


def test_another_base_beside_another_order_of_columns():
    other = BOXES.replace(base=20.0)
    report = check(lambda boxes: in_halves(other.table(boxes, dtype="float64")), BOXES, "table")
    base, layout = report.findings
    assert base.message == "the base is 20, declared 10000"
    assert layout.message.startswith("the columns are permuted: in order, they are the declared")


def test_other_coordinates_beside_another_order_of_columns():
    corners = table_of_boxes(lambda x, y, w, h: (x, y, x + w, y + h))
    report = check(lambda boxes: in_halves(corners(boxes)), BOXES, "table")
    place, layout = report.findings
    assert "w, h are the last corner, x + w and y + h" in place.message
    assert layout.code == "layout"
