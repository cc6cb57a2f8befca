"""Qwen2-VL: after an image, a call with a cache and an attention mask fails."""

import torch
from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}
text = {
    "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "vocab_size": 32,
    "num_attention_heads": 1, "num_key_value_heads": 1, "rope_parameters": rope,
    "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
vision = {"depth": 1, "embed_dim": 16, "hidden_size": 16, "num_heads": 2, "patch_size": 2}
config = Qwen2VLConfig(text_config=text, vision_config=vision, image_token_id=30, video_token_id=31)
model = Qwen2VLForConditionalGeneration(config).eval()
ids = torch.tensor([[5, 5, 30, 30, 5, 5]])
more = {"mm_token_type_ids": (ids == 30).int(), "image_grid_thw": torch.tensor([[1, 2, 4]])}
cache = model(ids, attention_mask=torch.ones_like(ids), use_cache=True, **more).past_key_values
try:
    model(torch.tensor([[7]]), attention_mask=torch.ones(1, 7).long(), past_key_values=cache)
except RuntimeError as error:
    print(error)  # the rotary embedding got the positions of 7 tokens for one
else:
    raise AssertionError("the call succeeds")
