"""Qwen2-VL, Qwen2.5-VL and Ernie 4.5 VL: the positions of text after a video.

Runs with torch and transformers alone. The video has six frames of 2 x 1 tokens (in Ernie's
resampled grid six of twelve frames). Models that a release lacks are left out.
"""

import inspect

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForImageTextToText

ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [3, 3, 2]}
TEXT = {
    "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "vocab_size": 32,
    "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 128,
    "bos_token_id": None, "eos_token_id": None, "pad_token_id": None,
}  # fmt: skip
if int(transformers.__version__.split(".")[0]) < 5:
    TEXT |= {"rope_scaling": {"type": "default", **ROPE}, "rope_theta": 10000.0}
else:
    TEXT |= {"rope_parameters": ROPE}
START, END, VIDEO = 28, 29, 31
IDS = {
    "vision_start_token_id": START, "vision_end_token_id": END, "video_start_token_id": START,
    "video_end_token_id": END, "image_token_id": 30, "video_token_id": VIDEO,
}  # fmt: skip
MODELS = {
    "qwen2_vl": {"embed_dim": 32, "hidden_size": 32},
    "qwen2_5_vl": {"hidden_size": 32, "out_hidden_size": 32, "tokens_per_second": 2},
    "ernie4_5_vl_moe": {"hidden_size": 32, "temporal_merge_size": 2},
}
PROMPT = torch.tensor([[5, 6, START] + [VIDEO] * 12 + [END, 7, 8]])


def expected(times):
    """Return the ids of Wang et al. 2024: text after the video starts at its maximum + 1."""
    rows = [[i] * 3 for i in range(3)]
    rows += [[3 + time, 3 + row, 3] for time in times for row in range(2)]
    last = max(max(row) for row in rows)
    rows += [[last + i] * 3 for i in (1, 2, 3)]
    return torch.tensor(rows).T[:, None]


wrong = []
for name, vision in MODELS.items():
    if name not in CONFIG_MAPPING:
        continue
    vision |= {"depth": 1, "num_heads": 2, "intermediate_size": 32, "spatial_merge_size": 2}
    text = dict(TEXT)
    if name == "ernie4_5_vl_moe":
        text |= {"moe_intermediate_size": [32, 32], "moe_num_experts": 4, "moe_k": 2}
    nested = "text_config" in CONFIG_MAPPING[name]().to_dict()
    given = {"text_config": text} if nested else text
    torch.manual_seed(0)
    model = AutoModelForImageTextToText.from_config(
        CONFIG_MAPPING[name](vision_config=vision, **given, **IDS)
    ).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(std=weight.shape[-1] ** -0.5)
    seen = []
    names = (n for n, _ in model.named_modules() if n.endswith(".rotary_emb") and "vis" not in n)
    rotary = model.get_submodule(min(names, key=len))  # older releases have others in the layers
    rotary.register_forward_pre_hook(lambda _, given, seen=seen: seen.append(given[1]))
    frames = 12 if name == "ernie4_5_vl_moe" else 6
    more = {"video_grid_thw": torch.tensor([[frames, 4, 2]])}
    parameters = inspect.signature(model.forward).parameters
    if "mm_token_type_ids" in parameters:
        more["mm_token_type_ids"] = (PROMPT == VIDEO).int() * 2
    if "second_per_grid_ts" in parameters:
        more["second_per_grid_ts"] = torch.tensor([1.0])
    right = expected([2 * i if name == "qwen2_5_vl" else i for i in range(6)])
    mask = torch.ones_like(PROMPT)
    with torch.no_grad():
        logits = model(input_ids=PROMPT, attention_mask=mask, **more).logits
        found = seen.pop()[-3:]
        should = model(input_ids=PROMPT, attention_mask=mask, position_ids=right).logits
        seen.clear()
        model.generate(
            input_ids=PROMPT, attention_mask=mask, max_new_tokens=2, do_sample=False, **more
        )
    if not found[:, :, :15].equal(right[:, :, :15]):
        raise RuntimeError(f"{name} has other positions in the video itself")
    print(f"{name}: times of the video {found[0, 0, 3:15:2].tolist()}")
    print(f"  text after it: {found[0, 0, 15:].tolist()}, expected {right[0, 0, 15:].tolist()}")
    print(f"  the first generated token: {seen[-1][-1].flatten().tolist()[-1]}")
    print(f"  largest difference of logits: {(logits - should)[:, 15:].abs().max():.2g}")
    if not found.equal(right):
        wrong.append(name)
assert wrong
