"""Qwen2.5-Omni: what the talker makes of a mask of ones in generate.

Runs with torch and transformers alone. The prompt with an image is given alone, with a mask of
ones, and beside a longer prompt, with padding; `Qwen2_5OmniForConditionalGeneration.generate` calls
the talker like this.
"""

import torch
import transformers
from transformers.models.qwen2_5_omni.configuration_qwen2_5_omni import Qwen2_5OmniTalkerConfig
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import (
    Qwen2_5OmniTalkerForConditionalGeneration,
)

ROPE = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]}
if int(transformers.__version__.split(".")[0]) < 5:
    MORE = {"rope_scaling": {"type": "default", **ROPE}, "rope_theta": 1e6}
else:
    MORE = {"rope_parameters": ROPE}
IDS = {"vision_start_token_id": 20, "vision_end_token_id": 21, "image_token_index": 22}
IDS |= {"video_token_index": 23, "audio_token_index": 24, "audio_start_token_id": 25}
IDS |= {"codec_pad_token": 30, "codec_bos_token": 31}
IDS |= {"tts_codec_pad_token_id": 30, "tts_codec_start_token_id": 31}
config = Qwen2_5OmniTalkerConfig(
    pad_token_id=0, num_hidden_layers=2, hidden_size=32, embedding_size=32, intermediate_size=32,
    vocab_size=64, num_attention_heads=2, num_key_value_heads=1, head_dim=16, **MORE, **IDS,
)  # fmt: skip
torch.manual_seed(0)
model = Qwen2_5OmniTalkerForConditionalGeneration(config).eval()
with torch.no_grad():
    for weight in model.parameters():
        if weight.ndim > 1:
            weight.normal_(std=weight.shape[-1] ** -0.5)
seen = []
model.model.rotary_emb.register_forward_pre_hook(lambda _, given: seen.append(given[1]))
ROW = [5, 20, 22, 22, 22, 22, 21, 5, 6, 7]  # an image of 2 x 2 tokens
EMBEDDED, OTHER, REPLY = torch.randn(10, 32), torch.randn(12, 32), torch.randn(1, 1, 32)


def first_step(rows, mask, embedded):
    """Return the position ids of the prompt and the logits of the first token."""
    seen.clear()
    ids = torch.tensor(rows)
    made = model.generate(
        input_ids=torch.ones_like(ids), input_text_ids=ids, attention_mask=torch.tensor(mask),
        inputs_embeds=embedded.clone(), thinker_reply_part=REPLY.repeat(len(rows), 1, 1),
        image_grid_thw=torch.tensor([[1, 4, 4]] * len(rows)), max_new_tokens=2, do_sample=False,
        eos_token_id=None, pad_token_id=30, output_logits=True, return_dict_in_generate=True,
    )  # fmt: skip
    return seen[0][-3:], made.logits[0]


alone, logits = first_step([ROW], [[1] * 10], EMBEDDED[None])
padded = torch.nn.functional.pad(EMBEDDED, (0, 0, 2, 0))
beside, others = first_step(
    [[0, 0, *ROW], [5, 5, *ROW]], [[0, 0] + [1] * 10, [1] * 12], torch.stack([padded, OTHER])
)
right = [[2, 2, 2, 2], [2, 2, 3, 3], [2, 3, 2, 3]]  # time, height, width of the image
print("image, alone:         ", alone[:, 0, 2:6].tolist())
print("image, beside another:", beside[:, 0, 4:8].tolist())
print(f"largest difference of the first logits: {(logits[0] - others[0]).abs().max():.2g}")
if beside[:, 0, 4:8].tolist() != right:
    raise RuntimeError("the prompt with padding has other ids as well")
assert alone[:, 0, 2:6].tolist() != right
