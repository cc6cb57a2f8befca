"""KerasHub: under mixed_bfloat16 the sinusoids' positions and angles are bfloat16."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import numpy as np
import torch
from keras_hub.layers import SinePositionEncoding

layer = SinePositionEncoding(dtype="mixed_bfloat16")
got = layer(torch.zeros(1, 600, 64)).float().numpy()[0]
angle = np.arange(600)[:, None] * 10000.0 ** (-np.arange(32) / 32)
right = np.stack([np.sin(angle), np.cos(angle)], -1).reshape(600, 64)
off = abs(got - right).max(axis=1)
for p in (10, 100, 257, 599):
    print(f"position {p}: expected {right[p, :4].round(3)}, got {got[p, :4].round(3)}")
print("rows 256 and 257 are equal:", np.array_equal(got[256], got[257]))
print("first off by more than 2**-7 at position", int(np.argmax(off > 2**-7)))
assert np.array_equal(got[256], got[257])
assert off.max() > 1
