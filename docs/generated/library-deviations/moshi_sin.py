"""Moshi: sinusoids of a bfloat16 transformer have bfloat16 positions."""

import torch
from moshi.modules.transformer import StreamingTransformer

module = StreamingTransformer(64, 4, 0, 64, positional_embedding="sin")  # no layers
found = module(torch.zeros(1, 2048, 64, dtype=torch.bfloat16))[0]
exponents = torch.arange(32, dtype=torch.float64) / 31
angles = torch.arange(2048, dtype=torch.float64)[:, None] * 10000**-exponents
right = torch.cat([angles.cos(), angles.sin()], -1)
for position in (256, 257):
    print(f"position {position}: got     ", found[position, :4].tolist())
    print("              expected", [round(v, 4) for v in right[position, :4].tolist()])
print("distinct rows of 2048:", len(found.unique(dim=0)))
assert torch.equal(found[256], found[257])
