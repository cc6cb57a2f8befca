"""Which of the two sizes of a grid comes first, by the names in the code that takes them."""

import numpy as np
import pytest

from posenc_ref import MultiAxisRoPE
from posenc_ref.conformance import bind, check
from posenc_ref.conformance.calling.size_order import own_members, width_first
from posenc_ref.conformance.cli.options.models import named_value

#: As SAM 2: the first channels follow the column, and sizes are (width, height).
COLUMNS_FIRST = MultiAxisRoPE(
    8, sections=(2, 2), layout="half", arrangement=(1, 1, 0, 0), spacing="restart"
)


def cells(end_x, end_y, divisor=None):
    token = np.arange(end_x * end_y)
    return np.stack([token // (divisor or end_x), token % (divisor or end_x)])


def turned(x, at):
    if x.shape[2] != at.shape[1]:
        raise ValueError("another grid")
    return COLUMNS_FIRST.apply(x, at)


class WidthFirst:
    def __init__(self, dim, feat_sizes=(6, 9)):
        self.at = cells(end_x=feat_sizes[0], end_y=feat_sizes[1])

    def __call__(self, x):
        return turned(x, self.at)


class DividedByHeight(WidthFirst):
    def __init__(self, dim, feat_sizes=(6, 9)):
        self.at = cells(end_x=feat_sizes[0], end_y=feat_sizes[1], divisor=feat_sizes[1])


class Unstated(WidthFirst):
    def __init__(self, dim, feat_sizes=(6, 9)):
        token = np.arange(feat_sizes[0] * feat_sizes[1])
        self.at = np.stack([token // feat_sizes[0], token % feat_sizes[0]])


class UnstatedWrong(WidthFirst):
    def __init__(self, dim, feat_sizes=(6, 9)):
        token = np.arange(feat_sizes[0] * feat_sizes[1])
        self.at = np.stack([token // feat_sizes[0], 1 + token % feat_sizes[0]])


def unpacked(x, size):
    height, width = size
    return x[:height, :width]


def by_place(x, size):
    return cells(*size)


def by_item(x, size):
    return cells(size[0], size[1])


def handed_on(x, size):
    return unpacked(x, size)


class Kept:
    def __init__(self, img_size, patch_size=16):
        self.grid = (img_size[0] // patch_size, img_size[1] // patch_size)

    def __call__(self, x):
        w, h = self.grid
        return x[:h, :w]


class Inherited(Kept):
    pass


def contradictory(x, size):
    height, width = size
    return cells(end_x=size[0], end_y=size[1]), height, width


def computed(x, size):
    height = size[0] * size[1]
    return x[:height]


Unread = dict  # a class whose parameters cannot be read


def handed_to_the_unread(x, size):
    return Unread(size)


@pytest.mark.parametrize(
    ("call", "name", "expected"),
    [
        (handed_to_the_unread, "size", None),
        (computed, "grid_hw", False),
        (computed, "feat_shape", False),
        (computed, "size_wh", True),
        (WidthFirst, "feat_sizes", True),
        (unpacked, "size", False),
        (by_place, "size", True),
        (by_item, "size", True),
        (handed_on, "size", False),
        (Kept, "img_size", True),
        (Inherited, "img_size", True),
        (contradictory, "size", None),
        (computed, "size", None),
        (len, "size", None),
    ],
)
def test_names_state_the_order(call, name, expected):
    assert width_first(call, name) is expected


def test_a_pair_is_passed_in_the_order_of_its_code():
    found = bind(WidthFirst, COLUMNS_FIRST)
    assert "feat_sizes = (width, height)" in found.how
    assert check(found).verdict == "conforms"
    assert check(bind(DividedByHeight, COLUMNS_FIRST)).codes == ["axis-order"]


@pytest.mark.parametrize("value", ["[9,6]", "(9, 6)"])
def test_a_given_grid_is_read_in_the_same_order(value):
    init = dict([named_value(f"feat_sizes={value}", "--init")])
    found = bind(WidthFirst, COLUMNS_FIRST, init=init)
    assert "the whole grid of 6 x 9, feat_sizes = (width, height)" in found.how
    assert check(found).passed


def test_squares_alone_are_judged_if_nothing_states_the_order():
    found = bind(Unstated, COLUMNS_FIRST)
    assert "whole square grids" in found.how
    assert "whether height or width is first in feat_sizes is not known" in found.how
    assert check(found).passed
    assert not check(bind(UnstatedWrong, COLUMNS_FIRST)).passed
    one = bind(Unstated, COLUMNS_FIRST, init={"feat_sizes": (9, 6)})
    assert "is not known: height is taken" in one.how


def test_what_frameworks_define_is_not_the_users():
    framework = type("Module", (), {"__module__": "torch.nn", "rope": unpacked})
    user = type("Rope", (framework,), {"__module__": "mine", "rotate": unpacked})
    assert "rotate" in own_members(type("Sub", (user,), {}))
    assert "rope" not in own_members(user)
    assert "rope" in own_members(framework)  # asked for itself
