"""Llama 4's query temperature counts padding: a row alone, and the same row padded on the left.

Runs with torch and transformers alone. Position ids and mask are those that `generate` makes.
floor_scale is 8 instead of 8192, and the row is shorter to match; the arithmetic is the same.
"""

import torch
from transformers import Llama4ForCausalLM, Llama4TextConfig

PADDING, LENGTH = 6, 5
for tuning in (False, True):
    config = Llama4TextConfig(
        hidden_size=64,
        intermediate_size=64,
        intermediate_size_mlp=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        num_hidden_layers=2,
        vocab_size=99,
        pad_token_id=0,
        no_rope_layers=[1, 0],
        layer_types=["chunked_attention", "full_attention"],
        moe_layers=[],
        attn_temperature_tuning=tuning,
        floor_scale=8,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    model = Llama4ForCausalLM(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(std=weight.shape[-1] ** -0.5)
        ids = torch.randint(3, 99, (1, LENGTH))
        alone = model(input_ids=ids).logits
        row = torch.cat([torch.zeros(1, PADDING, dtype=torch.long), ids], dim=1)
        mask = (torch.arange(PADDING + LENGTH) >= PADDING).long()[None]
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        padded = model(input_ids=row, attention_mask=mask, position_ids=positions).logits
    largest = (padded[:, PADDING:] - alone).abs().max()
    print(
        f"attn_temperature_tuning={tuning}: last token, first logit {alone[0, -1, 0]:+.4f} alone, "
        f"{padded[0, -1, 0]:+.4f} padded; largest difference {largest:.2g}"
    )
    if not tuning and largest > 1e-3:
        raise RuntimeError("padding changes the logits without the temperature, too")
assert largest > 1e-3
