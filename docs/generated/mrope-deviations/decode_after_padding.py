"""HunYuan-VL: the position of the next token after a prompt with an image and padding on the left.

Runs with torch and transformers alone. The prompt has two slots of padding and twelve tokens.
"""

import torch
from transformers import HunYuanVLConfig, HunYuanVLForConditionalGeneration

IMAGE = 30
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2] * 4}
SIZES = {
    "num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2,
}  # fmt: skip
config = HunYuanVLConfig(
    text_config={
        **SIZES, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 32,
        "rope_parameters": ROPE, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None,
    },
    vision_config={**SIZES, "out_hidden_size": 32}, image_token_id=IMAGE,
)  # fmt: skip
torch.manual_seed(0)
model = HunYuanVLForConditionalGeneration(config).eval()
with torch.no_grad():
    for weight in model.parameters():
        if weight.ndim > 1:
            weight.normal_(std=weight.shape[-1] ** -0.5)
seen = []
model.model.language_model.rotary_emb.register_forward_pre_hook(
    lambda _, args, kwargs: seen.append(kwargs.get("position_ids", args[-1])), with_kwargs=True
)
prompt = torch.tensor([[0, 0, 5, 6] + [IMAGE] * 8 + [7, 8]])
mask = (torch.arange(14) > 1).long()[None]
given = {"image_grid_thw": torch.tensor([[1, 4, 4]]), "mm_token_type_ids": (prompt == IMAGE).int()}


def longer(tensor, value):
    """Return a tensor with one more value at its end."""
    return torch.nn.functional.pad(tensor, (0, 1), value=value)


with torch.no_grad():
    made = model.generate(
        input_ids=prompt, attention_mask=mask, **given, max_new_tokens=2, do_sample=False,
        output_logits=True, return_dict_in_generate=True,
    )  # fmt: skip
    generated = seen[-1].flatten().unique().tolist()
    token = made.sequences[:, 14:15]
    cache = model(input_ids=prompt, attention_mask=mask, **given, use_cache=True).past_key_values
    last = seen[-1][-1, 0, -1].item()
    cached = model(input_ids=token, attention_mask=longer(mask, 1), past_key_values=cache).logits[
        :, -1
    ]
    decoded = seen[-1].flatten().unique().tolist()
    given["mm_token_type_ids"] = longer(given["mm_token_type_ids"], 0)
    whole = model(
        input_ids=torch.cat([prompt, token], dim=1), attention_mask=longer(mask, 1), **given
    ).logits[:, -1]
print("last token of the prompt:", last)
print("next token: in generate", generated, "in forward with a cache", decoded)
print(f"logits of generate and of one call differ by {(made.logits[1] - whole).abs().max():.2g}")
print(f"logits of forward with a cache differ from both by {(cached - whole).abs().max():.2g}")
if (last, generated) != (11, [12]):
    raise RuntimeError("generate counts padding as well")
assert decoded == [14]
