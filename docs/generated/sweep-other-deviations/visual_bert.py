"""VisualBERT: every token of an image gets row 0 of the table for their positions."""

import torch
from transformers import VisualBertConfig
from transformers.models.visual_bert.modeling_visual_bert import VisualBertEmbeddings

module = VisualBertEmbeddings(VisualBertConfig(hidden_size=8, visual_embedding_dim=8))
seen = []
module.visual_position_embeddings.register_forward_hook(lambda _, ids, out: seen.append(ids[0]))
module(torch.ones(1, 2, dtype=torch.int64), visual_embeds=torch.zeros(1, 5, 8))
print("rows that five tokens of an image get:", seen[0][0].tolist())
assert seen[0].tolist() == [[0] * 5]
