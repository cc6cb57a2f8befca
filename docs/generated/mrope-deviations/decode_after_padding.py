"""HunYuan-VL: ``forward`` with a cache numbers the next token with the padding counted."""

import torch
from transformers import DynamicCache, HunYuanVLConfig
from transformers.models.hunyuan_vl.modeling_hunyuan_vl import HunYuanVLModel

rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2] * 4}
text = {
    "num_hidden_layers": 1, "head_dim": 16, "rope_parameters": rope, "hidden_size": 16,
    "intermediate_size": 16, "num_attention_heads": 1, "num_key_value_heads": 1, "vocab_size": 8,
}  # fmt: skip
vision = {"num_hidden_layers": 1, "hidden_size": 16, "intermediate_size": 16}
config = HunYuanVLConfig(
    text_config=text, vision_config={**vision, "num_attention_heads": 1, "out_hidden_size": 16}
)
model, seen = HunYuanVLModel(config).eval(), []
model.language_model.rotary_emb.register_forward_pre_hook(lambda _, given: seen.append(given[1]))
mask = torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1, 1, 1]])
types = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1, 1, 0]])  # two of padding, then eight tokens
cache = DynamicCache(config=config.text_config)
with torch.no_grad():
    model(
        input_ids=types, mm_token_type_ids=types, image_grid_thw=torch.tensor([[1, 4, 4]]),
        attention_mask=mask, past_key_values=cache,
    )  # fmt: skip
    more = torch.nn.functional.pad(mask, (0, 1), value=1)
    model(input_ids=types[:, :1], attention_mask=more, past_key_values=cache)
print("last token of the prompt:", seen[0][:, 0, -1].tolist())
print("next token:              ", seen[1][:, 0, -1].tolist())
assert seen[0][0, 0, -1] == 7
assert seen[1][0, 0, -1] == 10  # the prompt has eight tokens: it is the ninth, number 8
