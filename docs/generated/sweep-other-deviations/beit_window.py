"""BEiT, Data2Vec: in a window that is not square, offsets get the biases of others."""

import torch
from transformers import BeitConfig
from transformers.models.beit.modeling_beit import BeitRelativePositionBias

config = BeitConfig(image_size=(32, 48), patch_size=16, num_attention_heads=1)
module = BeitRelativePositionBias(config)  # a window of 2 x 3 patches
table = module.relative_position_bias_table
with torch.no_grad():
    table.copy_(torch.arange(len(table))[:, None].float())
    bias = module(module.window_size)[0, 0, 1:, 1:]
index = module.generate_relative_position_index(module.window_size)[1:, 1:]
print("rows that the index asks for:", index[0].tolist())
print("rows that come out:          ", bias[0].tolist())
assert not torch.equal(bias, table[index.reshape(-1)].reshape(6, 6))
