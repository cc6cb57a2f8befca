"""Qwen3-Omni: the talker's generate after a prompt with an image and audio.

Runs with torch and transformers alone. `Qwen3OmniMoeForConditionalGeneration.generate` calls the
talker with the ids, grids and lengths of the prompt, as here.
"""

import torch
import transformers
from transformers.models.qwen3_omni_moe.configuration_qwen3_omni_moe import Qwen3OmniMoeTalkerConfig
from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import (
    Qwen3OmniMoeTalkerForConditionalGeneration,
)

ROPE = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [3, 3, 2]}
SIZES = {
    "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "vocab_size": 64,
    "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16, "num_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32,
    "pad_token_id": 0,
}  # fmt: skip
if int(transformers.__version__.split(".")[0]) < 5:
    MORE = {"rope_scaling": {"type": "default", **ROPE}, "rope_theta": 1e6}
else:
    MORE = {"rope_parameters": ROPE}
CODES = {"num_code_groups": 2, "use_sliding_window": False, "pad_token_id": 0}
START, IMAGE, END, SOUND_START, SOUND, SOUND_END = range(20, 26)
config = Qwen3OmniMoeTalkerConfig(
    text_config=SIZES | MORE, code_predictor_config=SIZES | CODES, num_code_groups=2,
    thinker_hidden_size=32, accept_hidden_layer=1, codec_eos_token_id=60, codec_bos_id=61,
    image_token_id=IMAGE, video_token_id=30, audio_token_id=SOUND, vision_start_token_id=START,
    audio_start_token_id=SOUND_START, spatial_merge_size=2, speaker_id={}, pad_token_id=0,
)  # fmt: skip
torch.manual_seed(0)
model = Qwen3OmniMoeTalkerForConditionalGeneration(config).eval()
seen = []
model.model.rotary_emb.register_forward_pre_hook(lambda _, given: seen.append(given[1][-3:]))


def generate(ids, **more):
    """Return the position ids of the prompt in generate, or the message of its error."""
    seen.clear()
    embedded = torch.zeros(1, len(ids), 32)
    try:
        model.generate(
            inputs_embeds=embedded, talker_input_ids=torch.tensor([ids]),
            tts_pad_embed=embedded[:, :1], trailing_text_hidden=embedded,
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            max_new_tokens=1, do_sample=False, eos_token_id=None, pad_token_id=0, **more,
        )  # fmt: skip
    except AttributeError as error:
        return str(error)
    return seen[0][:, 0].long().tolist()


image = [5, START, IMAGE, IMAGE, END, 6]
audio = [SOUND_START, SOUND, SOUND_END, 6]
grid = {"image_grid_thw": torch.tensor([[1, 2, 4]])}
sound = {"audio_feature_lengths": torch.tensor([4])}
right = [[0, 1, 2, 2, 4, 5], [0, 1, 2, 2, 4, 5], [0, 1, 2, 3, 4, 5]]
found, both = generate(image, **grid), generate(image + audio, **grid, **sound)
print("an image:          ", found)
print("audio:             ", generate([5, *audio], **sound))
print("an image and audio:", both)
if found != right:
    raise RuntimeError("a prompt with an image alone has other ids")
assert both == "'Qwen3OmniMoeTalkerConfig' object has no attribute 'audio_config'"
