"""VisualBERT: every token of an image gets row 0 of the table for their positions."""

import torch
from transformers import VisualBertConfig
from transformers.models.visual_bert.modeling_visual_bert import VisualBertEmbeddings

module = VisualBertEmbeddings(VisualBertConfig(hidden_size=8, visual_embedding_dim=8))
seen = []
for table in (module.position_embeddings, module.visual_position_embeddings):
    table.register_forward_hook(lambda _, ids, out: seen.append(ids[0][0].tolist()))
module(torch.ones(1, 5, dtype=torch.int64), visual_embeds=torch.zeros(1, 5, 8))
of_text, of_image = seen
print("rows that five tokens of text get:    ", of_text)
print("rows that five tokens of an image get:", of_image)
print("rows of the table for images:", module.visual_position_embeddings.num_embeddings)
assert of_text == [0, 1, 2, 3, 4]
assert of_image == [0, 0, 0, 0, 0]
