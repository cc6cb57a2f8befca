"""Qwen2.5-Omni and Qwen3-Omni: the positions of text after a short video with its sound.

Runs with torch and transformers alone. The video has one frame of 3 x 7 tokens and four tokens of
sound. Models that a release lacks are left out.
"""

import importlib

import torch
import transformers

ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [3, 3, 2]}
TEXT = {
    "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "vocab_size": 64,
    "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16, "num_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 32, "pad_token_id": None,
}  # fmt: skip
if int(transformers.__version__.split(".")[0]) < 5:
    TEXT |= {"rope_scaling": {"type": "default", **ROPE}, "rope_theta": 10000.0}
else:
    TEXT |= {"rope_parameters": ROPE}
VISION = {
    "depth": 1, "hidden_size": 32, "embed_dim": 32, "num_heads": 2, "intermediate_size": 32,
    "out_hidden_size": 32, "deepstack_visual_indexes": [],
}  # fmt: skip
AUDIO = {
    "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 32, "d_model": 32,
    "output_dim": 32, "num_hidden_layers": 1, "downsample_hidden_size": 8,
}  # fmt: skip
NAMES = (
    "vision_start_token_id", "vision_end_token_id", "audio_start_token_id", "audio_end_token_id",
    "image_token_id", "video_token_id", "audio_token_id",
)  # fmt: skip
IDS = {name: 40 + n for n, name in enumerate(NAMES)}
IDS |= {name[:-2] + "index": IDS[name] for name in NAMES[4:]}  # the names of Qwen2.5-Omni
#: The class, positions per second, audio features for four tokens, where the video starts.
MODELS = {
    "qwen2_5_omni": ("Qwen2_5Omni", 25, 16, 3),
    "qwen3_omni_moe": ("Qwen3OmniMoe", 13, 32, 4),
}


PROMPT = [5, 5, IDS["vision_start_token_id"], IDS["audio_start_token_id"]]
PROMPT += [IDS["video_token_id"]] * 21 + [IDS["audio_token_id"]] * 4
PROMPT += [IDS["audio_end_token_id"], IDS["vision_end_token_id"], 6, 7]
IDS_OF_PROMPT = torch.tensor([PROMPT])

wrong, built = [], []
for name, (prefix, rate, features, start) in MODELS.items():
    try:
        module = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
        settings = importlib.import_module(f"transformers.models.{name}.configuration_{name}")
    except ModuleNotFoundError:
        continue
    config = getattr(settings, f"{prefix}ThinkerConfig")(
        text_config=TEXT, vision_config=VISION, audio_config=AUDIO, position_id_per_seconds=rate,
        seconds_per_chunk=2, **IDS,
    )  # fmt: skip
    torch.manual_seed(0)
    model = getattr(module, f"{prefix}ThinkerForConditionalGeneration")(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(std=weight.shape[-1] ** -0.5)
    built.append(name)
    seen = []
    names = (n for n, _ in model.named_modules() if n.endswith(".rotary_emb"))
    names = (n for n in names if "vis" not in n and "audio" not in n)
    rotary = model.get_submodule(min(names, key=len))
    rotary.register_forward_pre_hook(lambda _, given, seen=seen: seen.append(given[1]))
    given = {"attention_mask": torch.ones_like(IDS_OF_PROMPT)}
    with torch.no_grad():
        logits = model(
            input_ids=IDS_OF_PROMPT, **given, use_audio_in_video=True, use_cache=False,
            video_grid_thw=torch.tensor([[1, 6, 14]]), video_second_per_grid=torch.tensor([0.5]),
            feature_attention_mask=torch.ones(1, features, dtype=torch.long),
        ).logits  # fmt: skip
        found = seen.pop()[-3:]
        right = found.clone()
        right[..., 29:] += start + 7 - found[0, 0, 29]  # the columns are start to start + 6
        should = model(input_ids=IDS_OF_PROMPT, **given, position_ids=right).logits
    columns, sound = found[2, 0, 4:11].tolist(), found[0, 0, 25:29].tolist()
    assert columns == list(range(start, start + 7))
    assert sound == list(range(start, start + 4))
    print(f"{name}: columns of the video {columns}, sound {sound}")
    print(f"  text after it: {found[0, 0, 29:].tolist()}, expected {right[0, 0, 29:].tolist()}")
    print(f"  largest difference of logits: {(logits - should)[:, 29:].abs().max():.2g}")
    if found[0, 0, 29] <= max(columns):
        wrong.append(name)
if not built:
    raise RuntimeError("this release has neither model")
assert wrong
