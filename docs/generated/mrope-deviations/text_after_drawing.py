"""GLM-Image: the positions of a prompt without grids after a prompt with an image to draw.

Runs with torch and transformers alone.
"""

import torch
from transformers import GlmImageConfig, GlmImageForConditionalGeneration

SIZES = {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2}
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [3, 3, 2]}
config = GlmImageConfig(
    text_config={
        **SIZES, "num_hidden_layers": 2, "num_key_value_heads": 2, "vocab_size": 64,
        "vision_vocab_size": 64, "rope_parameters": {**ROPE, "partial_rotary_factor": 1.0},
        "pad_token_id": 0, "eos_token_id": None,
    },
    vision_config={**SIZES, "num_heads": 2, "depth": 1, "patch_size": 2, "image_size": 8},
    vq_config={"embed_dim": 32, "num_embeddings": 32, "latent_channels": 32},
    image_token_id=30, image_start_token_id=31, image_end_token_id=32,
)  # fmt: skip
torch.manual_seed(0)
model = GlmImageForConditionalGeneration(config).eval()
with torch.no_grad():
    for weight in model.parameters():
        if weight.ndim > 1:
            weight.normal_(std=weight.shape[-1] ** -0.5)
seen = []
model.model.language_model.rotary_emb.register_forward_pre_hook(
    lambda _, args, kwargs: seen.append(kwargs.get("position_ids", args[-1])), with_kwargs=True
)


def generate(ids, tokens, **more):
    """Return the positions of the generated tokens, and the logits of the last."""
    seen.clear()
    ids = torch.tensor([ids])
    made = model.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False,
        pad_token_id=0, output_logits=True, return_dict_in_generate=True, **more,
    )  # fmt: skip
    return [ids[-3:].flatten().tolist() for ids in seen[1:]], made.logits[-1]


TEXT = [5, 6, 7, 8, 9, 10]
right, logits = generate(TEXT, 4)
generate([5, 6, 31], 7, image_grid_thw=torch.tensor([[1, 3, 2]]))
found, others = generate(TEXT, 4)
try:
    generate(TEXT, 10)
    message = "none"
except (RuntimeError, ValueError, IndexError) as error:
    message = str(error)[:70]
print("tokens after a text, in a new model:", right)
print("the same after an image of 3 x 2:   ", found)
print(f"largest difference of logits: {(logits - others).abs().max():.2g}")
print("error after the last token of the image:", message)
if right != [[n] * 3 for n in (6, 7, 8)]:
    raise RuntimeError("a new model numbers a text in another way")
assert found != right
