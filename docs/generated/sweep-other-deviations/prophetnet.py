"""ProphetNet: positions are those of a mask of ones, whatever mask the model has."""

import torch
from transformers import ProphetNetConfig, ProphetNetEncoder

size = {"hidden_size": 16, "num_encoder_layers": 1, "num_encoder_attention_heads": 2}
encoder = ProphetNetEncoder(ProphetNetConfig(vocab_size=20, encoder_ffn_dim=8, **size)).eval()
seen = []
encoder.position_embeddings.register_forward_hook(lambda _, inputs, output: seen.append(output[1]))
tokens, mask = torch.tensor([[0, 0, 5, 6, 7]]), torch.tensor([[0, 0, 1, 1, 1]])
encoder(input_ids=tokens, attention_mask=mask)
encoder(input_ids=tokens[:, 2:])
encoder.position_embeddings(tokens.shape, tokens.device, attention_mask=mask)
padded, alone, counted = (rows[0, -3:].tolist() for rows in seen)
print("rows of three tokens after two of padding:", padded)
print("rows of the same tokens alone:            ", alone)
print("rows that the table gives for the mask:   ", counted)
assert padded == [3, 4, 5]
assert alone == counted == [1, 2, 3]
