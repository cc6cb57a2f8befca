"""Dynamic NTK: the same call, before and after a longer one."""

import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

rope = {"rope_type": "dynamic", "factor": 4.0}  # transformers 4 and 5 take it under this name
config = LlamaConfig(max_position_embeddings=2048, rope_theta=10000.0, rope_scaling=rope)
module = LlamaRotaryEmbedding(config=config)
x, positions = torch.zeros(1), torch.arange(3000)[None]
before, _ = module(x, positions)
module(x, torch.arange(8000)[None])  # somebody else's request
after, _ = module(x, positions)
print("largest difference of cos at positions 0 .. 2999:", (after - before).abs().max().item())
assert (after - before).abs().max() > 1
