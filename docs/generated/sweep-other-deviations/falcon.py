"""Falcon: slope times position is rounded to bfloat16, so that neighbours get one bias."""

import torch
from transformers.models.falcon.modeling_falcon import build_alibi_tensor

mask = torch.ones(1, 301, dtype=torch.int64)
bias = build_alibi_tensor(mask, 8, torch.float32)[0, 0]  # head 0: slope 1/2
print("keys 256 .. 261:", bias[256:262].tolist())
print("as float32:     ", (0.5 * torch.arange(256, 262.0)).tolist())
assert bias[257] == bias[256]
