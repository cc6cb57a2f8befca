"""vit-pytorch's ViT-5: the patches of an image that is not square get those of a square."""

import torch
from vit_pytorch.vit_5 import ViT

model = ViT(image_size=(64, 256), patch_size=16, num_classes=2, dim=64, depth=1, heads=1, mlp_dim=8)
seen = []
rotary = model.rotary_emb.forward
model.rotary_emb.forward = lambda x: seen.append(rotary(x)) or seen[-1]
with torch.no_grad():
    model(torch.zeros(1, 3, 64, 256))  # 4 x 16 patches
sin, cos = (part[0, 0, 4:] for part in seen[0])
angles = torch.atan2(sin, cos)
for row, column in ((0, 15), (1, 0), (3, 15)):
    fast = angles[16 * row + column, [0, 32]]  # the fastest pair of each axis: 1 rad per patch
    right = [round(torch.tensor(v).remainder(2 * torch.pi).item(), 3) for v in (row, column)]
    turns = [round(v % (2 * torch.pi), 3) for v in fast.tolist()]
    print(f"patch ({row}, {column}): angles {turns}, expected {right} (modulo 2 pi)")
assert abs(angles[16, 0].item() - 1) > 0.5
