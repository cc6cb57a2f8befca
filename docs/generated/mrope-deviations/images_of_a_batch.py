"""HunYuan-VL: the number of an image in a batch of prompts.

Runs with torch and transformers alone. The prompt has an image of 2 x 2 tokens, whose rows end in
one more; it is given alone and as the second of two equal prompts.
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
prompt, grid = torch.tensor([[5, 6] + [IMAGE] * 8 + [7, 8]]), torch.tensor([[1, 4, 4]])


def run(rows):
    """Return the logits of a batch of equal prompts, and the positions of forward and generate."""
    ids = prompt.repeat(rows, 1)
    given = {
        "input_ids": ids, "attention_mask": torch.ones_like(ids),
        "image_grid_thw": grid.repeat(rows, 1), "mm_token_type_ids": (ids == IMAGE).int(),
    }  # fmt: skip
    seen.clear()
    with torch.no_grad():
        logits = model(**given).logits[-1]
        model.generate(**given, max_new_tokens=1, do_sample=False)
    return logits, *(ids[3, -1, 3:9].tolist() for ids in seen)


logits, *alone = run(1)
again, *second = run(2)
last, *_ = run(16)
print("number of the image, alone:     ", *alone)
print("number of the image, second row:", *second)
print(
    f"largest difference of logits: {(logits - again).abs().max():.2g} in the second row, "
    f"{(logits - last).abs().max():.2g} in the sixteenth"
)
# "the ordinal of the image/frame in the input sequence": 0 in both
if alone != [[0] * 6] * 2:
    raise RuntimeError("the image of a prompt alone has another number")
assert second == [[1] * 6] * 2
