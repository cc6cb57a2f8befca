"""vit-pytorch's ViT-5: in bfloat16, angles are computed in bfloat16."""

import torch
from vit_pytorch.vit_5 import AxialRotaryEmbedding

module = AxialRotaryEmbedding(64, num_registers=4)
tokens = torch.zeros(1, 4 + 14 * 14, 64)
single, _ = module(tokens)
half, _ = module(tokens.bfloat16())
error = (half.double() - single.double()).abs()[0, 0]
token, channel = divmod(int(error.argmax()), 64)
print("sine of token", token - 4, "channel", channel)
print("bfloat16:            ", half[0, 0, token, channel].item())
print("float32, rounded:    ", single[0, 0, token, channel].bfloat16().item())
assert error.max() > 8 * 2**-9
