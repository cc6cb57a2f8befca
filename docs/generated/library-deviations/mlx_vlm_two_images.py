"""MLX-VLM: the second image of a prompt is numbered like text."""

import types

import mlx.core as mx
import numpy as np
from mlx_vlm.models.qwen2_vl.language import LanguageModel

start, image, word, merge = 151652, 151655, 5, 2
rows, columns = 2, 3  # of an image, after the patches are merged
picture = [word, start, *[image] * (rows * columns)]
ids = mx.array([[*picture, *picture, word]])
vision = types.SimpleNamespace(spatial_merge_size=merge, tokens_per_second=2)
config = types.SimpleNamespace(
    vision_config=vision, image_token_id=image, video_token_id=151656, vision_start_token_id=start
)
model = types.SimpleNamespace(config=config)
grid = [1, rows * merge, columns * merge]
found, _ = LanguageModel.get_rope_index(model, ids, image_grid_thw=mx.array([grid, grid]))
got = np.array(found)[:, 0]
row, column = (n.ravel() for n in np.indices((rows, columns)))
parts, at = [], 0
for _ in range(2):  # two tokens of text, then an image, whose largest position is a column
    parts += [np.tile([at, at + 1], (3, 1)), at + 2 + np.stack([0 * row, row, column])]
    at += 2 + columns
expected = np.concatenate([*parts, np.full((3, 1), at)], axis=1)
second = slice(len(picture) + 2, 2 * len(picture))
for axis, name in enumerate(("time", "row", "column")):
    print(f"{name:6} of image 2: expected", expected[axis, second], "got", got[axis, second])
print("the token after it: expected", expected[:, -1], "got", got[:, -1])
first = slice(len(picture))
assert (got[:, first] == expected[:, first]).all()
assert not (got[:, second] == expected[:, second]).all()
