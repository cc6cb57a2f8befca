"""Qwen3-Omni: the talker fails on prompts with an image and audio."""

import torch
from transformers.models.qwen3_omni_moe.configuration_qwen3_omni_moe import Qwen3OmniMoeTalkerConfig
from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import (
    Qwen3OmniMoeTalkerForConditionalGeneration,
)

config = Qwen3OmniMoeTalkerConfig(
    spatial_merge_size=2, text_config={"shared_expert_intermediate_size": 768}
)
with torch.device("meta"):
    model = Qwen3OmniMoeTalkerForConditionalGeneration(config)
image = [config.vision_start_token_id, config.image_token_id, 151653]
audio = [config.audio_start_token_id, config.audio_token_id, 151670]
for ids in (image, [*image, *audio]):
    prompt = torch.tensor([ids])
    try:
        found, _ = model.get_rope_index(
            prompt, torch.tensor([[1, 2, 2]]), None, torch.ones_like(prompt), False,
            torch.tensor([4]),
        )  # fmt: skip
        print("time:", found[0, 0].tolist())
    except AttributeError as error:
        message = str(error)
        print("AttributeError:", message)
assert "no attribute 'audio_config'" in message
