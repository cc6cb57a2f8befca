"""Megatron Core: YarnRotaryEmbedding rotates the whole head, whatever rotary_percent is."""

from unittest import mock

import torch
from megatron.core.models.common.embeddings.rotary_pos_embedding import RotaryEmbedding
from megatron.core.models.common.embeddings.yarn_rotary_pos_embedding import YarnRotaryEmbedding

settings = {"kv_channels": 64, "rotary_percent": 0.5, "use_cpu_initialization": True}
with mock.patch.object(torch.cuda, "current_device", return_value="cpu"):
    plain = RotaryEmbedding(**settings).get_emb(4)
    yarn, _ = YarnRotaryEmbedding(**settings, scaling_factor=4.0).get_emb(4)
print("rotated channels of 64, rotary_percent=0.5")
print("RotaryEmbedding:    ", plain.shape[-1])
print("YarnRotaryEmbedding:", yarn.shape[-1])
assert (plain.shape[-1], yarn.shape[-1]) == (32, 64)
