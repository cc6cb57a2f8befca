"""Put the fast rotation into a model of transformers: the same tokens, and exact angles.

The encoding is read from the model's own configuration. No weights are downloaded.
"""

import sys

try:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.models.llama import modeling_llama
except ImportError:
    sys.exit('this example needs transformers: pip install "posenc-ref[torch,peers]"')

from posenc_ref import from_config
from posenc_ref.backends import fused

torch.manual_seed(0)
config = LlamaConfig(
    hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, vocab_size=100, pad_token_id=0,
)  # fmt: skip
model = LlamaForCausalLM(config).eval()
tokens = torch.randint(1, 100, (2, 40))
given = {"attention_mask": torch.ones_like(tokens), "max_new_tokens": 12, "do_sample": False}
with torch.no_grad():
    before = model(tokens).logits
said = model.generate(tokens, **given)

rope = fused(from_config(config.to_dict()).only)
print(rope)


class Positions(torch.nn.Module):
    """Replaces the tables of cosines and sines: passes the positions on to the layers."""

    def forward(self, x, position_ids):
        return position_ids, position_ids


model.model.rotary_emb = Positions()
modeling_llama.apply_rotary_pos_emb = lambda q, k, at, same, unsqueeze_dim=1: rope.qk(q, k, at)

with torch.no_grad():
    after = model(tokens).logits
print("largest logit", float(before.abs().max()), "difference", float((after - before).abs().max()))
assert torch.equal(model.generate(tokens, **given), said)

loss = model(tokens, labels=tokens).loss  # trains as before; compiles with fullgraph=True
loss.backward()
print("loss", float(loss.detach()))
