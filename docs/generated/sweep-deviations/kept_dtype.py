"""Wav2Vec2-Conformer: after a call under autocast, cos and sin of a float32 call are bfloat16."""

import copy

import torch
from transformers import Wav2Vec2ConformerConfig, Wav2Vec2ConformerModel

small = {"num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 1}
small |= {"intermediate_size": 64, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 1}
config = Wav2Vec2ConformerConfig(position_embeddings_type="rotary", **small)
model = Wav2Vec2ConformerModel(config).eval()
other = copy.deepcopy(model)
sound = torch.randn(1, 64000)
with torch.no_grad():
    with torch.autocast("cpu", torch.bfloat16):
        other(sound)
    before, after = model(sound), other(sound)  # the same call in float32
tables = [m.encoder.embed_positions for m in (model, other)]
right, wrong = (table.cached_rotary_positional_embedding for table in tables)
print("dtypes of cos and sin:", right.dtype, wrong.dtype)
print("largest error of cos and sin:", (wrong - right).abs().max().item())
print("float32 outputs are equal:", torch.equal(before[0], after[0]))
assert right.dtype == torch.float32
assert (wrong - right).abs().max() > 1e-3
assert not torch.equal(before[0], after[0])
