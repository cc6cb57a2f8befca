"""HunYuan-VL: the number of an image depends on the other prompts of its batch."""

import torch
from transformers import HunYuanVLConfig
from transformers.models.hunyuan_vl.modeling_hunyuan_vl import HunYuanVLModel

rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [16] * 4}
text = {"num_hidden_layers": 1, "head_dim": 128, "rope_parameters": rope}
with torch.device("meta"):
    model = HunYuanVLModel(HunYuanVLConfig(text_config=text))
types = torch.tensor([[0] + [1] * 6 + [0]])  # an image of 2 x 2 tokens, each row with one more
grid = torch.tensor([[1, 4, 4]])
alone, _ = model.get_rope_index(torch.zeros_like(types), types, grid)
twice = types.repeat(2, 1)
both, _ = model.get_rope_index(torch.zeros_like(twice), twice, grid.repeat(2, 1))
print("image, alone:     ", alone[3, 0, 1:7].tolist())
print("image, second row:", both[3, 1, 1:7].tolist())
assert both[3, 1, 1] == alone[3, 0, 1] + 1  # "the ordinal in the input sequence" is 0 in both
