"""Functions of whole grids: which positions they can serve, and what is reported of them."""

import functools

import numpy as np
import pytest

from posenc_ref import MultiAxisRoPE, RoPE
from posenc_ref.conformance import NoConvention, bind, check
from posenc_ref.conformance.calling.grids import MOST_TOKENS, Grid, whole
from posenc_ref.conformance.calling.signatures import inner, signature_of
from posenc_ref.conformance.harness.foreign import OwnLimit
from posenc_ref.vision_positions import grid_positions

AXIAL = MultiAxisRoPE(16, sections=(4, 4), layout="half", spacing="restart")


def rotated(x, height, width, encoding=AXIAL):
    return encoding.apply(x, grid_positions(height, width))


class OneGrid:
    def __init__(self, dim, feat_shape=(6, 9)):
        self.feat_shape = feat_shape

    def __call__(self, x):
        if x.shape[2] != self.feat_shape[0] * self.feat_shape[1]:
            raise ValueError("another grid")
        return rotated(x, *self.feat_shape)


def test_the_tokens_of_a_call_are_put_into_the_cells_of_a_grid():
    seen = []

    def call(vectors, sizes):
        seen.append((vectors["x"].shape, sizes))
        return vectors["x"] * np.arange(1, 1 + np.prod(sizes))[None, None, :, None]

    x = np.ones((2, 1, 3, 1))
    positions = np.array([[[0, 1, 1], [2, 0, 2]], [[3, 0, 2], [1, 1, 1]]])
    y = whole(Grid(2), call, {"x": x}, positions, "bhsd")
    assert seen == [((4, 1, 12, 1), (3, 4))]  # row 2, column 1 occurs twice: two more rows
    assert y[:, 0, :, 0].tolist() == [[4, 5, 7], [10, 2, 10]]


@pytest.mark.parametrize("layout", ["bhsd", "bshd", "sbhd", "bs(hd)", "thd", "t(hd)"])
def test_every_layout_gives_each_token_its_cell(layout):
    shape = {"bhsd": (2, 3, 4, 1), "bshd": (2, 4, 3, 1), "sbhd": (4, 2, 3, 1),
             "bs(hd)": (2, 4, 3), "thd": (8, 3, 1), "t(hd)": (8, 3)}[layout]  # fmt: skip
    x = np.arange(24.0).reshape(shape)
    at = np.stack([[[0, 1, 2, 3], [3, 2, 1, 0]], [[1, 0, 1, 0], [0, 1, 1, 2]]])
    at = at.reshape(2, -1) if layout in ("thd", "t(hd)") else at
    assert np.array_equal(whole(Grid(2), lambda v, sizes: v["x"], {"x": x}, at, layout), x)


@pytest.mark.parametrize(
    ("grid", "positions", "message"),
    [
        (Grid(2, own=(3, 5)), [[3], [0]], "cells of a grid of 3 x 5, the only one"),
        (Grid(2), [[-1], [0]], "cells of a grid of patches: integers >= 0"),
        (Grid(2), [[0.5], [0]], "integers >= 0"),
        (Grid(2), [[0], [0], [0]], "positions must be cells"),
        (Grid(2), [[], []], "at least one token"),
        (Grid(2), [[MOST_TOKENS], [1]], f"a grid of at most {MOST_TOKENS} tokens"),
    ],
)
def test_positions_outside_of_a_grid_are_refused(grid, positions, message):
    with pytest.raises(ValueError, match=message):
        grid.sizes(np.array(positions))


def test_cells_are_numbered_as_by_the_specification():
    for merge, frames in ((1, None), (2, None), (1, 3), (2, 3)):
        at = grid_positions(4, 6, frames=frames, merge_size=merge)
        sizes = (4, 6) if frames is None else (3, 4, 6)
        grid = Grid(len(at), merge=merge)
        assert grid.cells(at, sizes).tolist() == list(range(at.shape[1]))


