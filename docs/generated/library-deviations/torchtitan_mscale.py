"""torchtitan's DeepSeek-V3 16B: the scale of the logits has mscale 0.70 instead of 0.707."""

import math

import torch
from torchtitan.models import deepseek_v3

with torch.device("meta"):
    config = deepseek_v3._16b(attn_backend="flex", moe_comm_backend="standard")
    attention = config.layers[0].attention.build()
print("layers, width, heads:", len(config.layers), config.dim, attention.n_heads)
found = attention.softmax_scale
# DeepSeek-V2-Lite and DeepSeek's config_16B.json: factor 40, mscale 0.707, heads of 128 + 64.
right = (0.1 * 0.707 * math.log(40) + 1) ** 2 / math.sqrt(192)
print("softmax scale, got:     ", found)
print("softmax scale, expected:", right)
print("ratio:                  ", found / right)
assert abs(found / right - 1) > 1e-3
