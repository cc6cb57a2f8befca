"""ESM: with interleaved=True, the two channels of a pair turn by different angles."""

import torch
from esm.layers.rotary import RotaryEmbedding

module = RotaryEmbedding(8, interleaved=True)
x = torch.zeros(1, 2, 1, 8)
x[..., 0] = 1  # pair 0 is (1, 0)
found, _ = module(x, x)
norm = found[0, 1, 0].norm().item()
print("position 1, got:     ", [round(v, 4) for v in found[0, 1, 0].tolist()], "norm", norm)
one = torch.ones(())
right = [one.cos().item(), one.sin().item()] + [0.0] * 6
print("position 1, expected:", [round(v, 4) for v in right], "norm 1")
assert abs(norm - 1) > 0.01
