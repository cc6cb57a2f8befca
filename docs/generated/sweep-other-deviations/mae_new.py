"""ViT-MAE: a model made from a configuration has zeros for positions, and does not see order."""

import torch
from transformers import ViTMAEConfig, ViTMAEForPreTraining
from transformers.models.vit_mae.modeling_vit_mae import ViTMAEDecoder, ViTMAEEmbeddings

small = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}
small |= {"intermediate_size": 8, "decoder_hidden_size": 16, "decoder_num_attention_heads": 2}
config = ViTMAEConfig(image_size=64, decoder_num_hidden_layers=1, **small)
torch.manual_seed(0)
model = ViTMAEForPreTraining(config).eval()
encoder, decoder = model.vit.embeddings.position_embeddings, model.decoder.decoder_pos_embed
alone = ViTMAEEmbeddings(config)
alone.initialize_weights()
print("largest number in the tables of a new model:", encoder.abs().max(), decoder.abs().max())
print("trained later:", encoder.requires_grad, decoder.requires_grad)
print("what their own classes write there:", alone.position_embeddings.abs().max(), end=" ")
print(ViTMAEDecoder(config, 16).decoder_pos_embed.abs().max())
assert not encoder.any()
assert not decoder.any()
assert alone.position_embeddings.any()
