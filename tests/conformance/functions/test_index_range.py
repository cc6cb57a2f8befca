"""Window indices: those that are no rows of a table have a note, wrong ones a cause."""

import numpy as np
import pytest

from posenc_ref.conformance import check


def index(of):
    def relative_index(window):
        h, w = window
        y, x = (a.ravel() for a in np.indices((h, w)))
        return of(y[:, None] - y, x[:, None] - x, h, w)

    return relative_index


OFF = {
    "dx + h - 1": lambda dy, dx, h, w: (dy + h - 1) * (2 * w - 1) + dx + h - 1,
    "no shift": lambda dy, dx, h, w: dy * (2 * w - 1) + dx,
    "no shift of dx": lambda dy, dx, h, w: (dy + h - 1) * (2 * w - 1) + dx,
    "one row too late": lambda dy, dx, h, w: (dy + h) * (2 * w - 1) + dx + w - 1,
    "with gaps": lambda dy, dx, h, w: (dy + h - 1) * (4 * w - 3) + dx + w - 1,
}


@pytest.mark.parametrize("words", OFF)
def test_indices_that_are_no_rows_conform_with_a_note(words):
    report = check(index(OFF[words]), None, "relative_index")
    assert report.verdict == "conforms"
    (note,) = report.findings
    assert (note.severity, note.code) == ("note", "table-offset")
    assert "(2h - 1)(2w - 1) rows" in note.message


def test_the_note_says_which_indices():
    (note,) = check(index(OFF["dx + h - 1"]), None, "relative_index").findings
    assert "in 7 of 10 windows" in note.message
    assert note.evidence.startswith("-1 .. 13 for 2 x 3, whose rows are 0 .. 14; ")


@pytest.mark.parametrize(
    "of",
    [
        lambda dy, dx, h, w: (dy + h - 1) * (2 * w - 1) + dx + w - 1,
        lambda dy, dx, h, w: (h - 1 - dy) * (2 * w - 1) + w - 1 - dx,
        lambda dy, dx, h, w: (dx + w - 1) * (2 * h - 1) + dy + h - 1,
    ],
)
def test_rows_of_a_table_have_no_note(of):
    report = check(index(of), None, "relative_index")
    assert report.verdict == "conforms"
    assert not report.findings


def test_coordinates_that_are_reshaped_in_place_of_transposed():
    def relative_index(window):
        h, w = window
        at = np.indices(window).reshape(-1, 2)
        dy, dx = np.moveaxis(at[:, None] - at, -1, 0)
        return (dy + h - 1) * (2 * w - 1) + dx + w - 1

    (finding,) = check(relative_index, None, "relative_index").findings
    assert finding.code == "token-order"
    assert "(2, N) are reshaped to (N, 2), not transposed" in finding.message


def test_a_wrong_factor_and_numbers_that_wrap_round():
    fn = index(
        lambda dy, dx, h, w: ((dy + h - 1) * 2 * w + dx + w - 1) % ((2 * h - 1) * (2 * w - 1))
    )
    (finding,) = check(fn, None, "relative_index").findings
    assert "the factor of dy is 2w, not 2w - 1" in finding.message
    assert finding.message.endswith("and the index wraps round at (2h - 1) (2w - 1)")


def test_unknown_collisions_are_shown_by_two_offsets():
    rows = OFF["no shift"]
    (finding,) = check(index(lambda *a: rows(*a) // 2), None, "relative_index").findings
    assert finding.code == "index-collision"
    assert "explains them: in a window of 2 x 2, (dy, dx) =" in finding.message
    assert "share an index" in finding.message
    assert finding.evidence.startswith("query 0, key ")


def test_an_offset_with_several_indices():
    rows = OFF["with gaps"]

    def relative_index(window):
        found = index(rows)(window).copy()
        found[1::3, 1::2] += 1000
        return found

    (finding,) = check(relative_index, None, "relative_index").findings
    assert "(dy, dx) = (0, 0) has several indices" in finding.message


def test_places_of_keys_that_are_counted_from_the_other_end():
    def relative_index(window):
        h, w = window
        y, x = (a.ravel() for a in np.indices((h, w)))
        dy = y[:, None] - (h - 1 - y)
        return (dy + h - 1) * (2 * w - 1) + x[:, None] - x + w - 1

    (finding,) = check(relative_index, None, "relative_index").findings
    assert finding.message.startswith("dy is the sum of both places, not their difference")


def test_a_strided_view_whose_rows_are_one_apart():
    def relative_shift(x):
        (i, j), flat = np.indices(x.shape), np.ravel(x)
        return flat[np.minimum(len(x) - 1 + i * x.shape[1] + j, flat.size - 1)]

    (finding,) = check(relative_shift, None, "relative_shift").findings
    assert "a step of K, not of K - 1, between rows" in finding.message
