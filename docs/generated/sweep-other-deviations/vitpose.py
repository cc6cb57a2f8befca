"""ViTPose: every patch gets its own row and that of the [CLS] token, which is not there."""

import torch
from transformers import VitPoseBackboneConfig
from transformers.models.vitpose_backbone.modeling_vitpose_backbone import VitPoseBackboneEmbeddings

config = VitPoseBackboneConfig(image_size=[32, 32], patch_size=[16, 16], hidden_size=8)
module = VitPoseBackboneEmbeddings(config).eval()
with torch.no_grad():
    for p in module.parameters():
        p.normal_()
    module.patch_embeddings.projection.weight.zero_()
    module.patch_embeddings.projection.bias.zero_()
    rows, added = module.position_embeddings[0], module(torch.zeros(1, 3, 32, 32))[0]
print("off by the row of [CLS]:", (added - rows[1:] - rows[0]).abs().max().item())
print("off without it:", (added - rows[1:]).abs().max().item())
assert torch.equal(added, rows[1:] + rows[:1])
