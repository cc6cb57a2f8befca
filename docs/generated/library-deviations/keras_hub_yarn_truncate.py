"""KerasHub: with truncate=True, YaRN rotates every position past the trained length alike."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import numpy as np
from keras_hub.layers import RotaryEmbedding

trained = 4096
layer = RotaryEmbedding(
    rope_type="yarn", scaling_factor=4.0, original_max_position_embeddings=trained, truncate=True
)
x = np.ones((1, 4, 1, 64), "float32")
positions = np.array([4095, 4096, 4097, 5000])
y = np.array(layer(x, positions=positions))[0, :, 0]
turned = np.arctan2(y[:, 32], y[:, 0]) - np.pi / 4
print("position   angle of pair 0, which turns by 1 rad per token, from that of position 4095")
for position, angle in zip(positions, turned - turned[0], strict=True):
    expected = (position - 4095) % (2 * np.pi)
    print(f"{position:8}   expected {expected:.4f}, got {angle % (2 * np.pi):.4f}")
assert abs((turned[1] - turned[0] - 1) % (2 * np.pi)) < 0.01
assert (y[2:] == y[1]).all()
