"""Megatron Core: without flash_attn, cos and sin are taken for angles."""

import torch
from megatron.core.models.common.embeddings import rope_utils

rope_utils.apply_rotary_emb_flash = None  # as where flash_attn.layers.rotary is not installed
x = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(3, 1, 1, 4)
angles = torch.arange(3.0)[:, None] * torch.tensor([1.0, 0.01])
found = rope_utils.apply_rotary_pos_emb_with_cos_sin(x, angles.cos(), angles.sin())
for position in range(3):
    right = [angles[position, 0].cos().item(), 0.0, angles[position, 0].sin().item(), 0.0]
    print(f"position {position}: got     ", [round(v, 4) for v in found[position, 0, 0].tolist()])
    print("            expected", [round(v, 4) for v in right])
assert (found[0, 0, 0] - x[0, 0, 0]).abs().max() > 0.1  # position 0 changes nothing
