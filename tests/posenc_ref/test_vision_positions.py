"""Grids of patches: against plain loops, and against the code of transformers."""

import importlib
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_ref import grid_positions, linspace_positions, patch_centres, with_unplaced
from posenc_ref.accuracy import BUDGET, Truth

SIDES = st.integers(1, 7)


@given(height=SIDES, width=SIDES, merge=st.integers(1, 3), origin=st.integers(-2, 2))
def test_blocks_in_reading_order(height, width, merge, origin):
    height, width = height * merge, width * merge
    want = [
        (origin + row, origin + column)
        for top in range(0, height, merge)
        for left in range(0, width, merge)
        for row in range(top, top + merge)
        for column in range(left, left + merge)
    ]
    positions = grid_positions(height, width, merge_size=merge, origin=origin)
    assert positions.dtype == np.int64
    assert positions.T.tolist() == [list(pair) for pair in want]


@given(height=SIDES, width=SIDES, frames=st.integers(1, 4))
def test_frames_follow_each_other(height, width, frames):
    want = [[t, r, c] for t in range(frames) for r in range(height) for c in range(width)]
    assert grid_positions(height, width, frames=frames).T.tolist() == want
    stop = (float(height), float(width))
    assert linspace_positions(height, width, stop=stop, frames=frames).T.tolist() == want


@given(n=st.integers(1, 9))
def test_positions_around_the_centre(n):
    """Qwen-Image takes -(n - n // 2) .. -1 from one table and 0 .. n // 2 - 1 from another."""
    rows = grid_positions(n, 1, origin="centre")[0].tolist()
    assert rows == [*range(-(n - n // 2), 0), *range(n // 2)]


@given(height=SIDES, width=SIDES)
def test_centres_of_patches(height, width):
    centres = patch_centres(height, width)
    for (row, column), (y, x) in zip(np.ndindex(height, width), centres.T.tolist(), strict=True):
        assert y == float(Fraction(2 * row + 1, height) - 1)
        assert x == float(Fraction(2 * column + 1, width) - 1)


@given(
    height=SIDES,
    width=SIDES,
    start=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    extent=st.tuples(st.integers(1, 40), st.integers(1, 40)),
)
def test_a_grid_laid_over_another(height, width, start, extent):
    stop = tuple(a + b for a, b in zip(start, extent, strict=True))
    positions = linspace_positions(height, width, start=start, stop=stop)
    want = [
        (start[0] + Fraction(row * extent[0], height), start[1] + Fraction(col * extent[1], width))
        for row, col in np.ndindex(height, width)
    ]
    exact = np.array([[float(part) for part in pair] for pair in want]).T
    truth = Truth(exact, np.abs(exact), np.zeros(()))
    assert truth.score(positions).max() <= BUDGET["float64"]
    # What diffusers 0.42 takes agrees where the crop starts at 0, and only there.
    theirs = np.linspace(start[0], stop[0] * (height - 1) / height, height)
    agrees = truth.score(np.stack([np.repeat(theirs, width), exact[1]])).max() <= BUDGET["float64"]
    assert agrees == (start[0] == 0 or height == 1)


def test_tokens_without_a_position():
    grid = grid_positions(1, 2, origin=1)
    assert with_unplaced(grid, after=1).tolist() == [[1, 1, 0], [1, 2, 0]]
    assert with_unplaced(grid, before=2).tolist() == [[0, 0, 1, 1], [0, 0, 1, 2]]
    assert with_unplaced(patch_centres(1, 1), before=1).dtype == np.float64


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: grid_positions(0, 2), ValueError, "height must be at least 1"),
        (lambda: grid_positions(2, 2.0), TypeError, "width must be an integer"),
        (lambda: grid_positions(4, 6, merge_size=4), ValueError, "merge_size must divide.*4 x 6"),
        (lambda: grid_positions(2, 2, frames=0), ValueError, "frames must be at least 1"),
        (lambda: grid_positions(2, 2, origin="center"), ValueError, "libraries call 'center'"),
        (lambda: grid_positions(2, 2, origin=0.5), TypeError, "origin must be an integer"),
        (lambda: linspace_positions(2, 2, stop=4), TypeError, "stop must be two numbers"),
        (
            lambda: linspace_positions(2, 2, start=(0, 4), stop=(4, 4)),
            ValueError,
            "stop must be greater than start on axis w",
        ),
        (lambda: with_unplaced([1, 2]), ValueError, r"positions must have shape \(A, N\)"),
        (lambda: with_unplaced([[1]], before=-1), ValueError, "before must be at least 0"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


# -- transformers --------------------------------------------------------------------------------


@given(
    grids=st.lists(st.tuples(st.integers(1, 3), SIDES, SIDES), min_size=1, max_size=3),
    merge=st.integers(1, 3),
)
def test_vision_towers_of_the_qwen_family(grids, merge):
    torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
    theirs = pytest.importorskip(
        "transformers.vision_utils", reason="transformers is what is compared with"
    ).get_vision_position_ids
    grids = [(t, h * merge, w * merge) for t, h, w in grids]
    mine = [grid_positions(h, w, frames=t, merge_size=merge) for t, h, w in grids]
    mine = np.concatenate(mine, axis=1)
    with_time = theirs(torch.tensor(grids), merge, include_temporal=True)
    assert (mine == with_time.numpy().T).all()
    assert (mine[1:] == theirs(torch.tensor(grids), merge).numpy().T).all()


@given(side=st.integers(1, 6))
def test_llama_4(side):
    """x first, from 1, CLS last at angle 0: read off the angles of the slowest pair."""
    torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
    pytest.importorskip("transformers", reason="transformers is what is compared with")
    module = importlib.import_module("transformers.models.llama4.modeling_llama4")
    config = module.Llama4VisionConfig(
        image_size=14 * side, patch_size=14, hidden_size=32, num_attention_heads=2
    )
    freqs = torch.angle(module.Llama4VisionRotaryEmbedding(config).freqs_ci)[:, 0].double().numpy()
    base = config.rope_parameters["rope_theta"]
    slow = 1.0 / base ** (6 / 8)  # the last of four pairs for each axis
    theirs = np.stack([freqs[:, 3], freqs[:, 7]]) / slow
    mine = with_unplaced(grid_positions(side, side, origin=1)[::-1], after=1)
    assert (np.rint(theirs) == mine).all()
    assert (theirs[:, -1] == 0).all()


@given(height=SIDES, width=SIDES)
def test_dinov3(height, width):
    torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
    pytest.importorskip("transformers", reason="transformers is what is compared with")
    module = importlib.import_module("transformers.models.dinov3_vit.modeling_dinov3_vit")
    theirs = module.get_patches_center_coordinates(height, width, torch.float64, "cpu").numpy().T
    mine = patch_centres(height, width)
    truth = Truth(mine, 1 + np.abs(mine), np.zeros(()))  # they add and subtract 1
    assert truth.score(theirs).max() <= BUDGET["float64"]
