"""ESPnet: after one call in half precision, sinusoids in float32 stay rounded."""

import numpy as np
import torch
from espnet.nets.pytorch_backend.transformer.embedding import PositionalEncoding

module = PositionalEncoding(8, 0.0).eval()
angle = 13 * 10000.0 ** (-np.arange(0, 8, 2) / 8)
right = np.stack([np.sin(angle), np.cos(angle)], -1).ravel()
before = module(torch.zeros(1, 14, 8))[0, 13]
module(torch.zeros(1, 14, 8, dtype=torch.float16))
after = module(torch.zeros(1, 14, 8))[0, 13]
print("position 13, expected:", right.round(7))
print("before:               ", before.numpy(), "off by", abs(before.numpy() - right).max())
print("after:                ", after.numpy(), "off by", abs(after.numpy() - right).max())
assert before.dtype == after.dtype == torch.float32
assert abs(before.numpy() - right).max() < 1e-6
assert 1e-4 < abs(after.numpy() - right).max() < 1e-3
