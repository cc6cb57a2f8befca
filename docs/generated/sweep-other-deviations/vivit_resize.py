"""ViViT: frames of another size raise, though it is asked to resize its positions."""

import torch
import transformers
from transformers import VivitConfig
from transformers.models.vivit.modeling_vivit import VivitEmbeddings

failed = []
# The model is for 32 x 32 pixels; a tubelet has two frames.
for frames, height, width in ((2, 32, 48), (2, 64, 64), (4, 32, 48)):
    config = VivitConfig(image_size=32, num_frames=frames, tubelet_size=[2, 16, 16], hidden_size=8)
    video = torch.zeros(1, frames, 3, height, width)
    try:
        VivitEmbeddings(config)(video, interpolate_pos_encoding=True)
    except RuntimeError as error:
        print(f"{frames} frames of {height} x {width}: {error}")
        failed.append((frames, height, width))
assert (2, 32, 48) not in failed
assert (4, 32, 48) in failed
later = tuple(map(int, transformers.__version__.split(".")[:2])) > (5, 5)
assert ((2, 64, 64) in failed) == later  # 5.5.4 resizes the positions of one tubelet
