"""Qwen2.5-Omni: the talker generates without the positions of images if there is no padding."""

import torch
from transformers.models.qwen2_5_omni.configuration_qwen2_5_omni import Qwen2_5OmniTalkerConfig
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import (
    Qwen2_5OmniTalkerForConditionalGeneration,
)

config = Qwen2_5OmniTalkerConfig(
    num_hidden_layers=1, hidden_size=32, embedding_size=32, intermediate_size=32,
    num_attention_heads=2, num_key_value_heads=1, head_dim=16,
    rope_parameters={"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]},
)  # fmt: skip
model, seen = Qwen2_5OmniTalkerForConditionalGeneration(config).eval(), []
model.model.rotary_emb.register_forward_pre_hook(lambda _, given: seen.append(given[1]))
start, end, image = config.vision_start_token_id, config.vision_end_token_id, config.image_token_id
row = [5, start, image, image, image, image, end, 5]


def first_ids(rows, mask):
    """Return the position ids of the prompt of ``generate``."""
    seen.clear()
    ids = torch.tensor(rows)
    model.generate(
        input_ids=torch.ones_like(ids), input_text_ids=ids, attention_mask=torch.tensor(mask),
        inputs_embeds=torch.zeros(*ids.shape, 32), thinker_reply_part=torch.zeros(len(rows), 1, 32),
        image_grid_thw=torch.tensor([[1, 4, 4]] * len(rows)), max_new_tokens=2, do_sample=False,
    )  # fmt: skip
    return seen[0]


alone = first_ids([row], [[1] * 8])
beside = first_ids([[0, 0, *row], [5, 5, *row]], [[0, 0] + [1] * 8, [1] * 10])
print("image, width, alone:         ", alone[2, 0, 2:6].tolist())
print("image, width, beside another:", beside[2, 0, 4:8].tolist())
assert alone[2, 0, 2:6].tolist() == [2, 3, 4, 5]  # generate() drops a mask of ones
assert beside[2, 0, 4:8].tolist() == [2, 3, 2, 3]
