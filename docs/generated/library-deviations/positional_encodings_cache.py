"""positional-encodings: a float32 tensor gets the rows of an earlier call in bfloat16."""

import torch
from positional_encodings.torch_encodings import PositionalEncoding1D

module = PositionalEncoding1D(8)
right = module(torch.zeros(1, 16, 8))[0]
module = PositionalEncoding1D(8)
module(torch.zeros(1, 16, 8, dtype=torch.bfloat16))
found = module(torch.zeros(1, 16, 8))[0]
print("position 13, a fresh module:            ", right[13].tolist(), right.dtype)
print("position 13, after a call in bfloat16:  ", found[13].tolist(), found.dtype)
assert right.dtype == torch.float32
assert found.dtype == torch.bfloat16
assert (found.float() - right).abs().max() > 1e-3
assert torch.equal(found, right.bfloat16())
