"""Dynamic NTK in transformers 5.0: a short call, before and after one past the original length."""

import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

rope = {"rope_type": "dynamic", "factor": 4.0}  # transformers 4 and 5 take it under this name
config = LlamaConfig(max_position_embeddings=2048, rope_theta=10000.0, rope_scaling=rope)
module = LlamaRotaryEmbedding(config=config)
x, positions = torch.zeros(1), torch.arange(1000)[None]  # below the original length of 2048
before, _ = module(x, positions)
module(x, torch.arange(8000)[None])  # somebody else's request
after, _ = module(x, positions)
frequency = 10000.0 ** (-torch.arange(0, 128, 2) / 128)
right = (torch.arange(1000)[:, None] * frequency).cos()
print("error of cos before:", (before[0, :, :64] - right).abs().max().item())
print("error of cos after: ", (after[0, :, :64] - right).abs().max().item())
assert (after[0, :, :64] - right).abs().max() > 1
