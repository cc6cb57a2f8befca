"""Grids that nothing states: a table or the results show their sides, or calls find them."""

import numpy as np
import pytest

from posenc_ref import MultiAxisRoPE
from posenc_ref.conformance import bind, check
from posenc_ref.conformance.calling.grid_search import sides_by_trial, sides_of
from posenc_ref.vision_positions import grid_positions
from tests.night import by_day

AXIAL = MultiAxisRoPE(16, sections=(4, 4), layout="half", spacing="restart")
VIDEO = MultiAxisRoPE(24, sections=(4, 4, 4), layout="interleaved", spacing="restart")


def rotated(x, *sizes, encoding=AXIAL):
    frames = {"frames": sizes[0]} if len(sizes) == 3 else {}
    return encoding.apply(x, grid_positions(*sizes[-2:], **frames))


def angles(height, width):
    """The angles of all patches, written here: (height * width, 8)."""
    w = 10000.0 ** (-np.arange(4) / 4)
    row, column = np.divmod(np.arange(height * width), width)
    return np.concatenate([row[:, None] * w, column[:, None] * w], axis=-1)


class Stated:
    """6 x 9 patches, in numbers whose names say nothing."""

    def __call__(self, x):
        if x.shape[2] != 6 * 9:
            raise ValueError("another image")
        return rotated(x, 6, 9)


class Tabled:
    """A table of 6 x 9 patches, with or without a row for a class token."""

    before = 0

    def __init__(self):
        rows = np.concatenate([np.zeros((self.before, 8)), angles(6, 9)])
        self.c, self.s = (f(rows).astype(np.float32) for f in (np.cos, np.sin))

    def __call__(self, x):
        one, two = np.split(x, 2, axis=-1)
        turned = (one * self.c - two * self.s, two * self.c + one * self.s)
        return np.concatenate(turned, axis=-1)


class AfterOne(Tabled):
    before = 1


def turned_grid(x):
    """The patches of 6 x 9, numbered as if there were 9 rows."""
    return Tabled.__call__(TURNED, x)


TURNED = Tabled()
TURNED.c, TURNED.s = (
    t.reshape(9, 6, 8).swapaxes(0, 1).reshape(54, 8)
    for t in (np.cos(angles(9, 6)).astype(np.float32), np.sin(angles(9, 6)).astype(np.float32))
)


@pytest.mark.parametrize("made", [Stated, Tabled, AfterOne])
def test_the_only_grid_is_found(made):
    found = bind(made(), AXIAL)
    where = "6 x 9 after a class token" if made is AfterOne else "6 x 9"
    assert f"the whole grid of {where}, row by row" in found.how
    assert check(found).passed


@pytest.mark.nightly
def test_patches_in_another_order_are_no_other_grid():
    """Their rows and columns are those of a 6 x 9 grid, exchanged."""
    report = check(turned_grid, AXIAL)
    assert report.codes == ["axis-order"], str(report)


def test_sides_are_those_whose_rows_and_columns_are_equal():
    assert sides_of(angles(6, 9)) == [(6, 9)]
    assert sides_of(np.exp(1j * angles(9, 6))) == [(9, 6)]
    assert sides_of(angles(7, 7)) == [(7, 7)]
    assert sides_of(np.arange(54.0)[:, None] * [1.0, 0.1]) == []  # numbered from 0 to 53
    assert sides_of(angles(54, 1)) == []
    assert sides_by_trial(lambda n: angles(6, 9) if n == 54 else None) == (6, 9)
    assert sides_by_trial(lambda n: None) is None


def whole_only(order):
    def fn(x, positions):
        height, width = (int(axis.max()) + 1 for axis in positions)
        every = grid_positions(height, width)
        if positions.shape[-1] != height * width or (positions != every[:, None]).any():
            raise ValueError("positions must be those of a whole grid")
        return AXIAL.apply(x, every[order])

    return fn


@pytest.mark.parametrize("surface", by_day((None, "apply"), ("apply",)))
def test_functions_that_take_the_positions_of_whole_grids_only(surface):
    report = check(whole_only([0, 1]), AXIAL, surface, max_position=128)
    assert report.passed, str(report)
    assert any("only whole grids are judged" in text for text in report.limits)
    assert check(whole_only([1, 0]), AXIAL, surface, max_position=128).codes == ["axis-order"]


def test_a_function_that_fails_on_whole_grids_too_is_no_function_of_grids():
    def fn(x, positions):
        raise ZeroDivisionError

    report = check(fn, AXIAL, "apply")
    assert report.codes == ["raises"]
    assert not report.called


def wan(x, grid_sizes, first=0):
    """x (B, S, H, D); a row of grid_sizes for each row of the batch, as in Wan."""
    rows = []
    for row, sizes in zip(x, grid_sizes.tolist(), strict=True):
        n = int(np.prod(sizes))
        y = rotated(np.moveaxis(row[None, :n], 1, 2), *sizes, encoding=VIDEO)
        rows.append(np.concatenate([np.moveaxis(y, 2, 1)[0], row[n:]]))
    return np.stack(rows)


@pytest.mark.nightly
def test_each_row_of_a_batch_has_its_grid():
    found = bind(wan, VIDEO)
    assert "whole grids, row by row; positions are frame, row and column" in found.how
    assert check(found).passed


@pytest.mark.nightly
def test_squares_alone_are_a_limit():
    def fn(x, positions):
        side = int(positions.max()) + 1
        if x.shape[2] != side**2:
            raise ValueError("not square")
        return whole_only([0, 1])(x, positions)

    limits = check(fn, AXIAL).limits
    assert "grids of unequal sides are not judged: the function states one side" in limits
