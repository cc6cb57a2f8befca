"""Patches at real places that follow from the sizes of a grid in another way than declared."""

import numpy as np
import pytest

from posenc_ref import DETRSine, Sinusoidal2D
from posenc_ref.conformance import check


def grid_of(encoding, places):
    """Return a function of grids whose patches are at ``places(row, column, height, width)``."""

    def grid(h, w):
        at = np.stack(places(*np.divmod(np.arange(h * w), w), h, w))
        return encoding.table(at.astype(np.float64), dtype="float64")

    return grid


def padded(n, m=4):
    return -(-n // m) * m


def of_detr(count, size):
    return 2 * np.pi * (count + 1) / (size + 1e-6)


PLAIN, BY_COLUMNS, DETR = Sinusoidal2D(32), Sinusoidal2D(16, flatten="columns"), DETRSine(24)


@pytest.mark.parametrize(
    ("encoding", "places", "words"),
    [
        pytest.param(
            PLAIN, lambda y, x, h, w: (y * 14 // h, x * 14 // w),
            "of rows is 14 * row / height, rounded down; ", id="nearest of 14 x 14",
        ),
        pytest.param(
            PLAIN, lambda y, x, h, w: ((y + 0.5) * 7 / h - 0.5, x),
            "of rows is 7 * (row + 0.5) / height - 0.5", id="bilinear",
        ),
        pytest.param(
            PLAIN, lambda y, x, h, w: (y, 15 * x / max(w - 1, 1)),
            "of columns is 15 * column / (width - 1)", id="corners aligned",
        ),
        pytest.param(
            DETR, lambda y, x, h, w: (of_detr(y, padded(h)), of_detr(x, padded(w))),
            "of rows is 6.28319 * (row + 1) / (height padded to a multiple of 4); ", id="padded",
        ),
        pytest.param(
            DETR, lambda y, x, h, w: (of_detr(y % w, w), of_detr(x, w)),
            "of rows is 6.28319 * ((row modulo width) + 1) / width", id="rows by the width",
        ),
    ],
)  # fmt: skip
def test_places_that_follow_from_the_size_of_the_grid(encoding, places, words):
    (finding,) = check(grid_of(encoding, places), encoding, "grid").findings
    assert finding.code == "position-scale"
    assert finding.message.startswith(f"the place of a patch on the axis {words}")
    assert "predicts every patch of 34 grids" in finding.evidence


def test_columns_repeated_by_the_width():
    def grid(h, w):
        n = np.arange(h * w)
        return BY_COLUMNS.table(np.stack([n % h, n // w % w]), dtype="float64")

    (finding,) = check(grid, BY_COLUMNS, "grid").findings
    assert finding.message == (
        "the place of a patch on the axis of columns is (number of the patch // width) modulo width"
    )
    assert "column = token // height" in finding.remedy


def test_places_that_follow_no_rule_are_not_named():
    noise = np.random.default_rng(1).random(2000)
    small = Sinusoidal2D(8)
    fn = grid_of(small, lambda y, x, h, w: (y + noise[: y.size], x))
    report = check(fn, small, "grid")
    assert not report.passed
    assert not any("place of a patch" in finding.message for finding in report.findings)


def test_coordinates_that_are_divided_by_themselves():
    """The last element along the wrong axis is the coordinate itself."""
    fn = grid_of(DETR, lambda y, x, h, w: (of_detr(y, y + 1), of_detr(x, x + 1)))
    (finding,) = check(fn, DETR, "grid").findings
    assert finding.message.startswith("the divisor of both axes is the number itself")
