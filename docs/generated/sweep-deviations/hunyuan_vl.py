"""HunYuan-VL: a unit vector is not of length 1 any more once its image token is rotated."""

import torch
from transformers.models.hunyuan_vl import configuration_hunyuan_vl, modeling_hunyuan_vl

rope = {"rope_type": "xdrope", "rope_theta": 10000.0, "alpha": 1000.0, "factor": 1.0}
rope["xdrope_section"] = [16, 16, 16, 16]  # as in tencent/HunyuanOCR
config = configuration_hunyuan_vl.HunYuanVLTextConfig(head_dim=128, rope_parameters=rope)
x = torch.eye(128)[0].reshape(1, 1, 1, 128)
positions = torch.tensor([7, 1, 2, 0]).reshape(4, 1, 1)  # sequence, column, row, image
cos, sin = modeling_hunyuan_vl.HunYuanVLRotaryEmbedding(config)(x, positions)
y, _ = modeling_hunyuan_vl.apply_rotary_pos_emb(x, x, cos, sin)
print("(cos 7, sin 7) =", torch.tensor(7.0).cos().item(), torch.tensor(7.0).sin().item())
print("channels 0, 64 =", y[..., 0].item(), y[..., 64].item(), "(cos 7, sin 2)")
print("length of y    =", y.norm().item())
assert y.norm() > 1.1
