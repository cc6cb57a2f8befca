"""SpeechBrain: a key after the query gets the position of a key before it."""

import torch
from speechbrain.nnet.attention import RelPosEncXL

length = 5
table = RelPosEncXL(8)(torch.zeros(1, length, 8))[0]
# Row length - 1 - r is that of r = query - key.
offsets = length - 1 - torch.arange(2 * length - 1, dtype=torch.float64)
frequencies = 10000 ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8)
angles = offsets[:, None] * frequencies
right = torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)
for r in (2, -2):
    row = length - 1 - r
    print(f"query - key = {r:2}: got     ", [round(v, 4) for v in table[row].tolist()])
    print("                 expected", [round(v, 4) for v in right[row].tolist()])
assert torch.equal(table[length - 3], table[length + 1])  # r = 2 and r = -2
assert torch.allclose(table[:length].double(), right[:length], atol=1e-5)  # keys before the query
assert (table[length:] - right[length:]).abs().amax(1).min() > 0.1  # keys after it
