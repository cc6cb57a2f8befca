"""Rules of position ids other than M-RoPE: small prompts by hand, and what is refused."""

import json

import numpy as np
import pytest

import posenc_ref as pr

XD, CANVAS = pr.XDRoPEPositions(), pr.CanvasPositions()
DRAWN = pr.ImageGenerationPositions()


def test_xd_by_hand():
    """A word, an image of 2 x 1 tokens in rows of one more with two borders, a word, an image."""
    ids = XD.positions([[0, *[1] * 6, 0, 1, 1]], image_grids=[(1, 4, 2), (1, 2, 2)])
    assert ids[:, 0].T.tolist() == [
        [0, 0, 0, 0], [1, 1, 1, 1],
        [2, 0, 0, 0], [3, 1, 0, 0], [4, 0, 1, 0], [5, 1, 1, 0],
        [6, 6, 6, 6], [7, 7, 7, 7],
        [8, 0, 0, 1], [9, 1, 0, 1],
    ]  # fmt: skip
    assert XD.decoded(ids, np.ones((1, 10), int), 2)[:, 0].tolist() == [[10, 11]] * 4
    three = pr.XDRoPEPositions(num_axes=3).positions([1, 1], image_grids=[(1, 2, 2)])
    assert three.tolist() == [[0, 1], [0, 0], [0, 0]]


def test_canvas_by_hand():
    """A thumbnail of 1 x 2 tokens and two rows of one slice of 2 x 3: a canvas of 4 x 3 at 1."""
    one = [4, *[1] * 6, 5]
    types = [0, 5, 1, 1, 5, *one, 6, *one, 0]
    ids = CANVAS.positions(types, image_grids=[(1, 4, 8), (1, 8, 12), (1, 8, 12)])
    assert ids[0].tolist() == [0, *[1] * 21, 6]
    assert ids[1:].T.tolist() == [
        [0, 0],  # text
        [0, 0], [1, 1], [1, 3], [5, 4],  # <image>, the thumbnail over three columns, </image>
        [1, 1], [1, 1], [1, 2], [1, 3], [2, 1], [2, 2], [2, 3], [2, 3],  # the first slice
        [2, 4],  # the newline: the last row of the slice, the column after the canvas
        [3, 1], [3, 1], [3, 2], [3, 3], [4, 1], [4, 2], [4, 3], [4, 3],
        [6, 6],  # 1 + max(4, 3) + 1
    ]  # fmt: skip


def test_a_free_position_after_newlines_between_images():
    """Images of one token at 0 and, after a newline at 2, at 4; after text at 6 and 7, at 8."""
    image = [5, 1, 5]
    ids = CANVAS.positions([*image, 6, *image, 0, 6, *image, 6], image_grids=[(1, 4, 4)] * 3)
    assert ids[0].tolist() == [0, 0, 0, 2, 4, 4, 4, 6, 7, 8, 8, 8, 10]
    assert ids[1].tolist() == [0, 0, 1, 2, 3, 4, 5, 6, 7, 7, 8, 9, 10]


def test_generated_images_by_hand():
    """An image of 1 x 2 at 1, a word, then 2 x 1 tokens at 4 and 1 x 2 at 6; the end marker."""
    types = [[0, 1, 1, 0]]
    grids = [(1, 1, 2), (1, 1, 2), (1, 2, 1)]
    ids = DRAWN.with_decoding(types, grids, (), (), np.ones((1, 4), int), 6)
    assert ids[:, 0].tolist() == [
        [0, 1, 1, 3, 4, 4, 6, 6, 8, 8],
        [0, 1, 1, 3, 4, 5, 6, 6, 8, 8],
        [0, 1, 2, 3, 4, 4, 6, 7, 8, 8],
    ]
    text = DRAWN.with_decoding(types, grids[:1], (), (), np.ones((1, 4), int), 2)
    assert text[0, 0, 4:].tolist() == [4, 5]


def test_rows_take_their_own_images_to_come():
    """Each row: its image, then one to come, of 1 x 1 in the first and of 1 x 3 in the second."""
    grids = [(1, 1, 1), (1, 1, 1), (1, 1, 2), (1, 1, 3)]
    mask = np.array([[0, 1, 1], [1, 1, 1]])
    ids = DRAWN.with_decoding([[0, 0, 1], [0, 1, 1]], grids, (), (), mask, 4)
    assert ids[2, :, 3:].tolist() == [[2, 3, 3, 3], [3, 4, 5, 6]]


@pytest.mark.parametrize(
    ("rule", "types", "grids", "message"),
    [
        (XD, [1] * 5, [(1, 4, 2)], "must have 4 or 6 tokens for the image .* got 5 in row 0"),
        (XD, [0, 2], (), r"token_types must be 0 \(text\) or 1 \(image\), got 2"),
        (XD, [1] * 4, (), "a grid for every image: none left in row 0"),
        (XD, [0], [(1, 2, 2)], "one grid for each image .* got 1 too many"),
        (CANVAS, [0, 1, 5], [(1, 4, 4)], "a marker .* before and after .* got none in row 0 at"),
        (CANVAS, [5, 1], [(1, 4, 4)], "a marker .* before and after"),
        (CANVAS, [5, 1, 1, 5], [(1, 4, 4)], r"must have 1 tokens .* \(1, 1\), got 2"),
        (CANVAS, [3], (), r"0 \(text\), 1 \(image\), 2 \(video\), 4 \(start of a slice\), 5"),
        (CANVAS, [5, 1, 5], [(1, 6, 4)], "divisible by the merge sizes"),
        (DRAWN, [[1, 0], [0, 0]], [(1, 1, 1)] * 2, "same number .* of the 2 rows, got 2"),
        (DRAWN, [[1, 0, 1]], [(1, 1, 1)], "the grids of the 2 images in token_types"),
    ],
)  # fmt: skip
def test_what_is_refused(rule, types, grids, message):
    with pytest.raises(ValueError, match=message):
        rule.positions(types, image_grids=grids)


def test_rules_of_configurations():
    config = {"model_type": "hunyuan_vl", "rope_scaling": {"xdrope_section": [24, 20, 20]}}
    assert pr.mrope_rule(config).num_axes == 3
    config = {"model_type": "hunyuan_vl",
              "text_config": {"rope_parameters": {"mrope_section": [16, 16, 16, 16]}},
              "vision_config": {"spatial_merge_size": 4}}  # fmt: skip
    assert pr.mrope_rule(config) == pr.XDRoPEPositions(spatial_merge_size=4)
    for mode, size in (("16x", 4), ("4x", 2)):
        config = {"model_type": "minicpmv4_7", "downsample_mode": mode}
        assert pr.mrope_rule(config).spatial_merge_size == size
    with pytest.raises(ValueError, match="downsample_mode must be one of '16x', '4x'"):
        pr.mrope_rule({"model_type": "minicpmv4_7", "downsample_mode": "8x"})
    talker = {"model_type": "qwen3_omni_moe_talker", "position_id_per_seconds": 13}
    assert pr.mrope_rule(talker) == pr.mrope_rule("qwen3_omni_moe")
    for rule in (XD, CANVAS, DRAWN):
        assert pr.from_dict(json.loads(json.dumps(rule.to_dict()))) == rule
    with pytest.raises(ValueError, match="num_axes must be"):
        pr.XDRoPEPositions(num_axes=2)
