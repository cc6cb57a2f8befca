"""rotary-embedding-torch: queries in bfloat16 are rotated by positions in bfloat16."""

import torch
from rotary_embedding_torch import RotaryEmbedding

length, dim = 600, 64
rope = RotaryEmbedding(dim)
x = torch.ones(1, 1, length, dim)
got = rope.rotate_queries_or_keys(x.bfloat16())[0, 0]
after = rope.rotate_queries_or_keys(x)[0, 0]  # float32; the angles are cached
frequencies = 10000 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
angles = torch.arange(length)[:, None] * frequencies
right = torch.stack([angles.cos() - angles.sin(), angles.sin() + angles.cos()], -1).flatten(1)
for p in (256, 257, 599):
    print(f"position {p}, first pair: expected {right[p, :2].numpy().round(3)}")
    print(f"    bfloat16 {got[p, :2].float().numpy().round(3)}")
    print(f"    float32 after it {after[p, :2].numpy().round(3)}")
off = (got - right).abs().amax(1)
print("off by more than 2**-6 from position", int((off > 2**-6).nonzero()[0]), "on")
print("largest error in bfloat16:", round(off.max().item(), 3))
print("largest error in float32 after it:", round((after - right).abs().max().item(), 3))
assert torch.equal(got[256], got[257])
assert (off[:257] < 2**-6).all()
assert off.max() > 1
assert (after - right).abs().max() > 1
fresh = RotaryEmbedding(dim).rotate_queries_or_keys(x)[0, 0]
assert (fresh - right).abs().max() < 1e-3
