"""diffusers: the rows of a cropped picture are too close to each other."""

import numpy as np
import torch
from diffusers.models.embeddings import get_2d_rotary_pos_embed
from diffusers.pipelines.hunyuandit.pipeline_hunyuandit import get_resize_crop_region_for_grid

# HunyuanDiT makes 768 x 1280 pixels: 48 x 80 patches, and the size it is trained with is 32 x 32.
height, width, base = 768 // 16, 1280 // 16, 512 // 16
start, stop = get_resize_crop_region_for_grid((height, width), base)
dim = 88
cos, sin = get_2d_rotary_pos_embed(dim, (start, stop), (height, width), output_type="pt")
# The last dim / 2 channels are those of the row; the first of them has frequency 1.
turned = torch.atan2(sin, cos)[::width, dim // 2].double().numpy()
rows = np.round((np.linspace(start[0], stop[0], height) - turned) / (2 * np.pi)) * 2 * np.pi
rows = rows + turned
expected = np.linspace(start[0], stop[0], height, endpoint=False)
print("crop from row", start[0], "to", stop[0], "in", height, "rows")
print("expected", expected[[0, 1, 24, 47]].round(4), "step", (expected[1] - expected[0]).round(5))
print("got     ", rows[[0, 1, 24, 47]].round(4), "step", (rows[1] - rows[0]).round(5))
off = abs(rows - expected).max() / (expected[1] - expected[0])
print(f"the last row is off by {off:.3f} patches")
assert 0.3 < off < 0.34
