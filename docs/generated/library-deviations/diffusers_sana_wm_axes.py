"""diffusers: SANA-WM's fhw_dim does not change the axes of the channels."""

import torch
from diffusers.models.transformers.transformer_sana_wm import SanaWMRotaryPosEmbed

channels = (16, 48, 48)  # of time, height and width
module = SanaWMRotaryPosEmbed(112, (1, 1, 1), 1024, fhw_dim=channels)
table = module((2, 2, 2))[0, 0].reshape(2, 2, 2, -1)

CELLS = torch.eye(3).int().tolist()


def pairs(frame, row, column):
    """Return the pairs that turn if one position goes from 0 to 1."""
    turned = torch.angle(table[frame, row, column]).abs() > 0
    return turned.nonzero().flatten().tolist()


for name, cell, n in zip(["time", "height", "width"], CELLS, channels, strict=True):
    found = pairs(*cell)
    print(f"{name}: expected {n // 2} pairs, got {len(found)}: {found[0]} .. {found[-1]}")
assert [len(pairs(*cell)) for cell in CELLS] == [20, 18, 18]
