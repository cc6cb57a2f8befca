"""Multimodal models: a call with a cache and an attention mask after an image.

Runs with torch and transformers alone. The mask covers the prompt and the new token, as the loop
in transformers' documentation of caches passes it. Models that a release lacks are left out.
"""

import inspect

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForImageTextToText

ROPE = {
    "rope_type": "default",
    "rope_theta": 10000.0,
    "mrope_section": [3, 3, 2],
    "partial_rotary_factor": 1.0,
}
START, END, IMAGE = 28, 29, 30
TEXT = {
    "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "vocab_size": 32,
    "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16,
    "partial_rotary_factor": 1.0,
    "layer_types": ["full_attention"] * 2, "moe_intermediate_size": 32, "num_experts": 4,
    "num_experts_per_tok": 2, "n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1,
    "topk_group": 1, "first_k_dense_replace": 1, "shared_expert_intermediate_size": 32,
    "bos_token_id": None, "eos_token_id": None, "pad_token_id": None,
}  # fmt: skip
if int(transformers.__version__.split(".")[0]) < 5:
    TEXT |= {"rope_scaling": {"type": "default", **ROPE}, "rope_theta": 10000.0}
else:
    TEXT |= {"rope_parameters": ROPE}
VISION = {
    "depth": 1, "embed_dim": 32, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2,
    "num_attention_heads": 2, "num_hidden_layers": 1, "out_hidden_size": 32, "patch_size": 2,
    "spatial_merge_size": 2, "deepstack_visual_indexes": [],
}  # fmt: skip
IDS = {
    "vision_start_token_id": START, "vision_end_token_id": END, "image_start_token_id": START,
    "image_end_token_id": END, "image_token_id": IMAGE, "video_token_id": 31,
    "video_start_token_id": 27, "video_end_token_id": 26,
}  # fmt: skip
OTHERS = {
    "ernie4_5_vl_moe": {"moe_intermediate_size": [32, 32], "moe_num_experts": 4, "moe_k": 2},
    "qwen3_5": {"layer_types": ["linear_attention", "full_attention"]},
    "qwen3_5_moe": {"layer_types": ["linear_attention", "full_attention"]},
}
NAMES = (
    "qwen2_vl qwen2_5_vl qwen3_vl qwen3_vl_moe qwen3_5 qwen3_5_moe glm4v glm4v_moe glm46v glm_ocr "
    "ernie4_5_vl_moe paddleocr_vl"
)
PROMPT = torch.tensor([[5, START, IMAGE, IMAGE, END, 6]])

MORE = {"mm_token_type_ids": (PROMPT == IMAGE).int(), "image_grid_thw": torch.tensor([[1, 2, 4]])}

failed, succeeded = [], []
for name in NAMES.split():
    if name not in CONFIG_MAPPING:
        continue
    text = TEXT | OTHERS.get(name, {})
    nested = "text_config" in CONFIG_MAPPING[name]().to_dict()
    given = {"text_config": text} if nested else text
    torch.manual_seed(0)
    model = AutoModelForImageTextToText.from_config(
        CONFIG_MAPPING[name](vision_config=VISION, **given, **IDS)
    ).eval()
    seen = []
    names = (n for n, _ in model.named_modules() if n.endswith(".rotary_emb") and "vis" not in n)
    rotary = model.get_submodule(min(names, key=len))  # older releases have others in the layers
    rotary.register_forward_pre_hook(
        lambda _, args, kwargs, seen=seen: seen.append(kwargs.get("position_ids", args[-1])),
        with_kwargs=True,
    )
    accepted = inspect.signature(model.forward).parameters
    inputs = {key: value for key, value in MORE.items() if key in accepted} | {"input_ids": PROMPT}
    places = {"cache_position": torch.arange(6)} if "cache_position" in accepted else {}
    message = "the call succeeds"
    with torch.no_grad():
        cache = model(
            **inputs, attention_mask=torch.ones_like(PROMPT), use_cache=True, **places
        ).past_key_values
        try:
            model(
                input_ids=torch.tensor([[7]]), attention_mask=torch.ones(1, 7, dtype=torch.long),
                past_key_values=cache, **{key: torch.tensor([6]) for key in places},
            )  # fmt: skip
        except RuntimeError as error:
            message = str(error)[:70]
    (failed if seen[-1].shape[-1] == 7 else succeeded).append(name)
    print(f"{name}: ids of {seen[-1].shape[-1]} tokens for 1; {message}")
print("position ids of all tokens:", *failed)
assert failed
