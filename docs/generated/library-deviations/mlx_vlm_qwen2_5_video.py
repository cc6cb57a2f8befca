"""MLX-VLM: frames of Qwen2.5-VL are numbered 0, 1, 2, whatever their distance in time."""

import types

import mlx.core as mx
import numpy as np
from mlx_vlm.models.qwen2_5_vl.language import LanguageModel

start, video, word = 151652, 151656, 5
frames, rows, columns, merge = 4, 4, 4, 2
tokens = frames * rows * columns // merge**2
ids = mx.array([[word, start, *[video] * tokens, word]])
config = types.SimpleNamespace(
    vision_config=types.SimpleNamespace(spatial_merge_size=merge, tokens_per_second=2),
    image_token_id=151655, video_token_id=video, vision_start_token_id=start,
)  # fmt: skip
model = types.SimpleNamespace(config=config)
grid = mx.array([[frames, rows, columns]])
positions, _ = LanguageModel.get_rope_index(model, ids, video_grid_thw=grid)
time = np.array(positions)[0, 0]
# 2 frames per second and 2 frames per patch: a patch is 1 second, of 2 positions each.
seconds = 2 / 2.0
expected = 2 + np.arange(frames) * seconds * 2
got = time[2 : 2 + tokens : tokens // frames]
print("time of the frames, at 2 frames per second and tokens_per_second = 2")
print("expected", expected.tolist(), "then text from", int(expected[-1]) + 1)
print("got     ", got.tolist(), "then text from", int(time[-1]))
assert got.tolist() == [2, 3, 4, 5]
assert "second" not in " ".join(LanguageModel.get_rope_index.__code__.co_varnames)
