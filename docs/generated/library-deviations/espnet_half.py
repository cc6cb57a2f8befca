"""ESPnet: after one call in half precision, sinusoids in float32 stay rounded."""

import torch
from espnet.nets.pytorch_backend.transformer.embedding import PositionalEncoding

module = PositionalEncoding(8, 0.0).eval()
right = module(torch.zeros(1, 14, 8))[0, 13]
module(torch.zeros(1, 14, 8, dtype=torch.float16))
found = module(torch.zeros(1, 14, 8))[0, 13]
print("position 13, before:", right.tolist())
print("position 13, after: ", found.tolist(), found.dtype)
assert 1e-4 < (found - right).abs().max() < 1e-3
