"""MiniCPM-V 4.7: a newline after an image has the position where the image starts."""

import torch
from transformers import MiniCPMV4_7Config
from transformers.models.minicpmv4_7.modeling_minicpmv4_7 import MiniCPMV4_7Model

START, END, SLICE, SLICE_END, NEWLINE, IMAGE = range(1, 7)
config = MiniCPMV4_7Config(
    image_start_id=START, image_end_id=END, slice_start_id=SLICE, slice_end_id=SLICE_END,
    newline_id=NEWLINE, image_token_id=IMAGE, video_token_id=7,
)  # fmt: skip
with torch.device("meta"):
    model = MiniCPMV4_7Model(config)
ids = torch.tensor([[9, 9, 9, START, IMAGE, IMAGE, IMAGE, IMAGE, END, NEWLINE, 9]])
found, _ = model.get_rope_index(
    ids, mm_token_type_ids=(ids == IMAGE).long(), target_sizes=torch.tensor([[8, 8]])
)
print("image, time:", found[0, 0, 3:9].tolist())
print("newline:    ", found[:, 0, 9].tolist(), " text after it:", found[:, 0, 10].tolist())
# "Tokens between two frames of a clip are 1-D text", and the frame ends with "</image>".
assert found[:, 0, 9].tolist() == [3, 3, 3]  # where the image starts; text would have 6
