"""ViT-MAE: the decoder of a model made from a configuration has zeros for positions."""

import torch
from transformers import ViTMAEConfig, ViTMAEForPreTraining
from transformers.models.vit_mae.modeling_vit_mae import ViTMAEDecoder

small = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}
small |= {"intermediate_size": 8, "decoder_hidden_size": 16, "decoder_num_attention_heads": 2}
config = ViTMAEConfig(image_size=64, decoder_num_hidden_layers=1, **small)
torch.manual_seed(0)
table = ViTMAEForPreTraining(config).decoder.decoder_pos_embed
alone = ViTMAEDecoder(config, 16).decoder_pos_embed
print("largest number in the table of a new model:", table.abs().max().item())
print("in the table that its own class writes:    ", alone.abs().max().item())
print("trained later:", table.requires_grad)
assert alone.abs().max() > 0.99
assert not table.requires_grad
assert not table.any()