def test_free_grids_are_never_square_unless_they_must_be():
    at = np.array([[4], [4]])
    assert Grid(2).sizes(at) == (5, 6)
    assert Grid(2, square=True).sizes(np.array([[4], [6]])) == (7, 7)
    assert Grid(2, merge=2).sizes(at) == (6, 8)


def test_an_object_of_one_grid_is_judged_on_all_its_cells():
    class LastCellWrong(OneGrid):
        def __call__(self, x):
            y = super().__call__(x)
            y[:, :, -1] = x[:, :, -1]
            return y

    assert check(bind(OneGrid(16), AXIAL)).passed
    report = check(bind(LastCellWrong(16), AXIAL))
    assert report.verdict == "deviates"
    assert "axes" in report.failed
    assert "the whole grid of 6 x 9" in report.called


def test_a_class_is_made_for_each_grid_unless_its_grid_is_given():
    assert "whole grids" in bind(OneGrid, AXIAL).how
    fixed = bind(OneGrid, AXIAL, init={"feat_shape": (8, 9)})
    assert "the whole grid of 8 x 9" in fixed.how
    with pytest.raises(ValueError, match="cells of a grid of 8 x 9"):
        fixed.call(np.zeros((1, 1, 1, 16)), np.array([[[8]], [[0]]]))


def test_positions_that_the_encoding_scales_are_no_cells():
    """DINOv3 counts from -1 to 1 whatever the size of the image."""
    scaled = AXIAL.replace(position_scale=2 * np.pi)
    with pytest.raises(NoConvention):
        bind(functools.partial(rotated, encoding=scaled), scaled)


def test_one_axis_has_no_grid():
    with pytest.raises(NoConvention):
        bind(rotated, RoPE(16, layout="half"))


def test_the_signature_inside_of_wrappers_is_read():
    def outer(function):
        def wrapper(*args):
            return function(*args)

        return wrapper

    wrapped = outer(rotated)
    assert inner(wrapped) is rotated
    assert list(signature_of(wrapped).parameters)[:3] == ["x", "height", "width"]
    assert "height" in bind(wrapped, AXIAL).how

    def several(*args):
        return outer(wrapped)(*args)

    assert inner(several) is several  # two functions: either may be the one inside


def test_methods_with_preset_arguments_are_methods():
    class Turns:
        def turn(self, x, positions, sign):
            return RoPE(16, layout="half").apply(x, sign * positions)

        rotate_back = functools.partialmethod(turn, sign=-1)

    found = bind(Turns(), RoPE(16, layout="half"))
    assert "rotate_back" in found.how
    assert check(found).codes == ["sign"]


CLIP = MultiAxisRoPE(12, sections=(2, 2, 2), layout="half", spacing="restart")


def clip(x, T, H, W):
    return CLIP.apply(x, grid_positions(H, W, frames=T))


