"""BioGPT: a prompt padded on the left gets other positions than the same prompt alone."""

import torch
from transformers import BioGptConfig, BioGptModel

size = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2}
model = BioGptModel(BioGptConfig(vocab_size=20, intermediate_size=8, **size)).eval()
table, seen = model.embed_positions.weight, []
model.embed_positions.register_forward_hook(lambda _, inputs, output: seen.append(output))


def rows(found):
    """Return which rows of the table the last three tokens got."""
    return [int((table == row).all(-1).nonzero()) for row in found.reshape(-1, 16)[-3:]]


mask = torch.tensor([[0, 0, 1, 1, 1]])
model(input_ids=torch.tensor([[1, 1, 5, 6, 7]]), attention_mask=mask)
model(input_ids=torch.tensor([[5, 6, 7]]))
padded, alone = map(rows, seen)
as_the_table_says = rows(model.embed_positions(mask))  # counted over the mask
print("rows of three tokens after two of padding:", padded)
print("rows of the same tokens alone:            ", alone)
print("rows as the table counts them, by the mask:", as_the_table_says)
assert alone == as_the_table_says == [2, 3, 4]
assert padded == [4, 5, 6]
