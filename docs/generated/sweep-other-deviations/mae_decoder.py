"""ViTMAE: positions of the decoder are resized as one row of patches, not as a grid."""

import torch
from transformers import ViTMAEConfig
from transformers.models.vit_mae.modeling_vit_mae import ViTMAEDecoder

small = {"hidden_size": 8, "num_attention_heads": 1, "decoder_num_hidden_layers": 1}
config = ViTMAEConfig(**small, decoder_hidden_size=8, decoder_num_attention_heads=1)
decoder = ViTMAEDecoder(config, 64)  # 8 x 8 patches
tokens = torch.zeros(1, 17, 8)  # [CLS] and 16 patches: how they lie is not even passed
patches = decoder.decoder_pos_embed[:, 1:]
of_decoder = decoder.interpolate_pos_encoding(tokens)[0, 1:]
grid = patches.reshape(1, 8, 8, 8).permute(0, 3, 1, 2)
as_grid = torch.nn.functional.interpolate(grid, size=(4, 4), mode="bicubic")
row = patches.transpose(1, 2)[:, :, None]
as_row = torch.nn.functional.interpolate(row, size=(1, 16), mode="bicubic")
print("off from its grid resized to 4 x 4:", (of_decoder - as_grid[0].flatten(1).T).abs().max())
print("off from a row of 64 resized to 16:", (of_decoder - as_row[0, :, 0].T).abs().max())
assert torch.equal(of_decoder, as_row[0, :, 0].T)
