"""BioGPT: a prompt padded on the left gets other positions than the same prompt alone."""

import torch
from transformers import BioGptConfig, BioGptModel

size = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2}
model = BioGptModel(BioGptConfig(vocab_size=20, intermediate_size=8, **size)).eval()
seen = []
model.embed_positions.register_forward_hook(lambda _, inputs, output: seen.append(output))
mask = torch.tensor([[0, 0, 1, 1, 1]])
model(input_ids=torch.tensor([[1, 1, 5, 6, 7]]), attention_mask=mask)
as_the_table_says = model.embed_positions(mask)  # counted over the mask
print("rows of the real tokens as the table counts them:", end=" ")
print(
    [int((model.embed_positions.weight == r).all(-1).nonzero()) for r in as_the_table_says[0, 2:]]
)
print("rows that the model adds:", end=" ")
print(
    [int((model.embed_positions.weight == r).all(-1).nonzero()) for r in seen[0].reshape(5, 16)[2:]]
)
assert not torch.equal(seen[0].reshape(5, 16)[2:], as_the_table_says[0, 2:])
