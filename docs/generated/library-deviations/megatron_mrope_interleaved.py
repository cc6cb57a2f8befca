"""Megatron Core: M-RoPE with interleaved pairs raises."""

from unittest import mock

import torch
from megatron.core.models.common.embeddings.rotary_pos_embedding import MultimodalRotaryEmbedding

shapes = []
for interleaved in (False, True):
    settings = {"kv_channels": 64, "rotary_percent": 1.0, "rotary_interleaved": interleaved}
    with mock.patch.object(torch.cuda, "current_device", return_value="cpu"):
        module = MultimodalRotaryEmbedding(**settings)
    for tokens in (5, 6):
        positions = torch.arange(tokens).expand(3, 1, tokens)
        try:
            shapes.append(tuple(module(positions, [8, 12, 12]).shape))
        except RuntimeError as error:
            shapes.append(f"RuntimeError: {error}"[:70])
        print(f"rotary_interleaved={interleaved!s:5}, {tokens} tokens:", shapes[-1])
assert shapes[:2] == [(5, 1, 1, 64), (6, 1, 1, 64)]
assert shapes[2:] != shapes[:2]
