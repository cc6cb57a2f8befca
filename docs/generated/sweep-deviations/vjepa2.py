"""V-JEPA 2: the two channels of a pair turn by different angles, and lengths change."""

import torch
from transformers.models.vjepa2.modeling_vjepa2 import rotate_queries_or_keys

x = torch.eye(20)[0].reshape(1, 1, 1, 20)  # channel 0, paired with channel 1
y = rotate_queries_or_keys(x, torch.tensor([1.0]))
print("channels 0, 1 =", y[..., 0].item(), y[..., 1].item())
print("cos 1, sin 1  =", torch.tensor(1.0).cos().item(), torch.tensor(1.0).sin().item())
print("length of y   =", y.norm().item())
assert y.norm() < 0.9
