"""ViTMAE: positions of the decoder are resized as one row of patches, not as a grid."""

import torch
from transformers import ViTMAEConfig
from transformers.models.vit_mae.modeling_vit_mae import ViTMAEDecoder, ViTMAEEmbeddings

small = {"hidden_size": 8, "num_attention_heads": 1, "decoder_num_hidden_layers": 1}
config = ViTMAEConfig(image_size=128, **small, decoder_hidden_size=8, decoder_num_attention_heads=1)
decoder, encoder = ViTMAEDecoder(config, 64), ViTMAEEmbeddings(config)  # 8 x 8 patches
patches = decoder.decoder_pos_embed[:, 1:]
encoder.position_embeddings.data.copy_(decoder.decoder_pos_embed)  # the same table
of_decoder = decoder.interpolate_pos_encoding(torch.zeros(1, 17, 8))[0, 1:]  # [CLS], 16 patches
of_encoder = encoder.interpolate_pos_encoding(torch.zeros(1, 16, 8), 64, 64)[0, 1:]
grid = patches.reshape(1, 8, 8, 8).permute(0, 3, 1, 2)
as_grid = torch.nn.functional.interpolate(grid, size=(4, 4), mode="bicubic")[0].flatten(1).T
row = patches.transpose(1, 2)[:, :, None]
as_row = torch.nn.functional.interpolate(row, size=(1, 16), mode="bicubic")[0, :, 0].T
for name, found in (("encoder", of_encoder), ("decoder", of_decoder)):
    print(name, "off from the grid resized to 4 x 4:", (found - as_grid).abs().max().item())
    print(name, "off from a row of 64 resized to 16:", (found - as_row).abs().max().item())
assert torch.allclose(of_encoder, as_grid, atol=1e-6)
assert torch.equal(of_decoder, as_row)
assert (of_decoder - as_grid).abs().max() > 1
