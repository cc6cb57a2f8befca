"""ViT-MAE: the encoder of a model made from a configuration has zeros for positions."""

import torch
from transformers import ViTMAEConfig, ViTMAEModel
from transformers.models.vit_mae.modeling_vit_mae import ViTMAEEmbeddings

small = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}
config = ViTMAEConfig(image_size=64, intermediate_size=8, mask_ratio=0.0, **small)
torch.manual_seed(0)
model = ViTMAEModel(config).eval()
table = model.embeddings.position_embeddings
alone = ViTMAEEmbeddings(config)
alone.initialize_weights()
print("largest number in the table of a new model:", table.abs().max().item())
print("in the table that its own class writes:    ", alone.position_embeddings.abs().max().item())
print("trained later:", table.requires_grad)
assert not table.any()
assert not table.requires_grad
assert alone.position_embeddings.abs().max() > 0.99
