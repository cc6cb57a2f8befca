"""MiniCPM-V 4.7: the position of a newline after an image.

Runs with torch and transformers alone. The prompt has three words, an image of 2 x 2 tokens, a
newline and a word; the image starts at position 3.
"""

import torch
from transformers import MiniCPMV4_7Config, MiniCPMV4_7ForConditionalGeneration

START, END, SLICE, SLICE_END, NEWLINE, IMAGE = range(20, 26)
SIZES = {
    "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
}  # fmt: skip
ROPE = {
    "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [3, 3, 2],
    "mrope_interleaved": True, "partial_rotary_factor": 1.0,
}  # fmt: skip
config = MiniCPMV4_7Config(
    text_config={
        "model_type": "qwen3_5_text", **SIZES, "num_key_value_heads": 2, "head_dim": 16,
        "vocab_size": 32, "rope_parameters": ROPE, "linear_num_key_heads": 2,
        "linear_num_value_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
        "layer_types": ["linear_attention", "full_attention"],
        "bos_token_id": None, "eos_token_id": None, "pad_token_id": None,
    },
    vision_config={**SIZES, "image_size": 56, "patch_size": 14}, insert_layer_id=0,
    image_start_id=START, image_end_id=END, slice_start_id=SLICE, slice_end_id=SLICE_END,
    newline_id=NEWLINE, image_token_id=IMAGE, video_token_id=27,
)  # fmt: skip
torch.manual_seed(0)
model = MiniCPMV4_7ForConditionalGeneration(config).eval()
with torch.no_grad():
    for weight in model.parameters():
        if weight.ndim > 1:
            weight.normal_(std=weight.shape[-1] ** -0.5)
seen = []
model.model.language_model.rotary_emb.register_forward_pre_hook(
    lambda _, args, kwargs: seen.append(kwargs.get("position_ids", args[-1])), with_kwargs=True
)
ids = torch.tensor([[5, 6, 7, START, IMAGE, IMAGE, IMAGE, IMAGE, END, NEWLINE, 8]])
given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
more = {"mm_token_type_ids": (ids == IMAGE).long(), "target_sizes": torch.tensor([[8, 8]])}
with torch.no_grad():
    logits = model(**given, **more).logits
    found = seen.pop()[-3:]
    text = found.clone()
    text[..., 9:] = torch.tensor([6, 7])  # the canvas of the image ends at 5
    others = model(**given, position_ids=text).logits
    model.generate(**given, **more, max_new_tokens=1, do_sample=False)
print("image, time and height:", found[0, 0, 3:9].tolist(), found[1, 0, 3:9].tolist())
print("newline:", found[:, 0, 9].tolist(), "word after it:", found[:, 0, 10].tolist())
print(f"with the newline as text, logits differ by {(logits - others)[:, 9:].abs().max():.2g}")
if found[:, 0, 10].unique().tolist() != [6] or not found.equal(seen.pop()[-3:]):
    raise RuntimeError("generate numbers the prompt in another way")
assert found[:, 0, 9].tolist() == [3, 3, 3]  # where the image starts; text would have 6
