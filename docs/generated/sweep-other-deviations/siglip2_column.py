"""PyTorch: bilinear, antialiased, to a width of 1: not what the transposed image gives."""

import torch

image = torch.randn(1, 1, 14, 14, generator=torch.Generator().manual_seed(0))
how = {"mode": "bilinear", "align_corners": False, "antialias": True}
column = torch.nn.functional.interpolate(image, size=(4, 1), **how)
row = torch.nn.functional.interpolate(image.transpose(2, 3).contiguous(), size=(1, 4), **how)
print("to 4 x 1:           ", column.flatten().tolist())
print("transposed, to 1 x 4:", row.flatten().tolist())
assert (column.flatten() - row.flatten()).abs().max() > 0.1