def clip_by_height(x, T, H, W):
    cells = np.arange(T * H * W)
    return CLIP.apply(x, np.stack([cells // (H * H), cells // W % H, cells % W]))


def clip_without_frames(x, T, H, W):
    at = grid_positions(H, W, frames=T)
    return CLIP.apply(x, np.stack([0 * at[0], at[1], at[2]]))


@pytest.mark.parametrize(
    ("function", "codes"),
    [(clip, []), (clip_by_height, ["inaccurate"]), (clip_without_frames, ["rotary-dim"])],
)
def test_grids_of_frames_are_judged_to_the_end(function, codes):
    report = check(bind(function, CLIP))
    assert report.codes == codes
    assert report.verdict == ("deviates" if codes else "conforms")
    assert not report.missing


@pytest.mark.parametrize("calls", [0, 3, 9, 14, 30])
def test_a_limit_of_the_suite_is_no_finding(calls):
    """The function raised nothing: the suite did not make the call."""
    encoding = RoPE(16, layout="half")
    left = [calls]

    def at_first(x, positions):
        left[0] -= 1
        if left[0] < 0:
            raise OwnLimit("no such call is made")
        return encoding.apply(x, positions)

    report = check(at_first, encoding, "apply")
    assert report.verdict == "inconclusive"
    assert not report.codes
    assert any("no such call is made" in limit for limit in report.limits)


def merged_table(grid_thw, head_dim, spatial_merge_size=2):
    frames, height, width = grid_thw[0].tolist()
    at = grid_positions(height, width, frames=frames, merge_size=spatial_merge_size)[1:]
    return np.concatenate(AXIAL.cos_sin(at), axis=-1)


def with_table(q, k, cos_sin):
    cos, sin = cos_sin[None, None, :, :8], cos_sin[None, None, :, 8:]

    def turn(x):
        a, b = x[..., :8], x[..., 8:]
        return np.concatenate((a * cos - b * sin, b * cos + a * sin), axis=-1)

    return turn(q), turn(k)


def in_patches(x, H_patches, W_patches):
    return rotated(x, H_patches, W_patches)


class Base:
    def rotate(self, q, k, H, W):
        return rotated(q, H, W), rotated(k, H, W)


class Sub(Base):
    pass


class OneAxisAfterTheOther:
    """As in FLUX: the constructor takes the number of channels of every axis."""

    def __init__(self, theta, axes_dim):
        assert list(axes_dim) == [8, 8]

    def __call__(self, x, height, width):
        return rotated(x, height, width)


@pytest.mark.parametrize("target", [in_patches, Sub, OneAxisAfterTheOther])
def test_names_and_inherited_methods_are_found(target):
    assert "whole grids" in bind(target, AXIAL).how


def test_the_default_of_a_table_says_how_its_patches_are_numbered():
    found = bind(with_table, AXIAL, table=merged_table)
    assert "in blocks of 2 x 2" in found.how
    assert check(found).passed


class TableOfSize:
    def __init__(self, dim, height, width):
        self.at = grid_positions(height, width)

    def __call__(self):
        return np.concatenate(AXIAL.cos_sin(self.at), axis=-1)


def test_a_table_is_named_once_whatever_grids_it_takes():
    found = bind(with_table, AXIAL, table=TableOfSize)
    assert "whole grids" in found.how
    assert "also possible" not in found.how


class AnySquare:
    """Its attributes state no grid: a size is not known yet, and 4 rows are no image."""

    def __init__(self, dim, mean=np.zeros((4, 3))):  # noqa: B008
        self.img_size, self.input_size, self.mean = None, ("a", "b"), mean

    def __call__(self, x):
        side = int(x.shape[2] ** 0.5)
        return rotated(x, side, side)


def test_attributes_that_state_no_grid_are_passed_over():
    assert "whole square grids" in bind(AnySquare(16), AXIAL).how


def test_what_needs_the_number_of_axes_is_said():
    with pytest.raises(NoConvention, match="needs --axes 2, or --axes 3 with frames"):
        bind(OneGrid, head_dim=16)
    with pytest.raises(NoConvention, match="judged with the rotation that takes it, and --table"):
        bind(merged_table, AXIAL)
    with pytest.raises(NoConvention) as error:  # its call takes vectors
        bind(Sized, AXIAL)
    assert "--table" not in str(error.value)


class Sized:
    def __init__(self, dim, grid_size=14):
        pass

    def __call__(self, x):
        raise ValueError("never")


class ClipOfSize:
    """As in V-JEPA 2: one number is the side, another one counts the frames."""

    def __init__(self, dim, grid_size=14, grid_depth=8):
        self.sizes = grid_depth, grid_size + 0, grid_size

    def __call__(self, x):
        return clip(x, *self.sizes)


def test_the_depth_of_a_grid_is_its_frames():
    assert "whole square grids" in bind(ClipOfSize, CLIP).how
