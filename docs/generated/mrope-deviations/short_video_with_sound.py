"""Qwen2.5-Omni, Qwen3-Omni: text after a short video with sound repeats positions of the video."""

import torch
from transformers.models.qwen2_5_omni import modeling_qwen2_5_omni as omni

config = omni.Qwen2_5OmniThinkerConfig(vision_start_token_id=151652, vision_end_token_id=151653)
with torch.device("meta"):
    model = omni.Qwen2_5OmniThinkerForConditionalGeneration(config)
begin = [5, 5, config.vision_start_token_id, config.audio_start_token_id]
video, sound = [config.video_token_id] * 21, [config.audio_token_id] * 4
end = [config.audio_end_token_id, config.vision_end_token_id, 5, 5]
ids = torch.tensor([begin + video + sound + end])  # one frame of 3 x 7 tokens
positions, _ = model.model.get_rope_index(
    ids, video_grid_thw=torch.tensor([[1, 6, 14]]), attention_mask=torch.ones_like(ids),
    use_audio_in_video=True, audio_seqlens=torch.tensor([16]),
    second_per_grids=torch.tensor([0.5]),
)  # fmt: skip
print("video, width:", positions[2, 0, 4:25].tolist())
print("text after:  ", positions[0, 0, 29:].tolist())
assert positions[0, 0, 29] <= positions[2, 0, 4:25].max()
