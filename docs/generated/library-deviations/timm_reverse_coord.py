"""timm: reverse_coord of build_sincos2d_pos_embed numbers the patches column by column."""

import torch
from timm.layers import build_sincos2d_pos_embed

height, width, dim = 2, 3, 8
frequencies = 10000 ** (-torch.arange(dim // 4, dtype=torch.float64) / (dim // 4))
cells = [(row, column) for row in range(height) for column in range(width)]
got = build_sincos2d_pos_embed([height, width], dim, reverse_coord=True)
print("sin(column), sin(row) of frequency 1, token by token; the documentation: W, H")
right = torch.tensor([[torch.tensor(float(p)).sin() for p in (c, r)] for r, c in cells])
print("expected", [[round(v, 3) for v in pair] for pair in right.tolist()])
print("got     ", [[round(v, 3) for v in pair] for pair in got[:, [0, dim // 4]].tolist()])
assert frequencies[0] == 1
square = build_sincos2d_pos_embed([4, 4], dim)
same = torch.equal(square, build_sincos2d_pos_embed([4, 4], dim, reverse_coord=True))
print("on a square grid the setting changes nothing:", same)
assert same
assert not torch.allclose(got[:, [0, dim // 4]], right)
