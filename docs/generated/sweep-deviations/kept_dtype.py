"""Wav2Vec2-Conformer: after a call under autocast, cos and sin of a float32 call are bfloat16."""

import copy

import torch
from transformers import Wav2Vec2ConformerConfig, Wav2Vec2ConformerForCTC

small = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 1, "vocab_size": 32}
small |= {"intermediate_size": 64, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 1}
config = Wav2Vec2ConformerConfig(position_embeddings_type="rotary", **small)
torch.manual_seed(0)
model = Wav2Vec2ConformerForCTC(config).eval()
with torch.no_grad():
    for weight in model.parameters():
        if weight.ndim == 2:
            weight.normal_(std=weight.shape[-1] ** -0.5)
other = copy.deepcopy(model)
sound = torch.randn(1, 64000)
with torch.no_grad():
    with torch.autocast("cpu", torch.bfloat16):
        other(sound)
    before, after = model(sound).logits, other(sound).logits  # the same call in float32
tables = [m.wav2vec2_conformer.encoder.embed_positions for m in (model, other)]
right, wrong = (table.cached_rotary_positional_embedding for table in tables)
error = (wrong - right).abs().amax((0, 2, 3, 4))  # by position
print("dtypes of cos and sin:", right.dtype, wrong.dtype)
print("largest error of cos and sin:", error.max().item(), "at position 0:", error[0].item())
print("largest logit:", before.abs().max().item(), "largest change:", end=" ")
print((after - before).abs().max().item())
assert right.dtype == torch.float32
assert error[0] == 0
assert error[1:].min() > 1e-3
assert (after - before).abs().max() > 1e-4
