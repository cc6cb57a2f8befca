"""positional-encodings: in bfloat16, different positions have the same row from 256 on."""

import torch
from positional_encodings.torch_encodings import PositionalEncoding1D

table = PositionalEncoding1D(8).to(torch.bfloat16)(torch.zeros(1, 2048, 8, dtype=torch.bfloat16))[0]
frequencies = 10000 ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8)
angles = torch.arange(2048, dtype=torch.float64)[:, None] * frequencies
right = torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)
for position in (256, 257):
    print(f"position {position}: got     ", table[position].tolist())
    print("              expected", [round(v, 4) for v in right[position].tolist()])
print("distinct rows of 2048:", len(table.unique(dim=0)))
assert torch.equal(table[256], table[257])
