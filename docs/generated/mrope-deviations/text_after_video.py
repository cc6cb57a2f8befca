"""Qwen2-VL, Qwen2.5-VL, Ernie 4.5 VL: text after a video repeats positions of the video."""

import torch
from transformers import Qwen2VLConfig
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLModel

with torch.device("meta"):
    model = Qwen2VLModel(Qwen2VLConfig())
types = torch.tensor([[0] + [2] * 12 + [0, 0, 0]])  # a word, 6 frames of 2 x 1 tokens, 3 words
ids, deltas = model.get_rope_index(
    torch.zeros_like(types), types.int(), video_grid_thw=torch.tensor([[6, 4, 2]])
)
print("video, time:", ids[0, 0, 1:13].tolist())
print("text after: ", ids[0, 0, 13:].tolist())
assert ids[0, 0, 13] <= ids[0, 0, 12]  # "max + 1" of Wang et al. 2024 is 7
