"""ViViT: frames of another size raise, though it is asked to resize its positions."""

import torch
from transformers import VivitConfig
from transformers.models.vivit.modeling_vivit import VivitEmbeddings

failed = 0
for frames, height, width in ((2, 64, 64), (4, 32, 48)):  # the model is for 32 x 32 pixels
    config = VivitConfig(image_size=32, num_frames=frames, tubelet_size=[2, 16, 16], hidden_size=8)
    video = torch.zeros(1, frames, 3, height, width)
    try:
        VivitEmbeddings(config)(video, interpolate_pos_encoding=True)
    except RuntimeError as error:
        print(f"{frames} frames of {height} x {width}: {error}")
        failed += 1
assert failed
